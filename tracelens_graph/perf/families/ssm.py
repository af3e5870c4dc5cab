"""State space models: the causal convolution before them, and Mamba 2's scan in chunks (state space duality)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext


def causal_conv1d(
    batch: int,
    channels: int,
    length: int,
    taps: int,
    *,
    bias: bool = False,
    silu: bool = False,
    dtype: str = "bf16",
    backward: bool = False,
) -> Cost:
    """Cost of a depthwise causal convolution over time.

    FLOPs = 2 batch channels length taps; backward, the gradients of input and of weights take as much each, and an
    activation as much again, since what went into it is computed anew. It is no matrix product, as each channel has its
    own weights. Bytes = input, weights, bias and output; backward, input, weights, bias, and the gradients of all four.

    Args:
        batch, channels, length: sizes of input and output.
        taps: weights of a channel.
        bias: whether there is one.
        silu: whether an activation follows.
        dtype: type of all tensors.
        backward: the backward pass in place of the forward one.
    """
    data = Tensor((batch, channels, length), dtype)
    weights = channels * (taps + bias) * data.type.bits // 8
    moved = 3 * data.bytes + 2 * weights if backward else 2 * data.bytes + weights
    products = (2 + silu) if backward else 1
    params = {"batch": batch, "channels": channels, "seq_len": length, "kernel_size": taps, "has_bias": bias}
    return Cost(2 * batch * channels * length * taps * products, moved, "vector", data.type.precision, params)


@dataclass(frozen=True)
class Scan:
    """Sizes of a Mamba 2 layer.

    Attributes:
        batch, length: sequences and their length.
        heads, head_dim: heads and width of one.
        groups: groups of heads that share B and C.
        state: width of the state of a channel.
        chunk: length of a chunk.
        taps: weights of a channel of the convolution.
    """

    batch: int
    length: int
    heads: int
    head_dim: int
    groups: int
    state: int
    chunk: int
    taps: int

    @property
    def inner(self) -> int:
        """Width of the values of all heads."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of the convolution: x, B and C."""
        return self.inner + 2 * self.groups * self.state

    @property
    def projected(self) -> int:
        """Width of the input: z, x, B, C and a time step a head."""
        return self.inner + self.channels + self.heads


