"""The ATen operators of a transformer, forward and backward, each with the kernels it launches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracelens_graph.simulate import kernels
from tracelens_graph.simulate.autograd import record
from tracelens_graph.simulate.events import SCALAR_TYPE, Tensor
from tracelens_graph.simulate.host import Thread

ADD = "CUDAFunctor_add<c10::BFloat16>"


def empty(t: Thread, shape: tuple[int, ...], dtype: str = "c10::BFloat16") -> Tensor:
    """`aten::empty` on the device."""
    with t.op("aten::empty", list(shape), SCALAR_TYPE[dtype], 0, None, False, None) as op:
        return op.gives(t.new(shape, dtype))


def empty_like(t: Thread, x: Tensor) -> Tensor:
    """`aten::empty_like`, which calls `aten::empty`."""
    with t.op("aten::empty_like", x, SCALAR_TYPE[x.dtype], 0, None, False, 0) as op:
        return op.gives(empty(t, x.shape, x.dtype))


def view(t: Thread, x: Tensor, shape: Sequence[int], name: str = "aten::view") -> Tensor:
    """`aten::view`, or `aten::_unsafe_view` by `name`."""
    with t.grad_op(name, x, list(shape)) as op:
        out = x.view(shape)
        node = "UnsafeViewBackward0" if name == "aten::_unsafe_view" else "ViewBackward0"
        record(t, node, op, (x,), (out,), lambda b, g: (reshape(b, g, x.shape),), saves=False)
        return op.gives(out)


def reshape(t: Thread, x: Tensor, shape: Sequence[int]) -> Tensor:
    """As the backward pass calls it: unseen by autograd."""
    with t.op("aten::reshape", x, list(shape)) as op:
        with t.op("aten::view", x, list(shape)) as inner:
            out = x.view(shape)
            inner.outputs = (out,)
        return op.gives(out)


def _strided(t: Thread, x: Tensor, out: Tensor) -> None:
    with t.op("aten::as_strided", x, list(out.shape), list(out.strides), None) as op:
        op.outputs = (out,)


def transpose(t: Thread, x: Tensor, a: int, b: int, differentiable: bool = True) -> Tensor:
    """`aten::transpose`; a backward pass calls it as not differentiable."""
    with t.grad_op("aten::transpose", x, a, b) if differentiable else t.op("aten::transpose", x, a, b) as op:
        out = x.transpose(a, b)
        if differentiable:
            back = "TransposeBackward0"
            record(t, back, op, (x,), (out,), lambda t2, g: (transpose(t2, g, a, b, False),), saves=False)
        _strided(t, x, out)
        return op.gives(out)


def transpose_matrix(t: Thread, x: Tensor, differentiable: bool = True) -> Tensor:
    """`aten::t`."""
    with t.grad_op("aten::t", x) if differentiable else t.op("aten::t", x) as op:
        out = x.transpose(0, 1)
        if differentiable:
            record(t, "TBackward0", op, (x,), (out,), lambda b, g: (transpose_matrix(b, g, False),), saves=False)
        transpose(t, x, 0, 1, False)
        return op.gives(out)


def _multiply(t: Thread, a: Tensor, b: Tensor, layout: str, split: bool = False) -> Tensor:
    with t.op("aten::mm", a, b) as op:
        out = t.new((a.shape[0], b.shape[1]))
        if split:  # a product split over the inner dimension clears its semaphores first
            t.memset(4)
        t.launch(kernels.gemm(a.shape[0], b.shape[1], a.shape[1], layout))
        return op.gives(out)


def _matrix_gradients(t: Thread, grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    grad_x = _multiply(t, grad, transpose_matrix(t, weight, False), "nn")
    grad_weight = _multiply(t, transpose_matrix(t, x, False), grad, "nt", split=True)
    return grad_x, grad_weight


def linear(t: Thread, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`aten::linear`: a matrix product with bias (addmm), or without (mm)."""
    rows = math.prod(x.shape[:-1])
    shape = (*x.shape[:-1], weight.shape[0])
    with t.frame("<built-in function linear>"), t.grad_op("aten::linear", x, weight, bias) as op:
        if bias is None:
            w = transpose_matrix(t, weight)
            with t.grad_op("aten::matmul", x, w) as matmul:
                flat = view(t, x, (rows, x.shape[-1]))
                out = _product(t, None, flat, w)
                out = view(t, out, shape, "aten::_unsafe_view")
                matmul.outputs = (out,)
        else:
            flat = view(t, x, (rows, x.shape[-1]))
            w = transpose_matrix(t, weight)
            out = _product(t, bias, flat, w)
            out = view(t, out, shape, "aten::_unsafe_view")
        return op.gives(out)


