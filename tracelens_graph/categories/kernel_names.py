"""What names of kernels say: types, tiles, layouts, pipeline stages, as the libraries write them into the names.

One parser per family of names. Nothing is guessed: what a name does not say, or says with a letter that is not known
here, is not given. Sources: Tensile's naming of problem types and solutions, CUTLASS's naming convention for its
profiler, FlashAttention's template parameters, PyTorch inductor's and triton_kernels' naming, and the names that the
kernels of closed libraries bear in profiles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tracelens_graph.categories.gemm_names import DTYPES, GEMM_NAMES, ParsedName, Reader, sizes
from tracelens_graph.tables.names import short_name
from tracelens_graph.utils.patterns import LazyPattern

_READ = 8192


def parse_name(name: str) -> ParsedName | None:
    """What a kernel's name says; None where it is of no family known here."""
    text = name[:_READ]
    found = ((pattern.search(text), read) for marker, pattern, read in _NAMES if marker in text)
    return next((parsed for match, read in found if match and (parsed := read(match))), None)


def title(name: str) -> str:
    """A kernel by library, operation and tile, as `Tensile gemm 128x256x32`; empty where its name shows none."""
    parsed = parse_name(name)
    if parsed is None or not (parsed.tile or (parsed.operation or "").startswith("attention")):
        return ""
    return " ".join(filter(None, (parsed.family, parsed.operation, "x".join(map(str, parsed.tile or ())))))


def properties(name: str) -> dict[str, Any]:
    """What a kernel's name says as properties of a node: numbers, texts and truth values; {} if nothing.

    Sizes come one by one: `tile_m`, `tile_n`, `tile_k`, `instruction_m`, ..., `cluster_m`, `cluster_n`.
    """
    parsed = parse_name(name)
    found: dict[str, Any] = {}
    for field in fields(parsed) if parsed else ():
        value = getattr(parsed, field.name)
        if isinstance(value, tuple):
            found |= {f"{field.name}_{axis}": size for axis, size in zip("mnk", value, strict=False)}
        elif value is not None:
            found[field.name] = value
    return found


_FLASH = LazyPattern(
    r"flash_(?P<op>fwd|bwd)_(?P<kind>\w{0,60}?)kernel<(?:\w{1,40}::)*Flash_\w{3}_kernel_traits<(?P<head>\d{1,4}), ?"
    r"(?P<m>\d{1,4}), ?(?P<n>\d{1,4})[^<>]{0,200}?(?:cutlass::(?P<dtype>\w{1,16}))[^<>]{0,80}"
    r"(?:<[^<>]{0,200}> ?> ?, ?(?P<flags>[a-z, ]{0,200}))?"
)


def _flash(found: re.Match[str]) -> ParsedName:
    """FlashAttention 2, as PyTorch and the package of that name build it."""
    flags = [flag.strip() for flag in (found["flags"] or "").split(",")]
    # The first flag of most kernels is dropout; those that split the keys have none.
    causal = flags[0 if "splitkv" in found["kind"] else 1 :][:1]
    return ParsedName(
        "FlashAttention",
        "attention forward" if found["op"] == "fwd" else "attention backward",
        dtype=DTYPES.get(found["dtype"]),
        tile=(int(found["m"]), int(found["n"])),
        head_dim=int(found["head"]),
        causal=causal == ["true"] if causal in (["true"], ["false"]) else None,
        split_k=True if "splitkv" in found["kind"] else None,
    )


_FMHA = LazyPattern(
    r"fmha_(?P<op>fwd|bwd)_hd(?P<head>\d{1,4})(?:_hd\d{1,4})?_(?P<dtype>bf16|fp16|fp8)(?P<causal>_causal)?|"
    r"fmha_cutlass(?P<way>[FB])_(?P<xtype>bf16|f16|f32)_aligned_(?P<tile>\d{1,3}x\d{1,3})_\w{0,20}?sm(?P<arch>\d{2,3})|"
    r"fmhaSm(?P<sm>\d{2,3})[a-z]?Kernel_Qkv(?P<qkv>E4m3|Bfloat16|Fp16)O(?P<out>E4m3|E2m1|Bfloat16|Fp16)H(?:Qk)?"
    r"(?P<size>\d{1,4})(?P<rest>\w{0,120})"
)