def mamba2(scan: Scan, *, out_features: int = 0, dtype: str = "bf16", backward: bool = False) -> Cost:
    """Cost of Mamba 2's fused convolution and scan (Dao and Gu, 2024, section 6), as mamba_ssm computes it.

    With T tokens in all and P = the sum of squares of the lengths of the chunks, FLOPs are those of: the convolution
    2 T channels taps; C Bᵀ within a chunk 2 P groups state; its product with x 2 P heads head_dim; the states of the
    chunks 2 T heads head_dim state; their part of the output as much; an output projection if one is fused. Backward,
    each product has two gradients, and convolution, C Bᵀ and states are computed anew.

    Bytes = input, weights, a bias, an offset and a decay and a skip weight a head, and output; backward, those and the
    gradients of each. All but the data in and out is small.

    Args:
        scan: sizes.
        out_features: width of the fused output projection; 0 if there is none.
        dtype: type of all tensors.
        backward: the backward pass in place of the forward one.
    """
    tokens = scan.batch * scan.length
    full, rest = divmod(scan.length, scan.chunk)
    pairs = scan.batch * (full * scan.chunk**2 + rest**2)
    conv = 2 * tokens * scan.channels * scan.taps
    scores = 2 * pairs * scan.groups * scan.state
    within = 2 * pairs * scan.inner
    states = 2 * tokens * scan.inner * scan.state
    project = 2 * tokens * scan.inner * out_features
    flops = conv + scores + within + 2 * states + project
    if backward:
        flops = 3 * conv + 3 * scores + 2 * within + 3 * states + 2 * states + 2 * project

    data = Tensor((tokens, scan.projected), dtype)
    weights = scan.channels * (scan.taps + 1) + 3 * scan.heads + scan.inner * out_features
    numbers = data.elements + weights
    numbers = (2 if backward else 1) * numbers + tokens * (out_features or scan.inner)
    params = {
        **{"B": scan.batch, "T": scan.length, "H": scan.heads, "P": scan.head_dim, "G": scan.groups, "N": scan.state},
        **{"C": scan.chunk, "d_inner": scan.inner, "d_conv": scan.taps, "conv_channels": scan.channels},
        "combined_dim": scan.projected,
    }
    return Cost(flops, numbers * data.type.bits // 8, "matrix", data.type.precision, params)


def causal_conv1d_call(args: Arguments, context: CallContext, *, backward: bool = False) -> Cost:
    """causal_conv1d's input (0), weights (1) and bias (2); all tensors that it is given are read or written."""
    data, weights = args.tensor(0), args.tensor(1)
    if len(data.shape) != 3 or len(weights.shape) != 2 or weights.shape[0] != data.shape[1]:
        raise CannotModel("operands have other dimensions than batch, channels and time, and channels and weights")
    cost = causal_conv1d(
        *data.shape,
        weights.shape[1],
        bias=args.optional(2) is not None,
        silu=args.boolean(11) is True,
        dtype=data.dtype,
        backward=backward,
    )
    moved = sum(one.bytes for at in range(len(args)) if (one := args.optional(at)) is not None)
    if not backward and args.optional(5) is None:
        moved += data.bytes  # the output, returned in place of given
    return replace(cost, bytes=moved)


def _scan(args: Arguments) -> tuple[Scan, list[Tensor], int, int]:
    """Sizes of a call of mamba_ssm's fused function, its inputs, tokens times width of its output, width projected to.

    Input (0), weights and bias of the convolution (1, 2), offset, decay and skip of the heads (3, 4, 5), chunk (6). The
    last arguments are counted from the end, since some that are not tensors may not be recorded.
    """
    data, conv, offsets = args.tensor(0), args.tensor(1), args.tensor(3)
    if len(data.shape) != 3 or len(conv.shape) != 2 or len(offsets.shape) != 1 or not offsets.shape[0]:
        raise CannotModel("operands have other dimensions than expected")
    (batch, length, projected), (channels, taps), heads = data.shape, conv.shape, offsets.shape[0]
    chunk, groups = args.integer(6), args.integer(-2) or 1
    head_dim = args.integer(-3) or (projected - channels - heads) // heads
    state, odd = divmod(channels - heads * head_dim, 2 * max(groups, 1))
    if chunk is None or min(chunk, groups, head_dim, state) <= 0 or odd:
        raise CannotModel("widths of the heads, of their state or of a chunk are not recorded or do not fit together")
    scan = Scan(batch, length, heads, head_dim, groups, state, chunk, taps)
    # Some models pass numbers for a gated MLP through the function beside its own.
    beside, odd = divmod(projected - scan.projected, 2)
    if beside < 0 or odd:
        raise CannotModel("the width of the input does not fit the heads and their state")
    inputs = [one for at in (0, 1, 2, 3, 4, 5, 7, 8) if (one := args.optional(at)) is not None]
    weight = args.optional(-5)
    features = 0
    if weight is not None and len(weight.shape) == 2:
        features = weight.shape[0]
        inputs.append(weight)
    return scan, inputs, batch * length * (features or scan.inner + beside), features


def mamba2_call(args: Arguments, context: CallContext, *, backward: bool = False) -> Cost:
    """mamba_ssm's fused function; see `_scan` for its arguments."""
    scan, inputs, output, features = _scan(args)
    data = inputs[0]
    cost = mamba2(scan, out_features=features, dtype=data.dtype, backward=backward)
    read = sum(one.bytes for one in inputs)
    moved = (2 if backward else 1) * read + output * data.type.bits // 8
    return replace(cost, bytes=moved, params=dict(cost.params) | {"combined_dim": data.shape[2]})
