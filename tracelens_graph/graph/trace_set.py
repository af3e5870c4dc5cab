"""Several traces as one object: graphs in an order, each with its name, run, rank, labels and place on a common clock.

What asks about more than one trace takes a `TraceSet`: reports over folders, comparisons, pushes, questions about the
ranks of a job. A set can be made of whatever holds graphs:

    TraceSet.of([a, b])
    TraceSet.of({"before": a, "after": b.window(step=3)})
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, overload

from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.deferred import Deferred, Question, Reader
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.ranks import rank_notes, rank_of
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import file_name, stem, whole_number

NODES_PER_TRACE = 2**40
"""A node of a set is `ordinal * NODES_PER_TRACE + uid`. Uids of synthetic nodes start at 2**39, so they fit too."""

_NAMED = 4
"""How many windows a title names."""

_EARLIEST_DATE_NS = 10**17
"""No trace is of 1973 or before: what is less counts from a base that is not known."""


@dataclass(frozen=True)
class TraceMember:
    """A trace and its place in a set.

    Attributes:
        graph: the graph, or the window of it that counts, or what reads it again.
        name: name of the trace, unique in its run.
        run: name of the run; empty for a trace that is its own run.
        labels: `key=value`, as the user gave them.
        rank: rank in its job; by default that of the metadata, else of the file's name, else None.
        clock_ns: time since 1970 at which the graph's own clock is 0; by default what the trace says, 0 for nothing.
        offset_ns: what to add to a time of this graph to get one on the clock of the set; set by `TraceSet`.
    """

    graph: Core | Window | Deferred
    name: str
    run: str = ""
    labels: tuple[str, ...] = ()
    rank: int | None = None
    clock_ns: int | None = None
    offset_ns: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it is not part of its trace."""
        return not isinstance(self.graph, Window) or self.graph.is_whole

    @property
    def is_held(self) -> bool:
        """Whether its graph is there, and need not be read again."""
        return not isinstance(self.graph, Deferred)

    @property
    def held(self) -> Core | Window:
        """The graph, or the window of it that counts; read again where it is not held."""
        return self.graph.read() if isinstance(self.graph, Deferred) else self.graph

    @property
    def core(self) -> Core:
        """The graph, whole."""
        held = self.held
        return held.core if isinstance(held, Window) else held

    @property
    def info(self) -> TraceInfo:
        """Facts about the trace."""
        return self.graph.info if isinstance(self.graph, Deferred) else self.core.info

    @property
    def window(self) -> Window:
        """The part of it that counts."""
        return window_of(self.held)

    @property
    def path(self) -> str:
        """Run and name in one text; the name alone where no run was given."""
        return f"{self.run}/{self.name}" if self.run else self.name

    def value_of(self, key: str) -> str | None:
        """The value of the first label with this key; None if there is none."""
        return next((label[len(key) + 1 :] for label in self.labels if label.startswith(f"{key}=")), None)


