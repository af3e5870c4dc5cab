"""The network: a small GPT, called as PyTorch calls it."""

from __future__ import annotations

from dataclasses import dataclass

from . import aten, checkpoint
from .autograd import Accumulated
from .groups import Group
from .host import Process, Thread
from .tensors import Storage, Tensor, contiguous

FILE = "model.py"


def _parameter(*shape: int) -> Tensor:
    return Tensor(shape, contiguous(shape), "c10::BFloat16", Storage(0))


@dataclass(frozen=True)
class Linear:
    """A linear layer; `number` counts the layers of its kind, as in `Linear_3`."""

    number: int
    weight: Tensor
    bias: Tensor | None

    def __call__(self, t: Thread, x: Tensor) -> Tensor:
        """Run the layer."""
        with t.module(f"Linear_{self.number}", "torch/nn/modules/linear.py(130): forward"):
            return aten.linear(t, x, self.weight, self.bias)


@dataclass(frozen=True)
class LayerNorm:
    """A layer norm; `number` as for `Linear`."""

    number: int
    weight: Tensor
    bias: Tensor

    def __call__(self, t: Thread, x: Tensor) -> Tensor:
        """Run the layer."""
        with t.module(f"LayerNorm_{self.number}", "torch/nn/modules/normalization.py(227): forward"):
            return aten.layer_norm(t, x, self.weight, self.bias)


class TransformerLayer:
    """Attention and a two-layer perceptron, each behind a layer norm and with a residual."""

    def __init__(self, number: int, width: int, heads: int) -> None:
        self._number, self._heads = number, heads
        self._norm1 = LayerNorm(2 * number, _parameter(width), _parameter(width))
        self._qkv = Linear(4 * number, _parameter(3 * width, width), _parameter(3 * width))
        self._out = Linear(4 * number + 1, _parameter(width, width), _parameter(width))
        self._norm2 = LayerNorm(2 * number + 1, _parameter(width), _parameter(width))
        self._up = Linear(4 * number + 2, _parameter(4 * width, width), _parameter(4 * width))
        self._down = Linear(4 * number + 3, _parameter(width, 4 * width), _parameter(width))

    def parameters(self) -> list[Tensor]:
        """Weights and biases, in the order of their use."""
        parts = (self._norm1, self._qkv, self._out, self._norm2, self._up, self._down)
        return [p for part in parts for p in (part.weight, part.bias) if p is not None]

    def __call__(self, t: Thread, x: Tensor) -> Tensor:
        """Run the layer."""
        with t.module(f"TransformerLayer_{self._number}", f"{FILE}(41): forward"):
            x = aten.add(t, x, self._attend(t, self._norm1(t, x)))
            return aten.add(t, x, self._transform(t, self._norm2(t, x)))

    def _attend(self, t: Thread, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        with t.module(f"CausalSelfAttention_{self._number}", f"{FILE}(17): forward"):
            parts = aten.split_last(t, self._qkv(t, x), 3)
            shape = (batch, tokens, self._heads, width // self._heads)
            q, k, v = (aten.transpose(t, aten.view(t, part, shape), 1, 2) for part in parts)
            y = aten.transpose(t, aten.attention(t, q, k, v), 1, 2)
            return self._out(t, aten.view(t, y, (batch, tokens, width)))

    def _transform(self, t: Thread, x: Tensor) -> Tensor:
        with t.module(f"MLP_{self._number}", f"{FILE}(30): forward"):
            x = self._up(t, x)
            with t.module(f"GELU_{self._number}", "torch/nn/modules/activation.py(813): forward"):
                x = aten.gelu(t, x)
            return self._down(t, x)


class Model:
    """Embeddings, transformer layers, and a head over the vocabulary."""

    def __init__(self, process: Process) -> None:
        o = process.options
        self._options = o
        self._data = process.place.data
        self._tokens = _parameter(o.vocabulary, o.width)
        self._positions = _parameter(o.tokens, o.width)
        self._layers = [TransformerLayer(i, o.width, o.heads) for i in range(o.layers)]
        self._norm = LayerNorm(2 * o.layers, _parameter(o.width), _parameter(o.width))
        self._head = Linear(4 * o.layers, _parameter(o.vocabulary, o.width), None)

    def buckets(self) -> list[tuple[list[Tensor], Group]]:
        """Parameters that are reduced together and the ranks that do, in the order of the backward pass."""
        last = [self._norm.weight, self._norm.bias, self._head.weight]
        layers = [layer.parameters() for layer in reversed(self._layers)]
        return [(bucket, self._data) for bucket in (last, *layers, [self._tokens, self._positions])]

    def __call__(self, t: Thread, indices: Tensor, accumulated: Accumulated) -> Tensor:
        """The logits; `accumulated` is for the backward passes that run inside reentrant checkpoints."""
        with t.module("GPT_0", f"{FILE}(55): forward"):
            with t.module("Embedding_0", "torch/nn/modules/sparse.py(188): forward"):
                x = aten.embedding(t, self._tokens, indices)
            numbers = aten.arange(t, self._options.tokens)
            with t.module("Embedding_1", "torch/nn/modules/sparse.py(188): forward"):
                positions = aten.embedding(t, self._positions, numbers)
            x = aten.add(t, x, positions)
            for layer in self._layers:
                if self._options.recompute == "non_reentrant":
                    x = checkpoint.non_reentrant(t, layer, x)
                elif self._options.recompute == "reentrant":
                    x = checkpoint.reentrant(t, layer, x, accumulated)
                else:
                    x = layer(t, x)
            return self._head(t, self._norm(t, x))
