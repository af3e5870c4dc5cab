"""A graph as one reads it: its nodes, the windows of it, and what is derived from it, as attributes and methods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.graph import traversals
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.flows import Flows
from tracelens_graph.graph.window import Threads, Window, narrow, whole_window
from tracelens_graph.schema import FOREST_KINDS, GPU_KINDS, HOST_KINDS, PYTHON_KINDS, Kind
from tracelens_graph.utils.arrays import Mask
from tracelens_graph.utils.suggest import did_you_mean, hint, there_are

if TYPE_CHECKING:
    from tracelens_graph.graph.autograd import Autograd
    from tracelens_graph.graph.collectives import Collectives
    from tracelens_graph.graph.node import Node
    from tracelens_graph.tables.table import Table

PARTS = tuple(field.name for field in fields(Core))
"""What a graph is made of."""


class Found(list["Node"]):
    """Nodes that were found.

    Attributes:
        why: why there are none; empty where there are.
    """

    why = ""

    def __repr__(self) -> str:
        return f"[]  # {self.why}" if self.why else super().__repr__()


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise AnalysisError(f"{pattern!r} is no regular expression: {error}") from error


class Graph(Core):
    """A graph with the reading API. Whatever loads or makes graphs makes these."""

    # --- nodes -----------------------------------------------------------------------------------------------

    def node(self, uid: int) -> Node:
        """The node with this uid (position of the event in the file's event list).

        Raises:
            NodeNotFoundError: there is none.
        """
        return self.nodes_at([self.row(uid)])[0]

    def nodes_at(self, rows: Iterable[int]) -> list[Node]:
        """The nodes of these rows, in the given order."""
        from tracelens_graph.graph.node import nodes_at

        return nodes_at(self, rows)

    def find(
        self,
        kind: Kind | str | Iterable[Kind | str] | None = None,
        name: str | re.Pattern[str] | None = None,
        *,
        pattern: str | None = None,
        external_id: int | None = None,
        pid: int | str | None = None,
        tid: int | str | None = None,
        after_ns: int | None = None,
        before_ns: int | None = None,
    ) -> Found:
        """Nodes that meet all conditions, in row order (a parent before its children).

        Where none does, the list is empty, and shows why: `found.why`.

        Args:
            kind: one or more of `schema.Kind`, as such or by name; "gpu" and "host" stand for their groups.
            name: the exact name, or a regular expression, compiled or between slashes: `/gemm|conv/`.
            pattern: a regular expression searched in the name.
            external_id: External id, as Perfetto UI shows it among the arguments.
            pid, tid: process and thread as the file gives them; for device events also device and stream.
            after_ns, before_ns: a time window; nodes that overlap [after_ns, before_ns) are found.

        Raises:
            NodeNotFoundError: `kind` is no kind of node.
            AnalysisError: `name` or `pattern` is no regular expression.
        """
        c = self.columns
        keep = np.ones(len(c), bool)
        if kind is not None:
            keep &= is_kind(c.kind, kinds_named(kind))
        if isinstance(name, str) and len(name) > 2 and name[0] == name[-1] == "/":
            name = _compiled(name[1:-1])
        of_kind = keep.copy()
        tests = [name, None if pattern is None else _compiled(pattern)]
        for test in tests:
            if test is not None and len(c):
                keep &= self._names_like(test)[c.name]
        named = keep.copy()
        if external_id is not None:
            keep &= c.external_id == external_id
        if pid is not None or tid is not None:
            keep &= self._on_thread(pid, tid)
        if after_ns is not None:
            keep &= (c.end_ns > after_ns) | (c.start_ns >= after_ns)
        if before_ns is not None:
            keep &= c.start_ns < before_ns
        found = Found(self.nodes_at(np.flatnonzero(keep).tolist()))
        if not found:
            found.why = self._why_none(of_kind, named, name, kind)
        return found

    def _why_none(self, of_kind: Mask, named: Mask, name: object, kind: object) -> str:
        """Why no node meets all conditions: none is of the kind, none of these is called so, or none is there then."""
        c = self.columns
        kinds = there_are(Kind(code).name for code in np.unique(c.kind).tolist())
        what = "node" if kind is None else f"node of kind {getattr(kind, 'name', kind)}"
        if not of_kind.any():
            return f"the trace has no {what}; of kinds {kinds}"
        if named.any():
            return f"no {what} of this name meets the other conditions; {named.sum():,} do not"
        if not isinstance(name, str):
            fits = f" /{name.pattern}/" if isinstance(name, re.Pattern) else ""
            return f"no {what} has a name that fits{fits}; of kinds {kinds}"
        others = [self.names[code] for code in np.unique(c.name[of_kind]).tolist()]
        meant = did_you_mean(name, others, aliases={one.rpartition("::")[2]: one for one in others})
        return f"no {what} is called {name!r}; {meant or f'/.../ takes a regular expression; of kinds {kinds}'}"

    def _names_like(self, test: str | re.Pattern[str]) -> Mask:
        if isinstance(test, str):
            return np.fromiter((name == test for name in self.names), bool, len(self.names))
        return np.fromiter((test.search(name) is not None for name in self.names), bool, len(self.names))

    def _on_thread(self, pid: int | str | None, tid: int | str | None) -> Mask:
        c = self.columns
        match = [(pid is None or str(p) == str(pid)) and (tid is None or str(t) == str(tid)) for p, t in self.threads]
        on_thread = np.array(match, bool)[c.thread] if match else np.zeros(len(c), bool)
        on_device = c.device != -1
        for column, value in ((c.device, pid), (c.stream, tid)):
            if value is not None:
                number = int(value) if str(value).lstrip("-").isdigit() else None
                on_device = on_device & (column == number) if number is not None else np.zeros(len(c), bool)
        return on_thread | on_device

    def steps(self) -> list[Node]:
        """The steps (`ProfilerStep#n`), by process and start."""
        return self.nodes_at(traversals.rows_of_kind(self.columns, (Kind.Step,)))

    def roots(self) -> list[Node]:
        """Roots of the call forest, thread by thread, then GPU events without a launch."""
        c = self.columns
        return self.nodes_at(np.flatnonzero((c.parent < 0) & is_kind(c.kind, FOREST_KINDS)))

    # --- windows ---------------------------------------------------------------------------------------------

    @property
    def everything(self) -> Window:
        """The window that holds the whole trace."""
        return whole_window(self)

    def window(
        self,
        *,
        step: int | Iterable[int] | None = None,
        iteration: int | Iterable[int] | None = None,
        phase: str | None = None,
        steady: bool = False,
        annotation: str | re.Pattern[str] | None = None,
        threads: Threads = "own",
        after_ns: int | None = None,
        before_ns: int | None = None,
        under: int | str | re.Pattern[str] | None = None,
        device: int | Sequence[int] | None = None,
        stream: int | Sequence[int] | None = None,
    ) -> Window:
        """The part of the trace that meets all conditions; every analysis takes it.

        A node is in or out as a whole, so neighbouring windows share nothing and lack nothing. GPU events follow
        their launch where steps and annotations are concerned, and their own start where times are.

        Args:
            step: the number in `ProfilerStep#n`, or several, such as `range(2, 6)`.
            iteration: the number of an iteration of a server, or several; table `iterations` lists them.
            phase: iterations of this phase: "prefill", "mixed", "decode", "denoise", "empty", "unknown".
            steady: iterations in the steady state of the server.
            annotation: name of record_function ranges, or a compiled pattern: what starts inside one of them.
            threads: of an annotation: "own" for its thread, "all" for the threads of its process.
            after_ns, before_ns: nodes that start in [after_ns, before_ns), in ns from the trace's start.
            under: uid of a node, or the name of modules (`nn.Module: ` may be left out; also of a class or a path of
                modules), functions, ops, or runtime calls, or a compiled pattern for names: their subtrees.
            device, stream: GPU events on these, and the calls that lead to them.

        Raises:
            AnalysisError: nothing in the trace has the step, iteration, annotation, name, device or stream asked for.
            NodeNotFoundError: no node has the uid asked for.
        """
        return narrow(
            self.everything, step=step, iteration=iteration, phase=phase, steady=steady, annotation=annotation,
            threads=threads, after_ns=after_ns, before_ns=before_ns, under=under, device=device, stream=stream,
        )  # fmt: skip

    def lean(self, columns: Iterable[str]) -> Graph:
        """The graph with only some of its columns, and those that every graph has.

        Argument sets and autograd arrows, which are of no use without `argset` and `sequence`, go with these columns.

        Args:
            columns: names of `schema.STORED`.
        """
        parts: dict[str, Any] = {"columns": self.columns.only(columns)}
        if "argset" not in parts["columns"].names:
            parts |= {"argsets": [], "instructions": ()}
        if "sequence" not in parts["columns"].names:
            parts["autograd_flows"] = Flows.of()
        return changed(self, **parts)

    # --- what is derived -------------------------------------------------------------------------------------

    @property
    def autograd(self) -> Autograd:
        """Forward ops, their backward ops, and recomputed ops."""
        from tracelens_graph.graph.autograd import autograd_of

        return autograd_of(self)

    @property
    def recompute(self) -> Mask:
        """For each row, whether the event belongs to a recomputation of activations."""
        return self.autograd.recompute

    @property
    def collectives(self) -> Collectives:
        """Collective operations, this rank's part of each."""
        from tracelens_graph.graph.collectives import collectives_of

        return collectives_of(self)

    def classes(self, shapes: bool = True, kernel_names: bool = False) -> Table:
        """Classes of equal call subtrees with GPU work; see `graph.classes.class_table`."""
        from tracelens_graph.graph.classes import class_table

        return class_table(self, shapes, kernel_names)

    def same_as(self, node: Node, shapes: bool = True, kernel_names: bool = False) -> list[Node]:
        """Nodes whose call subtree equals this one's, itself included; see `graph.classes.same_as`."""
        from tracelens_graph.graph.classes import same_as

        return same_as(self, node, shapes, kernel_names)


def readable(core: Core) -> Graph:
    """A graph with the reading API: the same one, if it has it."""
    return core if isinstance(core, Graph) else changed(core)


def changed(core: Core, **parts: Any) -> Graph:
    """A graph some of whose parts (names in `PARTS`) are others; all else is shared, what was derived is not kept."""
    return Graph(**{name: parts[name] if name in parts else getattr(core, name) for name in PARTS})


def kinds_named(kind: Kind | str | Iterable[Kind | str]) -> list[Kind]:
    """Kinds from their names; "gpu", "host" and "python" stand for groups.

    Raises:
        NodeNotFoundError: no kind has that name; the message lists those there are.
    """
    if isinstance(kind, Kind):
        return [kind]
    if not isinstance(kind, str):
        return [found for one in kind for found in kinds_named(one)]
    groups = {"gpu": list(GPU_KINDS), "host": list(HOST_KINDS), "python": list(PYTHON_KINDS)}
    lookup = {k.name.lower(): [k] for k in Kind} | groups
    try:
        return lookup[kind.lower()]
    except KeyError:
        if kind[:1] == kind[-1:] == "/":
            raise NodeNotFoundError(f"{kind!r} is no kind of node; did you mean find(None, {kind!r})?") from None
        raise NodeNotFoundError(f"no kind of node is called {kind!r}; {hint(str(kind), lookup)}") from None
