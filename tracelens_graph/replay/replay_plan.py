"""A planned call of one operation, and what the trace says of the calls that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar

from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.replay.arguments import Argument, TensorValue
from tracelens_graph.replay.program_text import HasProgram, ProgramKind
from tracelens_graph.replay.schemas import parse

_ONLY_WRITE = frozenset({
    "fill_", "zero_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_",
    "log_normal_",
})  # fmt: skip
"""Operations that write an argument and do not read it."""


class CannotReplay(TraceLensGraphError):  # noqa: N818 - it reads as what it says
    """An operation cannot be replayed.

    Attributes:
        reason: why, in a few words that tables group by: `shapes are not recorded`.
        remedy: what would help, in words; empty where nothing would.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Recorded:
    """The arguments of a call as the profiler wrote them, one entry per argument; empty where it did not."""

    dims: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()
    strides: tuple[Any, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Traced:
    """What a trace says of the calls of one signature.

    Attributes:
        calls: how many there are.
        uid: the call that was planned: that with the most GPU time.
        kernels: names of the GPU work below that call, in order of launch.
        children: names of the ops that it calls, in order, at all depths.
        kernel_us: time of that call's GPU work, the sum of durations, in us.
        median_us: median over all calls of the sum of their GPU work, in us.
        gpu: name of the GPU; empty where the trace does not tell.
        host_us: duration of that call on the host, in us.
        total_us: sum over all calls of their GPU work, in us.
    """

    calls: int = 1
    uid: int = -1
    kernels: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    kernel_us: float = 0.0
    median_us: float = 0.0
    gpu: str = ""
    host_us: float = 0.0
    total_us: float = 0.0


@dataclass(frozen=True)
class Work:
    """What performance models say of a call.

    Attributes:
        flops, bytes: floating-point operations and bytes moved; None where no model tells.
        roof_us: least time on the traced GPU, in us; None where the device is not known.
    """

    flops: float | None = None
    bytes: float | None = None
    roof_us: float | None = None


@dataclass(frozen=True)
class ReplayPlan(HasProgram):
    """One operation with arguments, ready to be called.

    Attributes:
        op: its name with the namespace: `aten::mm`.
        overload: the overload, empty for the default one.
        schema: its schema, as PyTorch registers it.
        positional, keyword: its arguments.
        recorded: what the profiler wrote of them: a replay should be recorded alike.
        traced: what the trace says of the calls that it stands for.
        work: what models say of one call.
        notes: what else is not as it was, in words.
        imports: modules that register the operation, where it is none of PyTorch's own.
        modes: what PyTorch is to be in during the call: `no_grad`, `below_autograd`, `autocast bfloat16`.
    """

    kind: ClassVar[ProgramKind] = "op"

    op: str
    overload: str
    schema: str
    positional: tuple[Argument, ...]
    keyword: tuple[Argument, ...] = ()
    recorded: Recorded = Recorded()
    traced: Traced = Traced()
    work: Work = Work()
    notes: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()

    @property
    def arguments(self) -> Iterator[Argument]:
        """All arguments, positional ones first."""
        yield from self.positional
        yield from self.keyword

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the trace does not tell and was chosen, in words, one entry per argument."""
        return tuple(f"{one.name}: {one.assumed}" for one in self.arguments if one.assumed)

    @property
    def restored(self) -> tuple[str, ...]:
        """Names of the arguments that the operation reads and writes, so that a second call would see the first one's.

        That is what the schema says is written, but for operations that only write, and for `out` arguments that have
        elements: those without any grow, and the next call is to find them empty again.
        """
        if self.op.rpartition("::")[2] in _ONLY_WRITE:
            return ()
        empty = {one.name for one in self.keyword if isinstance(one.value, TensorValue) and 0 in one.value.shape}
        return tuple(
            one.name
            for one in parse(self.schema).parameters
            if one.is_written and (not one.is_keyword or one.name in empty)
        )

    def with_arguments(self, change: Callable[[Argument], Argument]) -> ReplayPlan:
        """The same call with each argument changed."""
        return replace(self, positional=tuple(map(change, self.positional)), keyword=tuple(map(change, self.keyword)))

    def with_traced(self, traced: Traced, work: Work) -> ReplayPlan:
        """The same call with what a trace and models say of it."""
        return replace(self, traced=traced, work=work)

    @property
    def about(self) -> str:
        """The heading of its program."""
        text: str = _module("heading").heading(self)
        return text

    def json(self) -> dict[str, Any]:
        """The plan as plain data."""
        data: dict[str, Any] = _module("plan_json").plan_json(self)
        return data

    def run(self, device: str | None = None) -> Any:
        """Call the operation once in this process.

        Args:
            device: such as `cuda`; by default a GPU where there is one.

        Raises:
            CannotReplay: the installed PyTorch has no such operator.
            NoTorchError: PyTorch is not installed.
            RuntimeError: PyTorch refuses the call.
        """
        return _module("run").run(self, device)


def _module(name: str) -> Any:
    """What does something with plans, and so imports this module: it is imported when that is asked for."""
    return import_module(f"tracelens_graph.replay.{name}")
