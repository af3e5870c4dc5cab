"""What is known of one call before it is planned: what the profiler wrote, and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tracelens_graph.execution.sides import Argument as Observed
from tracelens_graph.replay.replay_plan import Recorded
from tracelens_graph.replay.schemas import Schema


class Surroundings:
    """What a trace has around a call; of a call by itself, nothing.

    Attributes:
        children: names of the ops below it, in order, at all depths.
        kernels: names of the GPU work below it.
        is_traced: whether there is a trace, so that what is not below a call was not called by it.
    """

    children: Sequence[str] = ()
    kernels: Sequence[str] = ()
    is_traced = False

    def recorded_of(self, child: str) -> Recorded | None:
        """What was recorded of the first op of a name below the call."""
        return None

    def calls_below(self, under: str = "") -> Sequence[tuple[str, Recorded]]:
        """Names and arguments of the ops that the call itself calls, or the first op of a name below it does."""
        return ()

    def dtype_near(self, shape: tuple[int, ...]) -> str:
        """The dtype of tensors of some sizes among the arguments of ops nearby; empty if there are none."""
        return ""

    def sparse_made(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Sparse dimensions and entries of the last sparse tensor of some sizes that was made before the call."""
        return None

    @property
    def is_followed(self) -> bool:
        """Whether autograd followed the call: some argument needed a gradient, and gradients were on."""
        return False

    @property
    def is_without_gradients(self) -> bool:
        """Whether gradients were off during the call, as far as the trace tells."""
        return False

    @property
    def common_dtype(self) -> str:
        """The floating dtype that most calls of the trace have."""
        return "float32"


@dataclass(frozen=True)
class Call:
    """A call to plan.

    Attributes:
        op: name with the namespace.
        recorded: its arguments as the profiler wrote them.
        schema: its schema as an execution trace has it; empty without one.
        observed: its arguments as the execution trace has them; empty without one.
        around: what stands around it.
        schemas: schemas that it may have been made by; empty for those of PyTorch.
        has_gpu: whether the trace has GPU work, so that a tensor on the host is one that stays there.
    """

    op: str
    recorded: Recorded
    schema: str = ""
    observed: Sequence[Observed] = ()
    around: Surroundings = field(default_factory=Surroundings)
    has_gpu: bool = False
    schemas: Sequence[Schema] = ()

    def __len__(self) -> int:
        return len(self.recorded.types)