def _fmha(found: re.Match[str]) -> ParsedName:
    """Fused attention of aiter, of xformers and PyTorch, and of TensorRT-LLM."""
    if found["op"]:
        operation = "attention forward" if found["op"] == "fwd" else "attention backward"
        dtype, head = DTYPES.get(found["dtype"]), int(found["head"])
        return ParsedName("aiter", operation, dtype=dtype, head_dim=head, causal=bool(found["causal"]))
    if found["way"]:
        operation = "attention forward" if found["way"] == "F" else "attention backward"
        dtype, tile = DTYPES[found["xtype"]], sizes(found["tile"])
        return ParsedName("xformers", operation, dtype=dtype, tile=tile, arch=f"sm{found['arch']}")
    tile_sizes = re.search(r"Q(\d{1,4})Kv(\d{1,4})", found["rest"])
    dtype, out = DTYPES[found["qkv"].lower()], DTYPES[found["out"].lower()]
    return ParsedName(
        "TensorRT-LLM",
        "attention forward",
        dtype=dtype,
        out_dtype=out,
        tile=(int(tile_sizes[1]), int(tile_sizes[2])) if tile_sizes else None,
        arch=f"sm{found['sm']}",
        head_dim=int(found["size"]),
        causal="Causal" in found["rest"],
    )


_TRITON_ATTENTION = LazyPattern(
    r"\A_?(?:attn_(?P<op>fwd|bwd)(?:_preprocess)?|bwd_(?:kernel_(?:dk_dv|dq|fuse)|preprocess))(?:\.kd)?\Z"
)


def _triton_attention(found: re.Match[str]) -> ParsedName:
    """Attention in Triton; AOTriton, PyTorch's for ROCm, is compiled ahead of time."""
    return ParsedName("Triton", f"attention {'forward' if found['op'] == 'fwd' else 'backward'}")


_CK = LazyPattern(r"\bck(?:_tile)?::|_ZNK?(?:2ck|7ck_tile)\d")
_CK_OPERATIONS = {
    "conv_fwd": "fprop", "bwd_data": "dgrad", "bwd_weight": "wgrad", "fmha_?fwd|gemm_softmax_gemm": "attention forward",
    "fmha_?bwd": "attention backward", "gemm": "gemm",
}  # fmt: skip


def _composable_kernel(found: re.Match[str]) -> ParsedName:
    """Composable Kernel and CK Tile, by what their functions are called."""
    function = short_name(found.string).lower()
    fitting = (operation for pattern, operation in _CK_OPERATIONS.items() if re.search(pattern, function))
    return ParsedName("CK", next(fitting, None))


_INDUCTOR = LazyPattern(r"\Atriton_(?:(?P<kind>[a-z]{3})_)?fused_(?:(?P<fused>\w*?)_)?\d+(?:\.kd)?$")
_INDUCTOR_KINDS = {
    "poi": "pointwise", "red": "reduction", "per": "persistent reduction", "tem": "template", "for": "foreach",
}  # fmt: skip


def _inductor(found: re.Match[str]) -> ParsedName:
    """Kernels that torch.compile wrote. The names of the operations are joined by what they may hold themselves."""
    return ParsedName("inductor", _INDUCTOR_KINDS.get(found["kind"] or ""), fused=found["fused"])


_GENERIC = LazyPattern(r"(?:elementwise|reduce|multi_tensor_apply)_\w{0,40}<")
_FUNCTOR = re.compile(
    r"\b(?!(?:Binary|AUnary|BUnary|Nullary)Functor\b|gpu_kernel|gpu_index_kernel|_?cuda_\w*_internal)"
    r"(\w{0,60}?(?:Functor(?:On\w{1,16})?(?:_\w{1,20})?|_kernel(?:_cuda|_impl)?|_functor|Ops|KernelImpl\w{0,20}|_cuda_out))"
    r"(?=[<(>,:]|$)"
)


def _pytorch(generic: re.Match[str]) -> ParsedName | None:
    """What PyTorch's generic kernels apply to each element."""
    functor = _FUNCTOR.search(generic.string, generic.end())
    return ParsedName("PyTorch", functor=functor[1]) if functor else None


_NAMES: Sequence[tuple[str, LazyPattern, Reader]] = (
    *GEMM_NAMES,
    ("flash_", _FLASH, _flash),
    ("fmha", _FMHA, _fmha),
    ("attn_", _TRITON_ATTENTION, _triton_attention),
    ("bwd_", _TRITON_ATTENTION, _triton_attention),
    ("ck", _CK, _composable_kernel),
    ("triton_", _INDUCTOR, _inductor),
    ("at::native", _GENERIC, _pytorch),
)
"""As `GEMM_NAMES`, of all families; the first that can be read counts."""
