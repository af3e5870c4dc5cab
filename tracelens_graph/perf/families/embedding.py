"""Look-ups: rows and elements taken by index, and the gradients put back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.vector import traffic, vector_cost
from tracelens_graph.perf.model import CallContext


def rows_by_index(table: Tensor, indices: Tensor, dim: int = 0) -> Cost:
    """Slices of a table along a dimension, one per index: an embedding.

    FLOPs = 0; bytes = indices + result + as many slices of the table, but never more than all of it. How often an index
    repeats is not recorded: the range of bytes begins where all are the same.

    Raises:
        CannotModel: the table has no such dimension.
    """
    rank = len(table.shape)
    if not -rank <= dim < rank:
        raise CannotModel(f"no dimension {dim} in shape {table.shape}")
    length = table.shape[dim]
    slice_ = table.elements // length if length else 0
    return _looked_up(table, indices, slice_, min(indices.elements, length))


def elements_by_index(source: Tensor, indices: Tensor) -> Cost:
    """One element of the source per index.

    FLOPs = 0; bytes = indices + result + as many elements of the source, but never more than all.
    """
    return _looked_up(source, indices, 1, min(indices.elements, source.elements))


def _looked_up(source: Tensor, indices: Tensor, slice_: int, distinct: int) -> Cost:
    result = Tensor((indices.elements, slice_), source.dtype)
    read = Tensor((distinct, slice_), source.dtype)
    params = {"table_shape": source.shape, "num_indices": indices.elements}
    cost = vector_cost(0, (indices, read, result), source, params)
    least = traffic((indices, Tensor((min(distinct, 1), slice_), source.dtype), result))
    return cost if cost.bytes is None or least is None else replace(cost, bytes_range=(least, cost.bytes))


def rows_put_back(gradient: Tensor, indices: Tensor, table_rows: int) -> Cost:
    """Gradient of an embedding, dense: every row of the table is written, those that were looked up are sums.

    FLOPs = E of the gradient; bytes = gradient + indices + table.
    """
    width = gradient.shape[-1] if gradient.shape else 1
    params = {"table_shape": (table_rows, width), "num_indices": indices.elements}
    table = Tensor((table_rows, width), gradient.dtype)
    return vector_cost(gradient.elements, (gradient, indices, table), gradient, params)


@dataclass(frozen=True)
class Rows:
    """Reads the positions of indices and of the dimension; None: the first one."""

    indices: int
    dim: int | None = None

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        dim = 0 if self.dim is None else arguments.integer(self.dim)
        if dim is None:
            raise CannotModel("the dimension is not recorded")
        return rows_by_index(arguments.tensor(0), arguments.tensor(self.indices), dim)


def gather_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(source, dim, indices, …)`."""
    return elements_by_index(arguments.tensor(0), arguments.tensor(2))


def scatter_add_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(target, dim, indices, values, …)`: elements of the target are written, and read too where they are added to."""
    target, indices = arguments.tensor(0), arguments.tensor(2)
    values = Tensor(indices.shape, target.dtype)
    params = {"table_shape": target.shape, "num_indices": indices.elements}
    return vector_cost(indices.elements, (indices, values, values, values), target, params)


def rows_put_back_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(gradient, indices, rows of the table, …)`."""
    rows = arguments.integer(2)
    if rows is None or rows < 0:
        raise CannotModel("the size of the table is not recorded")
    return rows_put_back(arguments.tensor(0), arguments.tensor(1), rows)
