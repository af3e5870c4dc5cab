"""Kernels that PyTorch's compiler writes in Triton: `triton_poi_fused_add_mul_0` and its like.

What they compute stands in their names: after `fused_` the names of the operations that were fused, joined by
underscores, which the operations' names have themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.shared import given, traffic
from tracelens_graph.perf.model import CallContext, OpModel
from tracelens_graph.perf.scalar_types import known

FLOPS: Mapping[str, int] = {
    name: flops
    for flops, names in {
        0: """bitwise_and bitwise_not bitwise_or bitwise_xor logical_and logical_not logical_or any all _reshape_alias
            _to_copy _unsafe_index _unsafe_view alias arange as_strided cat clone constant_pad_nd
            convert_element_type copy copy_ detach diagonal embedding empty empty_like expand fill fill_ flip full
            full_like gather index index_put index_put_ index_select iota lift_fresh_copy new_zeros ones ones_like
            permute repeat roll scalar_tensor select select_scatter slice slice_backward slice_scatter split
            split_with_sizes squeeze stack t transpose triu tril unbind unfold unsqueeze view zeros zeros_like zero_
            nll_loss_forward nll_loss_backward""",
        1: """abs add add_ amax amin argmax argmin ceil clamp clamp_max clamp_min cumprod cumsum div div_ dropout eq
            floor floor_divide fmod ge gt hardtanh hardtanh_backward index_add isinf isnan le leaky_relu lt
            masked_fill max maximum mean min minimum mul mul_ ne neg prod relu relu_ remainder round rsub scatter
            scatter_add sign sub sub_ sum threshold_backward trunc where _adaptive_avg_pool2d avg_pool2d
            max_pool2d_with_indices max_pool2d_with_indices_backward native_dropout native_dropout_backward
            embedding_dense_backward""",
        2: "addcdiv addcmul hardsigmoid hardswish lerp linalg_vector_norm norm pow reciprocal rsqrt sqrt var std "
        "var_mean mse_loss mse_loss_backward",
        3: "sigmoid_backward tanh_backward",
        4: """_softmax_backward_data _log_softmax_backward_data atan cos cosh elu erf erfc exp exp2 expm1 log log1p
            log2 log_sigmoid_forward logsumexp sigmoid silu sin sinh softplus tan tanh""",
        5: """_softmax _log_softmax _fused_rms_norm native_layer_norm native_group_norm native_batch_norm
            _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
            silu_backward""",
        8: "gelu",
        9: """native_layer_norm_backward native_group_norm_backward native_batch_norm_backward
            _fused_rms_norm_backward""",
        10: "gelu_backward",
    }.items()
    for name in names.split()
}
"""FLOPs per element by operation; moving data and logic count none, transcendental functions four."""

_NAME = re.compile(r"triton_(poi|red|per)_fused_(\w+?)(?:_\d+)?")
_LONGEST = max(name.count("_") for name in FLOPS) + 1


_OF_TWO = frozenset(("add", "add_", "div", "div_", "maximum", "minimum", "mul", "mul_", "sub"))
"""Arithmetic on two operands."""


def compiled(
    operations: tuple[str, ...], tensors: list[Tensor], work: int, *, pointwise: bool = True, numbers: int = 0
) -> Cost:
    """A kernel of fused operations.

    FLOPs = elements · those of the operations per element. Bytes = each tensor once, but no more of it than there is
    work. A pointwise kernel writes to an argument of its own, the last, or changes one in place, which its arguments
    do not show. Where there are no more tensors than its operations need as operands, one is changed in place and
    counts again. The range of bytes holds both.

    Args:
        operations: names of operations, without `aten.`.
        tensors: arguments of the kernel, results among them.
        work: elements of the iteration space.
        pointwise: whether it reduces nothing.
        numbers: operands that are plain numbers.
    """
    if not tensors:
        raise CannotModel("no argument is a tensor")
    moved = [Tensor((min(tensor.stored, work),), tensor.dtype) for tensor in tensors]
    of = max(moved, key=lambda tensor: (bool(known(tensor.dtype).precision), tensor.elements))
    flops = work * sum(FLOPS.get(operation, 0) for operation in operations)
    once = traffic(moved)
    if not (pointwise and flops) or once is None:
        return Cost(flops, once, "vector", known(of.dtype).precision)
    again = traffic([max(moved, key=lambda tensor: tensor.elements)]) or 0
    in_place = not _has_result(operations, tensors, work, numbers)
    return Cost(flops, once + again * in_place, "vector", known(of.dtype).precision, bytes_range=(once, once + again))


def _has_result(operations: tuple[str, ...], tensors: list[Tensor], work: int, numbers: int) -> bool:
    """Whether the last tensor is what a pointwise kernel writes.

    It has the shape of the work then, and it is one more than the operands. What is a matrix to the kernel beside a
    tensor of more dimensions is the result of a product, seen as one of as many: an operand.
    """
    last = tensors[-1]
    operands = 1 + max(sum(operation in _OF_TWO for operation in operations) - numbers, 0)
    seen_as_another = any(one.elements == last.elements and len(one.shape) > len(last.shape) for one in tensors[:-1])
    return len(tensors) > operands and last.stored >= work and not seen_as_another


@lru_cache(maxsize=4096)
def fused_operations(name: str) -> tuple[str, ...]:
    """The operations in the name of a kernel, cut so that the fewest words belong to none, then into the fewest.

    Empty if the name is not of the compiler, or shows none.
    """
    found = _NAME.fullmatch(name[:4096])
    words = found.group(2).split("_") if found else []
    # best[i]: (unknown words, number of operations, where the last begins) of the first i words.
    best: list[tuple[int, int, int]] = [(0, 0, 0)]
    for end in range(1, len(words) + 1):
        options = []
        for begin in range(max(0, end - _LONGEST), end):
            unknown, count, _ = best[begin]
            piece = "_".join(words[begin:end])
            if piece in FLOPS:
                options.append((unknown, count + 1, begin))
            elif end - begin == 1:
                options.append((unknown + bool(piece), count + bool(piece), begin))
        best.append(min(options))
    cuts, end = [], len(words)
    while end:
        begin = best[end][2]
        cuts.append("_".join(words[begin:end]))
        end = begin
    return tuple(cut for cut in reversed(cuts) if cut in FLOPS)


def triton_model(name: str) -> OpModel | None:
    """The model of a kernel of the compiler by its name; None if the name is none of those, or shows no operation."""
    operations = fused_operations(name)
    if not operations:
        return None
    pointwise = name.startswith("triton_poi_")

    def estimate(arguments: Arguments, context: CallContext) -> Cost:
        tensors = given(arguments)
        largest = max((tensor.stored for tensor in tensors), default=0)
        trailing = _trailing_numbers(arguments)
        outer, inner = _iteration_space(trailing, largest, pointwise)
        # The last number is the size of the space; numbers before the sizes are operands.
        numbers = max(sum(arguments.number(index) is not None for index in range(len(arguments))) - 1, 0)
        cost = compiled(operations, tensors, min(outer * inner, largest), pointwise=pointwise, numbers=numbers)
        fused = ", ".join(f"aten.{operation}" for operation in operations)
        params = {"fused_ops": fused, "xnumel": outer, "rnumel": inner}
        return Cost(cost.flops, cost.bytes, cost.unit, cost.precision, params, bytes_range=cost.bytes_range)

    return OpModel(estimate, "triton")


def _trailing_numbers(arguments: Arguments) -> list[int]:
    """The numbers behind the tensors, last one first."""
    numbers = []
    for index in reversed(range(len(arguments))):
        number = arguments.integer(index)
        if number is None or number < 1:
            break
        numbers.append(number)
    return numbers


def _iteration_space(numbers: list[int], largest: int, pointwise: bool) -> tuple[int, int]:
    """Elements of the result, and how many are reduced for each.

    The sizes of the space come last; symbolic sizes of tensors may stand before them, and would make the space larger
    than any tensor.
    """
    if not numbers:
        return largest, 1
    inner, rest = (1, numbers) if pointwise else (numbers[0], numbers[1:] or [1])
    return (prod(rest) if prod(rest) * inner <= largest else rest[0]), inner
