"""The network: a small GPT, called as PyTorch calls it."""

from __future__ import annotations

from dataclasses import dataclass

from tracelens_graph.simulate import aten, distributed
from tracelens_graph.simulate.autograd import Accumulated, non_reentrant, reentrant
from tracelens_graph.simulate.events import Storage, Tensor, contiguous
from tracelens_graph.simulate.host import Process, Thread
from tracelens_graph.simulate.places import Group

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
    """Attention and a two-layer perceptron, each behind a layer norm and with a residual.

    Ranks of a tensor parallel group have a part of each matrix. With expert parallelism the perceptron is this
    rank's expert, and works on the tokens that all ranks of the group send it. `number` counts the layers of
    the rank, `index` those of the model.
    """

    def __init__(self, process: Process, number: int, index: int) -> None:
        o, place = process.options, process.place
        width, share = o.width, o.width // len(place.tensor.ranks)
        self._number, self._index, self._tensor, self._experts = number, index, place.tensor, place.experts
        self._heads, self._head_width = o.heads // len(place.tensor.ranks), width // o.heads
        self._norm1 = LayerNorm(2 * number, _parameter(width), _parameter(width))
        self._qkv = Linear(4 * number, _parameter(3 * share, width), _parameter(3 * share))
        self._out = Linear(4 * number + 1, _parameter(width, share), _parameter(width))
        self._norm2 = LayerNorm(2 * number + 1, _parameter(width), _parameter(width))
        self._up = Linear(4 * number + 2, _parameter(4 * share, width), _parameter(4 * share))
        self._down = Linear(4 * number + 3, _parameter(width, 4 * share), _parameter(width))

    def parameters(self) -> list[list[Tensor]]:
        """Weights and biases in the order of their use; those of an expert apart."""
        shared: list[Linear | LayerNorm] = [self._norm1, self._qkv, self._out, self._norm2]
        expert: list[Linear | LayerNorm] = [self._up, self._down]
        parts = [shared, expert] if self._has_experts else [shared + expert]
        return [[p for part in each for p in (part.weight, part.bias) if p is not None] for each in parts]

    @property
    def _has_experts(self) -> bool:
        return len(self._experts.ranks) > 1

    def __call__(self, t: Thread, x: Tensor) -> Tensor:
        """Run the layer."""
        with t.module(f"TransformerLayer_{self._number}", f"{FILE}(41): forward"):
            x = aten.add(t, x, self._attend(t, self._norm1(t, x)))
            y = self._norm2(t, x)
            return aten.add(t, x, self._ask_experts(t, y) if self._has_experts else self._transform(t, y))

    def _attend(self, t: Thread, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        with t.module(f"CausalSelfAttention_{self._number}", f"{FILE}(17): forward"):
            x = distributed.copy_to_group(t, self._tensor, x)
            parts = aten.split_last(t, self._qkv(t, x), 3)
            shape = (batch, tokens, self._heads, self._head_width)
            q, k, v = (aten.transpose(t, aten.view(t, part, shape), 1, 2) for part in parts)
            y = aten.transpose(t, aten.attention(t, q, k, v), 1, 2)
            y = self._out(t, aten.view(t, y, (batch, tokens, self._heads * self._head_width)))
            return distributed.reduce_from_group(t, self._tensor, y)

    def _ask_experts(self, t: Thread, x: Tensor) -> Tensor:
        with t.module(f"MoE_{self._number}", f"{FILE}(86): forward"):
            rows = aten.view(t, x, (-1, x.shape[-1]))
            there, sent = distributed.to_experts(t, self._experts, rows, self._index)
            back = distributed.exchange(t, self._experts, self._transform(t, there), sent, is_return=True)
            return aten.view(t, back, x.shape)

    def _transform(self, t: Thread, x: Tensor) -> Tensor:
        with t.module(f"MLP_{self._number}", f"{FILE}(30): forward"):
            x = self._up(t, distributed.copy_to_group(t, self._tensor, x))
            with t.module(f"GELU_{self._number}", "torch/nn/modules/activation.py(813): forward"):
                x = aten.gelu(t, x)
            return distributed.reduce_from_group(t, self._tensor, self._down(t, x))


class Model:
    """Embeddings, transformer layers, and a head over the vocabulary, or one stage of these."""

    def __init__(self, process: Process) -> None:
        o, place = process.options, process.place
        stages = o.pipeline_parallel
        self._options, self._place = o, place
        self._is_first, self._is_last = place.stage == 0, place.stage == stages - 1
        self._tokens = _parameter(o.vocabulary, o.width)
        self._positions = _parameter(o.tokens, o.width)
        indices = range(o.layers * place.stage // stages, o.layers * (place.stage + 1) // stages)
        self._layers = [TransformerLayer(process, number, index) for number, index in enumerate(indices)]
        self._norm = LayerNorm(2 * len(indices), _parameter(o.width), _parameter(o.width))
        self._head = Linear(4 * len(indices), _parameter(o.vocabulary, o.width), None)

    def buckets(self) -> list[tuple[list[Tensor], Group]]:
        """Parameters that are reduced together and the ranks that do, in the order of the backward pass."""
        data, replicas = self._place.data, self._place.replicas
        buckets = [([self._norm.weight, self._norm.bias, self._head.weight], data)] if self._is_last else []
        for layer in reversed(self._layers):
            buckets += zip(layer.parameters(), (data, replicas), strict=False)
        return [*buckets, ([self._tokens, self._positions], data)] if self._is_first else buckets

    def __call__(self, t: Thread, x: Tensor, accumulated: Accumulated) -> Tensor:
        """The logits of token numbers, or what a stage makes of the activations of the one before.

        `accumulated` is for the backward passes that run inside reentrant checkpoints.
        """
        with t.module("GPT_0", f"{FILE}(55): forward"):
            if self._is_first:
                x = self._embed(t, x)
            for layer in self._layers:
                if self._options.recompute == "non_reentrant":
                    x = non_reentrant(t, layer, x)
                elif self._options.recompute == "reentrant":
                    x = reentrant(t, layer, x, accumulated)
                else:
                    x = layer(t, x)
            return self._head(t, self._norm(t, x)) if self._is_last else x

    def _embed(self, t: Thread, indices: Tensor) -> Tensor:
        with t.module("Embedding_0", "torch/nn/modules/sparse.py(188): forward"):
            x = aten.embedding(t, self._tokens, indices)
        numbers = aten.arange(t, self._options.tokens)
        with t.module("Embedding_1", "torch/nn/modules/sparse.py(188): forward"):
            positions = aten.embedding(t, self._positions, numbers)
        return aten.add(t, x, positions)