def _product(t: Thread, bias: Tensor | None, x: Tensor, w: Tensor) -> Tensor:
    name, node, inputs = ("mm", "MmBackward0", (x, w)) if bias is None else ("addmm", "AddmmBackward0", (bias, x, w))
    scales = () if bias is None else (1, 1)
    with t.grad_op(f"aten::{name}", *inputs, *scales) as op:
        out = t.new((x.shape[0], w.shape[1]))
        of_bias = len(inputs) - 2
        record(t, node, op, inputs, (out,), lambda b, g: (*(g,) * of_bias, *_matrix_gradients(b, g, x, w)))
        t.launch(kernels.gemm(x.shape[0], w.shape[1], x.shape[1], "tn"))
        return op.gives(out)


def add(t: Thread, a: Tensor, b: Tensor) -> Tensor:
    """`aten::add` of two tensors; `b` may be broadcast."""
    with t.grad_op("aten::add", a, b, 1) as op:
        out = t.new(a.shape)
        record(t, "AddBackward0", op, (a, b), (out,), lambda _, g: (g, g), saves=False)
        t.launch(kernels.elementwise(ADD, out.numel, 3))
        return op.gives(out)


def gelu(t: Thread, x: Tensor) -> Tensor:
    """`aten::gelu`."""

    def backward(b: Thread, grad: Tensor) -> tuple[Tensor]:
        kernel = kernels.elementwise("GeluBackwardCUDAKernelImpl", x.numel, 3)
        return (b.compute("aten::gelu_backward", grad, x, "none", kernel=kernel, out=x.shape),)

    with t.frame("<built-in function gelu>"), t.grad_op("aten::gelu", x, "none") as op:
        out = t.new(x.shape)
        record(t, "GeluBackward0", op, (x,), (out,), backward)
        t.launch(kernels.elementwise("GeluCUDAKernelImpl", x.numel, 2))
        return op.gives(out)


