"""Changes with known truth, each planted into a real trace: what the first screen must name, and what it must not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from plants.kinds import (
    Edit,
    arguments,
    both,
    cast,
    clock,
    compiled_backward,
    copies,
    fuse,
    fuse_apart,
    graph,
    insert,
    join_products,
    launch_cost,
    loader,
    noise,
    pause,
    remove,
    rename,
    renamed,
    repeat,
    serialize,
    slow,
    slow_in,
    split_k,
    start_earlier,
    swap,
    synchronize,
)


class Plant(NamedTuple):
    """A change with what answers must say of it.

    Attributes:
        kind: the kind of change.
        trace: key of `TRACES`.
        edit: what plants it.
        named: patterns that one paragraph of the first screen must match, all of them; a tuple for each change.
        never: patterns that nothing on the first screen may match.
        first: what is planted into the other side.
    """

    kind: str
    trace: str
    edit: Edit
    named: tuple[tuple[str, ...], ...]
    never: tuple[str, ...] = ()
    first: Edit | None = None

    @property
    def name(self) -> str:
        """What tests call it."""
        return f"{self.kind}-{self.trace}"


CLOCK = "clock, power"
ONLY = "only in [AB]|only in (before|after)"
NO_CAUSE = (CLOCK, "another device", "other (sizes|types|strides)")
"""What explains a time where nothing of the kind was planted."""


NEW_KERNEL = "void mine::scale_kernel<float>(float*)"


def _new(op: str, new: str) -> Callable[[str], str]:
    """An op called otherwise, and its kernel that of somebody else."""
    return renamed(rf"^{op}$|^(?!aten)(?!nn)(?!cuda)(?!hip).*$", new)


def _doubled(found: re.Match[str]) -> str:
    return str(2 * int(found[0]))


PLANTS = (
    Plant("insert", "vit", insert("aten::gelu", "GELUActivation_.*", _new("aten::gelu", "mine::scale")),
          (("mine::scale", ONLY, "x 12"),), (*NO_CAUSE, "only in A")),
    Plant("insert", "resnet", insert("aten::relu_", "ReLU_.*", _new("aten::relu_", "mine::scale")),
          (("mine::scale", ONLY),), NO_CAUSE),
    Plant("remove", "vit", remove("aten::add", "ViTOutput_.*"), (("aten::add", ONLY, "x 12"),), NO_CAUSE),
    Plant("remove", "resnet", remove("aten::add_", "BatchNorm2d_.*"), (("aten::add_", ONLY),), NO_CAUSE),
    Plant("swap one", "vit", swap("ViTSdpaAttention_.*", "ViTIntermediate_.*", "ViTLayer_5"),
          (("moved", "ViTIntermediate|ViTSdpaAttention"),), (*NO_CAUSE, ONLY)),
    Plant("swap one", "resnet", swap("Conv2d_.*", "BatchNorm2d_.*", "BasicBlock_5"),
          (("moved", "Conv2d|BatchNorm2d"),), (*NO_CAUSE, ONLY)),
    Plant("swap all", "vit", swap("ViTSdpaAttention_.*", "ViTIntermediate_.*", "ViTLayer_.*"),
          (("moved", "ViTIntermediate|ViTSdpaAttention"),), (*NO_CAUSE, ONLY)),
    Plant("swap all", "resnet", swap("Conv2d_.*", "BatchNorm2d_.*", "BasicBlock_.*"),
          (("moved", "Conv2d|BatchNorm2d"),), (*NO_CAUSE, ONLY)),
    Plant("rename kernel", "vit", rename("void at::native::.*vectorized_layer_norm_kernel.*",
                                         "void quick::layer_norm_fwd<float>(float*)", 0.6),
          (("aten::native_layer_norm", "layer_norm_fwd"),), (*NO_CAUSE, ONLY)),
    Plant("rename kernel", "resnet", rename("void at::native::batch_norm_collect_statistics.*",
                                            "void quick::bn_stats<float>(float*)", 1.6),
          (("aten::native_batch_norm", "bn_stats"),), (*NO_CAUSE, ONLY)),
    Plant("rename module", "vit", both(rename("ViTIntermediate", "ViTUpProjection"),
                                        slow_in("ViTUpProjection_.*", 1.5)),
          (("ViTUpProjection|ViTIntermediate", "1.5|aten::addmm"),), (*NO_CAUSE, ONLY)),
    Plant("rename module", "resnet", both(rename("BasicBlock", "PlainBlock"), slow("batch_norm_collect_stat", 1.5)),
          (("native_batch_norm", "1[.][1-5]"),), (*NO_CAUSE, ONLY)),
    Plant("slow one layer", "vit", slow_in("ViTLayer_7", 3.0), (("ViTLayer", "1 of 12", "3[.]0"),), NO_CAUSE),
    Plant("slow one layer", "resnet", slow_in("BasicBlock_5", 3.0, "aten::native_batch_norm"),
          (("native_batch_norm", "BasicBlock", "1 of"),), NO_CAUSE),
    Plant("slow one call", "vit", slow_in("ViTSdpaAttention_9", 4.0, "aten::_flash_attention_forward"),
          (("flash_attention_forward", "1 of 12", "4[.]0"),), NO_CAUSE),
    Plant("slow kernel", "vit", slow("GeluCUDA", 2.0), (("aten::gelu", "2[.]00x"),), NO_CAUSE),
    Plant("slow kernel", "resnet", slow("batch_norm_backward", 2.0), (("native_batch_norm_backward", "[12][.]"),),
          NO_CAUSE),
    Plant("shapes", "vit", arguments("aten::(linear|addmm|gelu)", "Input Dims", "3072", "4096", 1.33,
                                     "ViT(Intermediate|Output)_.*"),
          (("other sizes", "3072", "4096"),), (CLOCK, ONLY)),
    Plant("shapes", "resnet", arguments("aten::(native_)?batch_norm", "Input Dims", "56", "112", 4.0),
          (("other sizes", "56", "112"),), (CLOCK, ONLY)),
    Plant("dtype", "vit", arguments("aten::(linear|addmm)", "Input type", "BFloat16", "Float", 2.0),
          (("other types", "BFloat16", "Float"),), (CLOCK, ONLY)),
    Plant("dtype", "resnet", arguments("aten::(native_)?batch_norm", "Input type", "BFloat16", "Float", 1.8),
          (("other types", "BFloat16", "Float"),), (CLOCK, ONLY)),
    Plant("batch", "vit", arguments("aten::.*", "Input Dims", r"(?<=\[)(4|788)(?=,)", _doubled, 1.9),
          (("other sizes", "4x", "8x"),), (CLOCK, ONLY)),
    Plant("batch", "resnet", arguments("aten::.*", "Input Dims", r"(?<=\[)10(?=,)", _doubled, 1.9),
          (("other sizes", "10x", "20x"),), (CLOCK, ONLY)),
    Plant("clock", "vit", clock(1.1), (("all kernels", "1[.]10x"),), (ONLY, "do not show why")),
    Plant("clock", "resnet", clock(1.25), (("all kernels", "1[.]25x"),), (ONLY, "do not show why")),
    Plant("clock and one", "vit", clock(1.1, "GeluCUDA", 2.0), (("all kernels", "1[.]10x"), ("aten::gelu", "2[.]0")),
          (ONLY,)),
    Plant("clock and one", "resnet", clock(0.8, "batch_norm_backward", 2.0),
          (("all kernels", "0[.]80x"), ("native_batch_norm_backward",)), (ONLY,)),
    Plant("cast", "vit", cast("aten::linear", "ViTIntermediate_.*"), (("casts", "aten::to|copy_", ONLY),), NO_CAUSE),
    Plant("cast", "resnet", cast("aten::conv2d", "Conv2d_.*"), (("casts", "aten::to|copy_", ONLY),), NO_CAUSE),
    Plant("synchronize", "vit", synchronize("ViTLayer_.*"), (("synchroni[sz]", "in ViTEncoder"),), (*NO_CAUSE, ONLY)),
    Plant("synchronize", "resnet", synchronize("BasicBlock_.*", 3000.0), (("synchroni[sz]",),), (*NO_CAUSE, ONLY)),
    Plant("batch", "resnet", arguments("aten::.*", "Input Dims", r"\[10,", "[20,", 1.9),
          ((r"Unlike: other sizes: 10x\S+ became 20x\S+", "So: times are not of equal work"),), (CLOCK, ONLY)),
    Plant("pause", "vit", pause("ViTIntermediate_.*", 1500.0),
          (("python", r"the 12 longest of \S+ in ViTIntermediate"),), (*NO_CAUSE, ONLY)),
    Plant("loader", "vit", loader(4.0), (("data loader", "4[.]0|3[.]9"),), (*NO_CAUSE, ONLY)),
    Plant("loader", "resnet", loader(60.0), (("data loader",),), (*NO_CAUSE, ONLY)),
    Plant("fuse", "vit", fuse("aten::addmm", "aten::gelu", "ViTIntermediate_.*", "mine::addmm_gelu", NEW_KERNEL),
          (("addmm_gelu|scale_kernel", "fused|became", "ViTIntermediate"),), (*NO_CAUSE, ONLY)),
    Plant("fuse", "resnet", fuse("aten::miopen_convolution", "aten::native_batch_norm", "BasicBlock_.*",
                                 "mine::conv_bn", NEW_KERNEL, 0.4),
          (("conv_bn|scale_kernel", "fused|became", "BasicBlock"),), (*NO_CAUSE, ONLY)),
    Plant("split-K", "vit", split_k("aten::addmm", "cutlass|gemm"), (("aten::addmm", "splitK"),), (*NO_CAUSE, ONLY)),
    Plant("split-K", "resnet", split_k("aten::miopen_convolution", "_ZN2ck"), (("convolution", "splitK"),),
          (*NO_CAUSE, ONLY)),
    Plant("two", "vit", both(slow("GeluCUDA", 3.0), insert("aten::add", "ViTOutput_.*",
                                                           _new("aten::add", "mine::scale"))),
          (("aten::gelu", "3[.]00x"), ("mine::scale", ONLY)), NO_CAUSE),
    Plant("two", "resnet", both(slow("batch_norm_backward", 2.0), remove("aten::add_", "BatchNorm2d_.*")),
          (("native_batch_norm_backward",), ("aten::add_", ONLY)), NO_CAUSE),
    Plant("launch cost", "vit", launch_cost(15.0), ((r"156 launches of \S+ -> \S+ us each",),), (*NO_CAUSE, ONLY)),
    Plant("launch cost", "resnet", launch_cost(60.0), ((r"launches of \S+ -> \S+ us each",),), (*NO_CAUSE, ONLY)),
    Plant("noise", "vit", noise(0.03), (), (*NO_CAUSE, ONLY, "1[.]00x")),
    Plant("noise", "resnet", noise(0.03), (), (*NO_CAUSE, ONLY, "1[.]00x")),
    Plant("repeat", "vit", repeat(4), (("only repetition [1-4] of 4", "no change|is the same"),), (*NO_CAUSE, ONLY)),
    Plant("repeat", "resnet", repeat(3), (("only repetition [1-3] of 3", "no change|is the same"),),
          (*NO_CAUSE, ONLY)),
    Plant("overlap", "resnet", serialize("nccl"),
          ((r"exposed communication \S+ -> \S+ ms \+[1-9]", r"overlap with other work \S+ -> 0[.]00\d ms",
            "collectives take"),), NO_CAUSE),
    Plant("more overlap", "resnet", start_earlier("nccl", 1500.0),
          ((r"exposed communication \S+ -> \S+ ms -[1-9]", r"overlap with other work \S+ -> \S+ ms \+[1-9]"),),
          NO_CAUSE),
    Plant("copies", "vit", copies("ViTLayer_.*", (1_000_000, 40.0), (2_000_000, 80.0))[1],
          (("Memcpy", "12 -> 24 MB"),), NO_CAUSE, copies("ViTLayer_.*", (1_000_000, 40.0), (2_000_000, 80.0))[0]),
    Plant("copies", "resnet", copies("BasicBlock_.*", (1_000_000, 40.0), (1_000_000, 160.0))[1],
          (("Memcpy", "25 -> 6.25 GB/s"),), NO_CAUSE, copies("BasicBlock_.*", (1_000_000, 40.0), (1, 80.0))[0]),
    Plant("alignment", "vit", rename("(cutlass_80_tensorop_.*?align)8(>.*)?$", r"\g<1>1\2", 1.7),
          (("align8 became align1", "odd size"),), (*NO_CAUSE, ONLY)),
    Plant("compiled", "resnet", compiled_backward("BasicBlock_5"),
          (("fused by a compiler", "backward", "triton_red_fused", "0[.]033 -> 0[.]020"),), (*NO_CAUSE, ONLY, "moved")),
    Plant("compiled layers", "resnet", compiled_backward("BasicBlock_.*"),
          (("fused by a compiler", "backward", "triton_red_fused", "0[.]271 -> 0[.]163"),),
          (*NO_CAUSE, ONLY, "moved")),
    Plant("compiled whole", "resnet", compiled_backward("ResNet_0"),
          (("fused by a compiler", "backward", "triton_red_fused", "0[.]271 -> 0[.]163"),),
          (*NO_CAUSE, ONLY, "moved")),
    Plant("graph", "vit", graph("ViTModel_0"), (("launched as a graph|graph_launch",),), (CLOCK, "another device")),
    Plant("graph", "resnet", graph("ResNet_0"), (("launched as a graph|graph_launch",),), (CLOCK, "another device")),
    Plant("insert in one layer", "qwen",
          insert("aten::silu", "SiLU_17", renamed("^aten::silu$|^void.*$", "mine::gate")),
          (("mine::gate", ONLY, "1 of 24: layer 17"),), NO_CAUSE),
    Plant("types of one layer", "qwen",
          arguments("aten::(linear|mm)", "Input type", "BFloat16", "Float", 1.9, "Qwen2MLP_13"),
          (("other types", "1 of 24: layer 13"),), (CLOCK, ONLY)),
    Plant("slow one layer", "qwen", slow_in("Qwen2DecoderLayer_19", 3.0),
          (("Qwen2DecoderLayer: 1[.]317 -> 3[.]950", "1 of 24: layer 19", "3[.]00x", "aten::mm"),), NO_CAUSE),
    Plant("siblings", "qwen", fuse_apart("SiLU_.*", "aten::mul", "Qwen2MLP_.*", "_C::silu_and_mul",
                                         "void vllm::act_and_mul_kernel<c10::BFloat16>(c10::BFloat16*)"),
          (("silu_and_mul", "fused", "2[.]152 -> 1[.]291"),), (*NO_CAUSE, ONLY)),
    Plant("siblings", "vit", join_products("ViTSdpaSelfAttention_.*", 0, 3,
                                          (r"(?<=\[)768(?=\])|(?<=\[768, )768(?=\])", "2304")),
          (("aten::addmm", "fused", "1 aten::addmm in place of 3"),), (*NO_CAUSE, ONLY)),
    Plant("products", "qwen", join_products("Qwen2MLP_.*", 0, 2, ("2816", "5632")),
          (("aten::mm", "fused", "1 aten::mm in place of 2", "2816 became"),), (*NO_CAUSE, ONLY)),
)  # fmt: skip
