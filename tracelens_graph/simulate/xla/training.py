"""The compiled training step: a transformer's forward pass, its backward pass, the update of its weights."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from tracelens_graph.simulate import kernels
from tracelens_graph.simulate.xla.program import Builder, Instruction, Options, Pass, Shape, Work, block, number, packed

FILE = "/opt/train.py"
NAME = "jit_train_step"
FUNCTION = "train_step"


class Training:
    """Builds the program of one device; the batch is that of a device.

    Attributes:
        builder: the program.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self.builder = Builder(NAME, FILE)
        self._rows = Shape("bf16", (options.batch * options.tokens, options.width))
        self._gradients: list[tuple[str, Instruction]] = []
        self._channels = 0

    def build(self) -> Builder:
        """The whole step."""
        o, add, buffers = self._options, self.builder.add, self._options.command_buffers != "none"
        ids = add("Arg", "parameter", Shape("s32", (o.batch * o.tokens,)))
        table = self._weight(o.vocabulary, o.width)
        layers = [self._weights() for _ in range(o.layers)]
        head = self._weight(o.width, o.vocabulary)
        x = self._fusion("gather", self._rows, [table, ids], ("embed",), "gather", 18)
        saved = []
        for number_, weights in enumerate(layers):
            with self.builder.command_buffer(buffers, (f"layer_{number_}",), "forward"):
                x, kept = self._forward(f"layer_{number_}", weights, x)
            saved.append(kept)
        logits = self._gemm(x, head, ("head",), "forward", 44)
        loss = self._fusion("reduce", Shape("f32", (self._rows.dims[0],)), [logits], ("loss",), "reduce_sum", 47)
        grad = self._fusion("subtract", logits.shape, [logits, loss], ("loss",), "sub", 47, "backward")
        grad = self._gemm(grad, head, ("head",), "backward", 44, contract=(1, 1))
        for number_, (weights, kept) in reversed(list(enumerate(zip(layers, saved, strict=True)))):
            with self.builder.command_buffer(buffers, (f"layer_{number_}",), "backward"):
                grad = self._backward(f"layer_{number_}", weights, kept, grad)
            self._reduce(f"layer_{number_}")
        updated = [
            self._fusion("subtract", gradient.shape, [gradient], (scope, "adam"), "sub", 61)
            for scope, gradient in self._gradients
        ]
        add("tuple", "tuple", [one.shape for one in updated], updated)
        return self.builder

    def _weight(self, *dims: int) -> Instruction:
        return self.builder.add("Arg", "parameter", Shape("bf16", dims))

    def _weights(self) -> list[Instruction]:
        width = self._options.width
        return [self._weight(*dims) for dims in ((width, width), (width, 4 * width), (4 * width, width))]

    def _forward(
        self, layer: str, weights: Sequence[Instruction], x: Instruction
    ) -> tuple[Instruction, list[Instruction]]:
        out, up, down = weights
        norm = self._fusion("multiply", self._rows, [x], (layer, "norm"), "mul", 24)
        attended, *saved = self._attention(norm, (layer, "attention"))
        y = self._gemm(attended, out, (layer, "attention"), "forward", 30)
        y = self._fusion("add", self._rows, [x, y], (layer,), "add", 33)
        hidden = self._gemm(y, up, (layer, "mlp"), "forward", 36)
        active = self._fusion("tanh", hidden.shape, [hidden], (layer, "mlp", "gelu"), "tanh", 37)
        z = self._gemm(active, down, (layer, "mlp"), "forward", 38)
        z = self._fusion("add", self._rows, [y, z], (layer,), "add", 40)
        return z, [norm, attended, y, hidden, active, *saved]

    def _backward(
        self, layer: str, weights: Sequence[Instruction], kept: Sequence[Instruction], grad: Instruction
    ) -> Instruction:
        out, up, down = weights
        norm, attended, y, hidden, active, *saved = kept
        back: Pass = "backward"
        scope = (layer, "mlp")
        self._gradients.append((layer, self._gemm(active, grad, scope, back, 38, contract=(0, 0))))
        inner = self._gemm(grad, down, scope, back, 38, contract=(1, 1))
        inner = self._fusion("multiply", hidden.shape, [inner, hidden], (*scope, "gelu"), "mul", 37, back)
        self._gradients.append((layer, self._gemm(y, inner, scope, back, 36, contract=(0, 0))))
        grad = self._gemm(inner, up, scope, back, 36, contract=(1, 1))
        scope = (layer, "attention")
        self._gradients.append((layer, self._gemm(attended, grad, scope, back, 30, contract=(0, 0))))
        inner = self._gemm(grad, out, scope, back, 30, contract=(1, 1))
        inner = self._attention_backward(inner, norm, saved, scope)
        return self._fusion("multiply", self._rows, [inner, norm], (layer, "norm"), "mul", 24, back)

    def _reduce(self, layer: str) -> None:
        """Sum the gradients of a layer over the devices."""
        if self._options.devices == 1:
            return
        mine = [(at, one) for at, (scope, one) in enumerate(self._gradients) if scope == layer]
        shapes = [one.shape for _, one in mine]
        size = sum(shape.bytes for shape in shapes)
        self._channels += 1
        shared: dict[str, Any] = {
            "op_name": _op_name((layer,), "backward", "psum"),
            "line": 55,
            "scopes": (layer,),
            "part": "backward",
        }
        groups = block(49, packed(1, range(self._options.devices)))
        kernel = Work("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 9_000 + size // 180)
        start = self.builder.add(
            "all-reduce-start", "all-reduce-start", shapes, [one for _, one in mine], **shared,
            more=groups + number(26, self._channels), works=(kernel,), is_collective=True,
        )  # fmt: skip
        done = self.builder.add("all-reduce-done", "all-reduce-done", shapes, [start], **shared)
        for place, (at, one) in enumerate(mine):
            self._gradients[at] = layer, self.builder.part(done, one.shape, place)

    def _fusion(
        self, opcode: str, shape: Shape, operands: list[Instruction], scopes: tuple[str, ...], primitive: str,
        line: int, part: Pass = "forward",
    ) -> Instruction:  # fmt: skip
        """A loop over the elements of the result."""
        moved = shape.bytes + sum(operand.shape.bytes for operand in operands if opcode != "gather")
        kernel = Work(f"loop_{opcode}_fusion", kernels.roofline(math.prod(shape.dims), moved))
        more = block(11, "kInput" if opcode == "reduce" else "kLoop")
        body = self.builder.fused(opcode, shape, operands, packed(14, [1]) if opcode == "reduce" else b"")
        return self.builder.add(
            f"{opcode}_fusion", "fusion", shape, operands, called=(body,), more=more, scopes=scopes, part=part,
            op_name=_op_name(scopes, part, primitive), line=line, works=(kernel,),
        )  # fmt: skip

    def _gemm(
        self, a: Instruction, b: Instruction, scopes: tuple[str, ...], part: Pass, line: int,
        contract: tuple[int, int] = (1, 0),
    ) -> Instruction:  # fmt: skip
        """A product by cuBLAS; the second part of its result is workspace, which it clears where it splits the sum."""
        m, k = a.shape.dims[1 - contract[0]], a.shape.dims[contract[0]]
        n = b.shape.dims[1 - contract[1]]
        dims = {
            "lhs_contracting_dimensions": [str(contract[0])], "rhs_contracting_dimensions": [str(contract[1])],
            "lhs_batch_dimensions": [], "rhs_batch_dimensions": [],
        }  # fmt: skip
        config = json.dumps({"gemm_backend_config": {"dot_dimension_numbers": dims, "epilogue": "DEFAULT"}})
        product = kernels.gemm(m, n, k, "tn" if part == "forward" else "nt")
        works = [Work(product.name, product.duration)]
        if contract == (0, 0):
            works.insert(0, Work("Memset", kernels.FLOOR_NS, filled=4096))
        call = self.builder.add(
            "cublas-gemm", "custom-call", (Shape("bf16", (m, n)), Shape("u8", (4_194_304,))), [a, b],
            more=block(28, "__cublas$gemm") + block(43, config), scopes=scopes, part=part, line=line,
            op_name=_op_name(scopes, part, "dot_general"), works=tuple(works), flops=2 * m * n * k,
        )  # fmt: skip
        return self.builder.part(call, call.shape, 0)

    def _attention(self, rows: Instruction, scopes: tuple[str, ...]) -> list[Instruction]:
        """Causal attention by cuDNN: its result as rows and as heads, and the sums that its backward pass needs."""
        o = self._options
        heads = self._as_heads(rows)
        sums = Shape("f32", (o.batch, o.heads, o.tokens))
        call = self._fmha([heads, heads, heads], [heads.shape, sums], scopes, "forward")
        made, statistics = self.builder.part(call, heads.shape, 0), self.builder.part(call, sums, 1)
        return [self.builder.add("bitcast", "bitcast", self._rows, [made]), made, statistics]

    def _attention_backward(
        self, grad: Instruction, rows: Instruction, saved: Sequence[Instruction], scopes: tuple[str, ...]
    ) -> Instruction:
        """The gradient of queries; those of keys and values are not used."""
        made, statistics = saved
        heads, grad = self._as_heads(rows), self._as_heads(grad)
        call = self._fmha([heads, heads, heads, statistics, grad, made], [heads.shape] * 3, scopes, "backward")
        return self.builder.add("bitcast", "bitcast", self._rows, [self.builder.part(call, heads.shape, 0)])

    def _as_heads(self, rows: Instruction) -> Instruction:
        """Rows as batch, tokens, heads and elements of a head."""
        o = self._options
        shape = Shape("bf16", (o.batch, o.tokens, o.heads, o.width // o.heads))
        return self.builder.add("bitcast", "bitcast", shape, [rows])

    def _fmha(
        self, operands: list[Instruction], results: list[Shape], scopes: tuple[str, ...], part: Pass
    ) -> Instruction:
        o, is_forward = self._options, part == "forward"
        dense = 4 * o.batch * o.tokens * o.tokens * o.width
        products = {
            name: {"lhs_batch_dimensions": ["0", lhs_heads], "rhs_batch_dimensions": ["0", "2"],
                   "lhs_contracting_dimensions": [lhs], "rhs_contracting_dimensions": [rhs]}
            for name, lhs_heads, lhs, rhs in (_FORWARD_PRODUCTS if is_forward else _BACKWARD_PRODUCTS)
        }  # fmt: skip
        scores = {"element_type": "BF16", "dimensions": [str(size) for size in (o.batch, o.heads, o.tokens, o.tokens)]}
        config = {
            "fmha_scale": (o.width // o.heads) ** -0.5, "intermediate_tensor_shape": scores, "is_flash_attention": True,
            "mask_type": "CAUSAL", "dropout_rate": 0.0, "sliding_window_length": 0,
            **{f"{name}_dot_dimension_numbers": numbers for name, numbers in products.items()},
        }  # fmt: skip
        kernel = Work(
            f"cudnn_generated_fort_native_sdpa_sm90_flash_{'fprop' if is_forward else 'bprop'}_wgmma_f16_knob",
            kernels.roofline(dense * (1 if is_forward else 2), 4 * self._rows.bytes),
        )
        target = "__cudnn$fmhaSoftmax" + ("" if is_forward else "Backward")
        return self.builder.add(
            "cudnn-fmha", "custom-call", [*results, Shape("u8", (0,))], operands, scopes=scopes, part=part, line=28,
            more=block(28, target) + block(43, json.dumps({"cudnn_fmha_backend_config": config})), works=(kernel,),
            op_name=_op_name(scopes, part, "dot_product_attention"), flops=dense // 2 if is_forward else dense * 5 // 4,
        )  # fmt: skip


_FORWARD_PRODUCTS = (("bmm1", "2", "3", "3"), ("bmm2", "1", "3", "1"))
_BACKWARD_PRODUCTS = (
    ("bmm1_grad_gemm1", "1", "2", "1"), ("bmm1_grad_gemm2", "1", "3", "1"), ("bmm2_grad_gemm1", "1", "2", "1"),
    ("bmm2_grad_gemm2", "2", "3", "3"),
)  # fmt: skip
"""Products of attention, as cuDNN has them: where heads stand on the left, and what both sides sum over."""


def _op_name(scopes: tuple[str, ...], part: Pass, primitive: str) -> str:
    """As JAX writes it: what is differentiated is named by its outermost scope."""
    if "adam" in scopes:
        return "/".join((f"jit({FUNCTION})", *scopes, primitive))
    outer = f"jvp({scopes[0]})"
    outer = outer if part == "forward" else f"transpose({outer})"
    return "/".join((f"jit({FUNCTION})", outer, *scopes[1:], primitive))