def layer_norm(t: Thread, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`aten::layer_norm` over the last dimension."""
    width, rows = x.shape[-1], math.prod(x.shape[:-1])
    stats = (*x.shape[:-1], 1)

    def backward(b: Thread, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs = (grad, x, [width], mean, rstd, weight, bias, [True, True, True])
        with b.op("aten::native_layer_norm_backward", *inputs) as op:
            op.outputs = (empty(b, x.shape), empty(b, (width,)), empty(b, (width,)))
            for kernel in kernels.layer_norm_backward(rows, width):
                b.launch(kernel)
        return op.outputs

    with (
        t.frame("torch/nn/functional.py(2972): layer_norm"),
        t.grad_op("aten::layer_norm", x, [width], weight, bias, 1e-5, True) as op,
    ):
        with t.grad_op("aten::native_layer_norm", x, [width], weight, bias, 1e-5) as native:
            mean, rstd = t.new(stats, "float"), t.new(stats, "float")
            out = t.new(x.shape)
            record(t, "NativeLayerNormBackward0", native, (x, weight, bias), (out,), backward, (mean, rstd))
            t.launch(kernels.layer_norm(rows, width))
            native.outputs = (out, mean, rstd)
        return op.gives(out)


def embedding(t: Thread, weight: Tensor, indices: Tensor) -> Tensor:
    """`aten::embedding`: rows of `weight` by index."""
    width, rows = weight.shape[1], indices.numel

    def backward(b: Thread, grad: Tensor) -> tuple[Tensor]:
        inputs = (grad, indices, weight.shape[0], -1, False)
        with b.op("aten::embedding_backward", *inputs, False) as op:
            with b.op("aten::embedding_dense_backward", *inputs) as dense:
                out = empty(b, weight.shape)
                b.memset(out.bytes)
                b.launch(kernels.embedding_backward(rows, width))
                dense.outputs = (out,)
            return (op.gives(out),)

    with (
        t.frame("torch/nn/functional.py(2509): embedding"),
        t.grad_op("aten::embedding", weight, indices, -1, False, False) as op,
    ):
        out = t.new((*indices.shape, width))
        record(t, "EmbeddingBackward0", op, (weight,), (out,), backward)
        flat = reshape(t, indices, (rows,))
        found = out.view((rows, width))
        t.compute("aten::index_select", weight, 0, flat, kernel=kernels.embedding(rows, width), out=found)
        return op.gives(out)


def split_last(t: Thread, x: Tensor, parts: int) -> list[Tensor]:
    """Split the last dimension into equal parts."""
    dim, size = len(x.shape) - 1, x.shape[-1] // parts

    def backward(b: Thread, *grads: Tensor) -> tuple[Tensor]:
        kernel = kernels.elementwise("CatArrayBatchedCopy<at::native::OpaqueType<2u> >", x.numel, 2)
        return (b.compute("aten::cat", list(grads), dim, kernel=kernel, out=x.shape),)

    with t.frame("torch/_tensor.py(1056): split"), t.grad_op("aten::split", x, size, dim) as op:
        outs = [x.narrow(dim, i * size, size) for i in range(parts)]
        record(t, "SplitBackward0", op, (x,), tuple(outs), backward, saves=False)
        for i, out in enumerate(outs):
            with t.op("aten::narrow", x, dim, i * size, size) as narrow:
                with t.op("aten::slice", x, dim, i * size, (i + 1) * size, 1) as cut:
                    _strided(t, x, out)
                    cut.outputs = (out,)
                narrow.outputs = (out,)
        op.outputs = tuple(outs)
    return outs


def attention(t: Thread, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal scaled dot product attention of (batch, head, token, width) tensors, by the flash kernel."""
    batch, heads, tokens, width = q.shape
    scale = 1 / math.sqrt(width)

    def backward(b: Thread, grad: Tensor) -> tuple[Tensor, ...]:
        tail = (None, None, tokens, tokens, 0.0, True, seed, seed)
        with b.op("aten::_scaled_dot_product_flash_attention_backward", grad, q, k, v, out, lse, *tail, scale) as op:
            rows = [transpose(b, x, 1, 2, False) for x in (grad, q, k, v)]
            with b.op("aten::_flash_attention_backward", *rows, out, lse, *tail, scale) as flash:
                grads = tuple(empty_like(b, x) for x in rows[1:])
                for kernel in kernels.flash_backward(batch, heads, tokens, width):
                    b.launch(kernel)
                flash.outputs = grads
            op.outputs = tuple(transpose(b, x, 1, 2, False) for x in grads)
        return op.outputs

    with (
        t.frame("<built-in function scaled_dot_product_attention>"),
        t.grad_op("aten::scaled_dot_product_attention", q, k, v, None, 0.0, True, None, False) as op,
    ):
        with t.grad_op("aten::_scaled_dot_product_flash_attention", q, k, v, 0.0, True, False, scale) as inner:
            lse, seed = t.new((batch, heads, tokens), "float"), t.new((2,), "long int")
            result = t.new((batch, tokens, heads, width))
            out = result.transpose(1, 2)
            rows = [transpose(t, x, 1, 2, False) for x in (q, k, v)]
            tail = (None, None, tokens, tokens, 0.0, True, False, scale, None, None, None, None)
            with t.op("aten::_flash_attention_forward", *rows, *tail) as flash:
                t.launch(kernels.flash_forward(batch, heads, tokens, width))
                flash.outputs = (result, lse, seed)
            name = "ScaledDotProductFlashAttentionBackward0"
            record(t, name, inner, (q, k, v), (out,), backward, (lse, seed))
            inner.outputs = (out, lse, seed)
        return op.gives(out)


def cross_entropy(t: Thread, logits: Tensor, target: Tensor) -> Tensor:
    """`aten::cross_entropy_loss`: log-softmax, then the negative log-likelihood."""
    rows, classes = logits.shape

    def log_softmax_backward(b: Thread, grad: Tensor) -> tuple[Tensor]:
        kernel = kernels.softmax(rows, classes, backward=True)
        return (b.compute("aten::_log_softmax_backward_data", grad, log_probs, 1, 15, kernel=kernel, out=logits.shape),)

    def nll_backward(b: Thread, grad: Tensor) -> tuple[Tensor]:
        with b.op("aten::nll_loss_backward", grad, log_probs, target, None, 1, -100, weight) as op:
            out = b.new(logits.shape)
            fill(b, out, 0)
            b.launch(kernels.nll_loss(rows, backward=True))
            return (op.gives(out),)

    with (
        t.frame("torch/nn/functional.py(3452): cross_entropy"),
        t.grad_op("aten::cross_entropy_loss", logits, target, None, 1, -100, 0.0) as op,
    ):
        with t.grad_op("aten::log_softmax", logits, 1, None) as outer:
            with t.grad_op("aten::_log_softmax", logits, 1, False) as inner:
                log_probs = t.new(logits.shape)
                record(t, "LogSoftmaxBackward0", inner, (logits,), (log_probs,), log_softmax_backward)
                t.launch(kernels.softmax(rows, classes, backward=False))
                inner.outputs = (log_probs,)
            outer.outputs = (log_probs,)
        with t.grad_op("aten::nll_loss_nd", log_probs, target, None, 1, -100) as outer:
            with t.grad_op("aten::nll_loss", log_probs, target, None, 1, -100) as middle:
                with t.grad_op("aten::nll_loss_forward", log_probs, target, None, 1, -100) as inner:
                    loss, weight = t.new(()), t.new(())
                    record(t, "NllLossBackward0", inner, (log_probs,), (loss,), nll_backward, (weight,))
                    t.launch(kernels.nll_loss(rows, backward=False))
                    inner.outputs = (loss, weight)
                middle.outputs = (loss,)
            outer.outputs = (loss,)
        return op.gives(loss)


def fill(t: Thread, x: Tensor, value: int) -> None:
    """`aten::fill_`."""
    t.compute("aten::fill_", x, value, kernel=kernels.elementwise("FillFunctor<c10::BFloat16>", x.numel, 1), out=x)


def ones_like(t: Thread, x: Tensor) -> Tensor:
    """`aten::ones_like`: the gradient a backward pass starts from."""
    with t.op("aten::ones_like", x, SCALAR_TYPE[x.dtype], 0, None, False, 0) as op:
        out = empty_like(t, x)
        fill(t, out, 1)
        return op.gives(out)


def arange(t: Thread, count: int) -> Tensor:
    """`aten::arange` on the device."""
    with (
        t.frame("<built-in method arange of type object at 0x7f3f514bc100>"),
        t.op("aten::arange", count, 4, 0, "cuda:0", False) as op,
    ):
        out = empty(t, (count,), "long int")
        t.launch(kernels.elementwise("arange_cuda_out<long>", count, 1, 8))
        return op.gives(out)