class TraceSet(Sequence[TraceMember]):
    """An ordered set of traces, such as the ranks of a job or runs to compare.

    Attributes:
        notes: notes on the set, a line each: what was left out, which ranks are missing.
        rank_notes: those on the ranks of a job, which mean nothing of traces that are compared with each other.
        broken: why traces that should be in it could not be read, a line each.
        no_traces: files that were named with its traces and are something else.
        linked: which traces were linked with their execution traces, a line; empty if none was.
    """

    def __init__(
        self,
        members: Iterable[TraceMember],
        notes: Iterable[str] = (),
        broken: Iterable[str] = (),
        linked: str = "",
    ) -> None:
        self._members = _on_one_clock(members)
        self.broken = tuple(broken)
        self.linked = linked
        self.no_traces: tuple[str, ...] = ()
        self._source: TraceSet | None = None  # files that a set's graphs are mapped from live as long as that set
        self.rank_notes = tuple(rank_notes(self._members))
        self.notes = (*notes, *self.rank_notes)

    @classmethod
    def of(cls, given: Any, run: str = "") -> Self:
        """The set of whatever holds graphs: a set, members, graphs or windows, or a mapping from names to these.

        Ranks come from the metadata, else from the names of the files (`rank3`); clock offsets from the absolute
        starts of the traces. Where nothing shows it, a rank is None and an offset 0.

        Args:
            given: the graphs.
            run: name of their run.

        Raises:
            AnalysisError: there are other things among them.
        """
        if isinstance(given, TraceSet):
            return given if isinstance(given, cls) else cls._again(given, given)
        if isinstance(given, Core | Window | TraceMember):
            given = [given]
        if isinstance(given, Mapping):
            named = [(str(name), graph) for name, graph in given.items()]
        elif isinstance(given, Iterable):
            named = [("", graph) for graph in given]
        else:
            raise AnalysisError(f"expected graphs, not {type(given).__name__}")
        if named and all(isinstance(one, TraceMember) for _, one in named):
            return cls(one for _, one in named)
        for _, graph in named:
            if not isinstance(graph, Core | Window):
                raise AnalysisError(f"expected a graph or a window, not {type(graph).__name__}")
        windows = [window_of(graph) for _, graph in named]
        names = _unique(
            [
                name or stem(file_name(w.core.info.source)) or w.core.trace_id[:12]
                for (name, _), w in zip(named, windows, strict=True)
            ]
        )
        return cls(TraceMember(graph, name, run) for (_, graph), name in zip(named, names, strict=True))

    # --- reading -------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, at: int | str) -> TraceMember: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: int | str | slice) -> TraceMember | Self:
        """A member by its place, its path, its trace id or its name; several by a slice."""
        if isinstance(at, slice):
            return self._again(self, self._members[at])
        return self.named(at) if isinstance(at, str) else self._members[at]

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[TraceMember]:
        return iter(self._members)

    def __repr__(self) -> str:
        names = [member.name for member in self._members]
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")
        return f"<TraceSet of {len(names):,}: {shown}>"

    def _repr_html_(self) -> str:
        own = self._members
        columns: dict[str, list[Any]] = {
            "run": [one.run for one in own], "trace": [one.name for one in own], "rank": [one.rank for one in own],
            "labels": [", ".join(one.labels) for one in own], "nodes": [len(one.core.columns) for one in own],
            "GPU events": [len(one.window.gpu_rows) for one in own],
        }  # fmt: skip
        shown = {name: cells for name, cells in columns.items() if any(cell not in ("", None) for cell in cells)}
        return Table("traces", shown, title=f"{len(own):,} traces", notes=self.notes)._repr_html_()

    @property
    def graphs(self) -> list[Core | Window]:
        """The graphs."""
        return [one.held for one in self._members]

    def with_graphs(self, made: Callable[[Core], Core]) -> Self:
        """The set with other graphs in the place of its own, such as graphs with a face; all else stays."""
        return self._again(self, (replace(one, graph=made(one.core)) for one in self._members))

    def whole(self) -> Self:
        """The set of whole graphs, of whose windows it is."""
        members = (one if isinstance(one.graph, Deferred) else replace(one, graph=one.core) for one in self._members)
        return self._again(self, members)

    def ask(self, question: Question, given: Mapping[int, Any]) -> Iterator[tuple[int, Any]]:
        """Place and answer of some members, each asked where it is read: in another process, or by a worker.

        Args:
            question: what they are asked.
            given: place of each of them -> what the question takes beside the graph.
        """
        away: dict[str, int] = {}
        ask = None
        for place, one in given.items():
            graph = self._members[place].graph
            if isinstance(graph, Deferred):
                away[graph.file], ask = place, graph.ask
            else:
                yield place, question(Reader(partial(getattr, self._members[place], "core")), one)
        if ask is not None:
            for file, answer in ask(question, {file: given[place] for file, place in away.items()}):
                yield away[file], answer

    def by_rank(self) -> Self:
        """The set in the order of the ranks, those without one last."""
        return self._again(self, sorted(self._members, key=lambda one: (one.rank is None, one.rank or 0, one.name)))

    def without(self, members: Mapping[int, str]) -> Self:
        """The set without some of its members, which count as broken: place of a member -> why."""
        made = self.only(place for place in range(len(self)) if place not in members)
        made.broken += tuple(members.values())
        return made

    def only(self, places: Iterable[int]) -> Self:
        """The set of some of its members."""
        return self._again(self, (self._members[place] for place in places))

    def by_device(self) -> Self:
        """The set with the devices of each profile of JAX as ranks of their own; other traces stay as they are."""
        from tracelens_graph.graph.device_graphs import by_device

        if not all(one.info.framework.devices_are_ranks for one in self._members):
            return self
        divided = list(by_device([one.window for one in self._members]))
        if not any(divided):
            return self
        alone = len(self._members) == 1
        members = (
            replace(
                one, graph=w if w.title else w.core, name=f"device{device}" if alone else f"{one.name}-device{device}"
            )
            for one, devices in zip(self._members, divided, strict=True)
            for device, w in devices
        )
        made = self._again(self, (replace(one, rank=None) for one in members))
        made.notes = (*self.notes, *rank_notes(made._members))
        return made

    def narrowed(self, **conditions: Any) -> Self:
        """The set of the windows of its graphs that meet some conditions; see `Core.window`."""
        from tracelens_graph.graph.window import narrow

        return self._again(self, (replace(one, graph=narrow(one.window, **conditions)) for one in self._members))

    @classmethod
    def _again(cls, traces: TraceSet, members: Iterable[TraceMember]) -> Self:
        """A set of the same traces: other graphs or windows of them, some of them, or in another order."""
        again = cls(members, broken=traces.broken, linked=traces.linked)
        again.notes, again.no_traces, again._source = traces.notes, traces.no_traces, traces
        return again

    def titled(self, text: str) -> str:
        """A table's title, with what the windows of the traces are restricted to."""
        return titled(text, self._members)

    def last(self) -> TraceMember:
        """The last member.

        Raises:
            AnalysisError: there is none.
        """
        if not self._members:
            raise AnalysisError("there are no traces")
        return self._members[-1]

    def of_run(self, run: str | None = None) -> Self:
        """The traces of a run.

        Args:
            run: its name; by default that of the last trace.

        Raises:
            AnalysisError: there is no such run.
        """
        wanted = self.last().run if run is None else run
        members = [one for one in self._members if one.run == wanted]
        if not members:
            runs = dict.fromkeys(one.run for one in self._members)
            raise AnalysisError(f"no run is called {wanted!r}; {hint(wanted, runs)}")
        return type(self)(members)

    def pair(self, a: str | None = None, b: str | None = None) -> tuple[TraceMember, TraceMember]:
        """Two traces to be compared.

        Args:
            a: path, name or id of one; by default the one before the other.
            b: path, name or id of the other; by default the last.

        Raises:
            AnalysisError: there are not two such traces, or a name is that of several.
        """
        other = self.named(b)
        if a is not None:
            one = self.named(a)
            if one is other:
                raise AnalysisError(f"{other.path} is compared with itself")
            return one, other
        earlier = self._members[: self._members.index(other)]
        if not earlier:
            raise AnalysisError(
                f"{other.path} is the only trace: name two to compare"
                if len(self) == 1
                else f"there is no trace before {other.path}"
            )
        return earlier[-1], other

    def named(self, what: str | None) -> TraceMember:
        """The trace of a path, name or id; the last one for None.

        Raises:
            AnalysisError: there is none, or the name is that of several.
        """
        if what is None:
            return self.last()
        exact = [
            one for one in self._members if what in (one.path, one.core.trace_id, f"{one.core.trace_id}/{one.name}")
        ]
        fitting = exact or [one for one in self._members if one.name == what]
        if len(fitting) != 1:
            restricted = f"{what} is the name of several traces" if fitting else f"no trace is called {what!r} among"
            raise AnalysisError(f"{restricted}: {', '.join(one.path for one in fitting or self._members)}")
        return fitting[0]

    # --- nodes ---------------------------------------------------------------------------------------------------

    def node_id(self, ordinal: int, uid: int) -> int:
        """The number that a node has in the set.

        Raises:
            NodeNotFoundError: the set has no such trace, or no trace has such a node.
        """
        self._check_ordinal(ordinal)
        if not 0 <= uid < NODES_PER_TRACE:
            raise NodeNotFoundError(f"no trace has a node {uid}: uids are from 0 to 2**40 - 1")
        return ordinal * NODES_PER_TRACE + uid

    def node(self, number: int) -> Node:
        """The node with a number of the set.

        Raises:
            NodeNotFoundError: the set has no such trace, or the trace no such node.
        """
        ordinal, uid = divmod(number, NODES_PER_TRACE)
        self._check_ordinal(ordinal)
        core = self._members[ordinal].core
        return Node(core, core.row(uid))

    def _check_ordinal(self, ordinal: int) -> None:
        if not 0 <= ordinal < len(self._members):
            raise NodeNotFoundError(f"there is no trace {ordinal} in a set of {len(self._members)}, counted from 0")


def titled(text: str, members: Iterable[TraceMember]) -> str:
    """A table's title, with what the windows of some traces are restricted to, each named where they differ."""
    titles = {one.path: "" if one.is_whole else one.window.title for one in members}
    if len(set(titles.values())) > 1:
        parts = [f"{path}: {title or 'whole'}" for path, title in titles.items()]
        restricted = "; ".join(parts[:_NAMED]) + (f"; and {len(parts) - _NAMED:,} more" if len(parts) > _NAMED else "")
    else:
        restricted = next(iter(titles.values()), "")
    return f"{text} ({restricted})" if restricted else text


def _on_one_clock(members: Iterable[TraceMember]) -> tuple[TraceMember, ...]:
    """The members with their ranks, and with offsets to the earliest of their clocks; 0 where nothing shows it."""
    given = list(members)
    bases = Counter(whole_number(str(one.info.metadata.get("baseTimeNanoseconds", ""))) or 0 for one in given)
    base = max(bases, key=lambda one: (one > 0, bases[one]), default=0)
    dated = [
        replace(
            one,
            rank=rank_of(one.info) if one.rank is None else one.rank,
            clock_ns=_clock_ns(one.info, base) if one.clock_ns is None else one.clock_ns,
        )
        for one in given
    ]
    zero = min((one.clock_ns for one in dated if one.clock_ns), default=0)
    return tuple(replace(one, offset_ns=one.clock_ns - zero if one.clock_ns else 0) for one in dated)


def _clock_ns(info: TraceInfo, base_ns: int) -> int:
    """When a graph's clock is 0; with the base of the others where its own, at the end of the file, was cut away."""
    lost = 0 < info.start_epoch_ns < _EARLIEST_DATE_NS
    return info.start_epoch_ns + (base_ns if lost else 0)


def _unique(names: list[str]) -> list[str]:
    """The names; those that several have with their place behind."""
    count = Counter(names)
    return [name if count[name] == 1 else f"{name}#{place}" for place, name in enumerate(names, 1)]
