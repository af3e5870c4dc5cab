"""Commands that are suggested below an answer, complete enough to be pasted into a shell."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracelens_graph.cli.options import ANYWHERE, NO_ARCH
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.errors import TraceLensGraphError

if TYPE_CHECKING:
    from tracelens_graph.analyses.ranks.job import Job
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.ranks import Ranked
    from tracelens_graph.graph.window import Window
    from tracelens_graph.tables.table import Table

_PROGRAM = "tracelens-graph"
_ENGINE = re.compile(r"(?:^|/)(?:vllm|sglang|atom)/")
"""Frames of servers of language models."""
_REAL_PERCENT = 10
"""Share of the GPU time from which on it is worth calling operations again."""


_OF_WINDOWS = {"diff", "explain", "modules", "ranks", "replay", "report", "roofline", "tree", "ask"}
COMMANDS_WITH = {
    "--annotation": _OF_WINDOWS,
    "--extension": _OF_WINDOWS - {"ranks"},
    "--et": {"ask", "link", "replay", "report", "save", "tensor"},
    "--arch": {"explain", "model", "ranks", "replay", "report", "roofline"},
}
"""Commands that take an option which hints repeat; those with `--annotation` take all options of windows."""
ASKED_OF_A_DEVICE = {"explain", "kernel_candidates", "model_flops", "opportunities"}
"""Questions that take a device as a parameter."""


def with_profile(words: Sequence[str], source: str, parameters: Sequence[Any]) -> str:
    """A command that was given an execution trace, with the profiler's trace, KINETO, in its place.

    Where the command takes `--et`, the execution trace goes there.

    Args:
        words: the command as it was given, its name first.
        source: the execution trace, as graphs name it.
        parameters: the parameters of the command.

    Returns:
        The command; empty where no word of it is the execution trace, such as one in a folder.
    """
    places = [i for i, word in enumerate(words) if i and _names(word, source)]
    if not places:
        return ""
    changed = [_PROGRAM, *("KINETO" if i in places else word for i, word in enumerate(words))]
    with_value = {option for one in parameters if not getattr(one, "is_flag", False) for option in one.opts}
    is_value = words[places[0] - 1].startswith("-") and words[places[0] - 1] in with_value
    if "--et" in with_value and "--et" not in words and not is_value:
        changed += ["--et", words[places[0]]]
    return shlex.join(changed)


def _names(word: str, source: str) -> bool:
    return source == "<stdin>" if word == "-" else str(Path(word)) == source


def without_folders(paths: Sequence[str]) -> list[str]:
    """Paths for what goes elsewhere, such as a page or a comment: of each only the end that separates them.

    What can be read once only, such as a pipe, is named as it was.
    """
    parts = {path: _parts(path) for path in paths if not _is_read_once(path)}
    most = max(map(len, parts.values()), default=1)
    taken = next((n for n in range(1, most + 1) if len({one[-n:] for one in parts.values()}) == len(parts)), 1)
    return [str(Path(*parts[path][-taken:])) if path in parts else path for path in paths]


def _seen_from(folder: Path, path: str) -> str:
    """A path below a folder from there, any other one without its folders."""
    whole = Path(path).absolute()
    return str(whole.relative_to(folder)) if whole.is_relative_to(folder) else without_folders([path])[0]


def _is_read_once(path: str) -> bool:
    """Whether a trace came through a pipe, or is of one rank of a fused file, which vanishes with this process."""
    from tracelens_graph.loaders.parts import is_part
    from tracelens_graph.loaders.sources import is_stream

    return is_stream(path) or is_part(path)


def _parts(path: str) -> tuple[str, ...]:
    """The parts of a path, whose last one is a name: that of `.` is the name of the folder."""
    named = Path(path)
    return named.parts if named.name not in ("", "..") else Path(os.path.abspath(path)).parts


@dataclass(frozen=True)
class Call:
    """What a command was asked, as far as commands that follow it keep to it.

    Attributes:
        trace: the trace as the user named it.
        window: the part of the trace.
        extensions: the user's extensions.
        et: the execution trace that it is linked with, as the user named it.
        arch: the device that was named.
        joined: captures, or another trace, as the user named them -> as commands name them.
    """

    trace: str
    window: WindowChoice = field(default_factory=WindowChoice)
    extensions: Sequence[str] = ()
    et: str | None = None
    arch: str | None = None
    joined: Mapping[str, str] = field(default_factory=dict)

    def complete(self, command: str) -> str:
        """A command with the trace for TRACE, the window, the extensions and the execution trace, quoted for a shell.

        Where the trace cannot be read again, as it came through a pipe, TRACE stays.

        Args:
            command: the command; the options that it has already stay as they are.
        """
        words = shlex.split(command)
        name = words[1] if len(words) > 1 else ""
        words = [self._name if word == "TRACE" else word for word in words]
        more: list[tuple[str, ...]] = []
        if name in COMMANDS_WITH["--annotation"]:
            more += self.window.arguments()
        if name in COMMANDS_WITH["--extension"]:
            more += [("--extension", one) for one in self.extensions]
        if name in COMMANDS_WITH["--et"] and self.et is not None:
            more.append(("--et", self.et))
        if name in COMMANDS_WITH["--arch"] and self.arch is not None:
            more.append(("--arch", self.arch))
        if name == "ask" and ASKED_OF_A_DEVICE.intersection(words) and self.arch not in (None, NO_ARCH):
            words += ["-p", f"arch={self.arch}"]
        if name in COMMANDS_WITH["--annotation"] or name == "cut":
            more += _anywhere(self.joined)
        for option in more:
            if option[0] not in command.split():
                words += option
        return shlex.join(words)

    def completed(self, table: Table, w: Window) -> Table:
        """A table whose column `command`, if it has one, holds complete commands; none that would write no program."""
        if "command" not in table.columns:
            return table
        leads = [self.complete(one) if _leads(w, one) else "" for one in table["command"]]
        return replace(table, columns={**table.columns, "command": leads})

    def without_folders(self) -> Call:
        """The same for what goes elsewhere: all that it names is named without the folders it is in.

        What was joined with the trace and lies below its folder is named from there.
        """
        of_et = [] if self.et is None else [self.et]
        trace, *others = without_folders([self.trace, *self.extensions, *of_et])
        like = ANYWHERE.get().identify
        given = ANYWHERE.get()
        beside = [*given.capture, *filter(None, [given.memory]), *([like] if isinstance(like, str) else [])]
        return replace(
            self, trace=trace, extensions=others[: len(self.extensions)], et=others[-1] if of_et else None,
            joined={path: _seen_from(Path(self.trace).absolute().parent, path) for path in beside},
        )  # fmt: skip

    @property
    def is_read_once(self) -> bool:
        """Whether the next command cannot read the trace again."""
        return _is_read_once(self.trace)

    @property
    def _name(self) -> str:
        """The trace; of one rank of a fused file what is saved of it, as the report says, and TRACE for a pipe."""
        from tracelens_graph.loading.fused import whole_of

        if (whole := whole_of(self.trace)) is not None:
            return f"rank{whole[1]}.tlg"
        return "TRACE" if self.is_read_once else self.trace

    def to_join(self, w: Window, is_replay: bool) -> list[str]:
        """The command that joins a trace with the captures that lie beside it; none where nothing is replayed.

        Where there are none, the one that infers what was replayed, if most GPU time is (`is_replay`). Where either
        was done, the one that sums up what ran in the layers.
        """
        from tracelens_graph.analyses.kernels.shares import GRAPH_LAUNCH_CALLS

        core, in_layers = w.core, []
        if core.info.replays or ANYWHERE.get().identify:
            from tracelens_graph.analyses.identification.tables import identified_kernels

            if len(identified_kernels(w)):
                command = self.complete(f"{_PROGRAM} ask identified_kernels TRACE -p by=role")
                in_layers = [f"what ran in its layers, by role: {command}"]
        if core.info.replays or not any(name.startswith(GRAPH_LAUNCH_CALLS) for name in core.names):
            return in_layers
        if folder := captures_beside(self.trace):
            command = self.complete(f"{_PROGRAM} report TRACE --capture {shlex.quote(folder)}")
            return [f"captures beside it say what its graphs ran: {command}", *in_layers]
        if ANYWHERE.get().identify or not is_replay:
            return in_layers
        command = self.complete(f"{_PROGRAM} report TRACE --identify")
        return [f"ops and layers that its graphs ran, inferred from the kernels: {command}"]

    def to_repeats(self, core: Core) -> list[str]:
        """The command that lists the steps of a server without annotations, if repeated calls show them."""
        from tracelens_graph.graph.iterations import is_of_server, iterations_of

        if is_of_server(core) or not any(map(_ENGINE.search, core.names)) or not len(found := iterations_of(core)):
            return []
        command = self.complete(f"{_PROGRAM} ask iterations TRACE")
        return [f"{len(found):,} steps of a server ({found.source}): {command}"]

    def to_open(self, table: Table) -> list[str]:
        """The command that cuts out what the first row with an event is about, for Perfetto UI; none without one."""
        if table.name == "iterations" and len(table) and table["iteration"][0] is not None:
            number = table["iteration"][0]
            command = self.complete(f"{_PROGRAM} cut TRACE --iteration {number} -o iteration-{number}.json.gz")
            return [f"open in Perfetto UI: {command}"]
        uid = first_event(table)
        return [] if uid is None else [f"open in Perfetto UI: {self.cut(uid)}"]

    def to_replay(
        self, core: Core, uids: Iterable[int | None], options: str, shares: Iterable[float] = repeat(100)
    ) -> list[str]:
        """The command that calls operations again; none where too little of the GPU time can be.

        Args:
            core: the trace.
            uids: its operations that are shown; None for work that has none.
            options: what chooses them, such as `--top 5`.
            shares: the GPU time of each, percent; all of it where the share does not matter.
        """
        can = (
            share
            for uid, share in zip(uids, shares, strict=False)
            if uid is not None and _is_replayable(core, int(uid))
        )
        if not core.framework.compiles_programs and not any(total >= _REAL_PERCENT for total in accumulate(can)):
            return []
        return [f"ask next: {self.complete(f'{_PROGRAM} replay TRACE {options}')}"]

    def cut(self, uid: int) -> str:
        """The command that cuts out an event."""
        return self.complete(f"{_PROGRAM} cut TRACE --uid {uid} -o event-{uid}.json.gz")


def _leads(w: Window, command: str) -> bool:
    """Whether a command writes a program, if it is one of `replay` that says which."""
    if not (found := re.search(r" replay TRACE --uid (\d+)", command)):
        return True
    from tracelens_graph.replay.planned import Plans
    from tracelens_graph.replay.signatures import of_event

    try:
        return Plans(of_event(w, int(found[1])))[0].plan is not None
    except TraceLensGraphError:
        return False


def _is_replayable(core: Core, uid: int) -> bool:
    """Whether a call is of an operation of PyTorch, and has a plan; where values are recorded, that is not tried."""
    from tracelens_graph.frameworks import NAMESPACES
    from tracelens_graph.graph.node import Node

    row = core.row(uid)
    if not core.names[core.columns.name[row]].startswith(NAMESPACES):
        return False
    if Node(core, row).shapes.get("Concrete Inputs"):
        return True
    from tracelens_graph.replay.planned import planned

    return planned(core, row).plan is not None


def _anywhere(joined: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """The options of all commands by which traces of other tools are read, and replayed kernels got their ops."""
    called, given = joined or {}, ANYWHERE.get()
    like = given.identify
    by_kernels = [("--like", called.get(like, like))] if isinstance(like, str) else [("--identify",)] * like
    beside = [("--capture", one) for one in given.capture] + [("--memory", given.memory)] * bool(given.memory)
    return [*[("--generic",)] * given.generic, *((name, called.get(one, one)) for name, one in beside), *by_kernels]


def captures_beside(trace: str) -> str | None:
    """The folder of captures that lies beside a trace, as servers write it; None without one."""
    if _is_read_once(trace) or not Path(trace).is_file():
        return None
    return next((str(path) for path in sorted(Path(trace).parent.glob("capture*")) if path.is_dir()), None)


def first_event(table: Table) -> int | None:
    """The uid in the first row that has one, of the column of instances, else of the first column of uids."""
    from tracelens_graph.tables.column import Role

    for role in (Role.instance, Role.uid):
        for name, about in table.about.items():
            if about.role is role and name in table.columns and "ext" not in name:
                found = next((uid for uid in table.columns[name] if uid is not None and uid >= 0), None)
                if found is not None:
                    return int(found)
    return None


# --- of the ranks of a job -------------------------------------------------------------------------------------------

NEXT = "ask next: "
"""What a line begins with that suggests a command."""


@dataclass(frozen=True)
class Asked:
    """The traces that were named, and the part of them: what commands that follow keep to."""

    traces: Sequence[str]
    window: WindowChoice
    arch: str | None = None

    @property
    def step(self) -> int | None:
        """The step, where one whole step is asked for."""
        step = self.window.step
        return step[0] if step is not None and self.window == WindowChoice(step=step[:1]) else None

    def next(self, *words: str, command: str = "ranks") -> str:
        """A line that suggests `ranks`, or another command, with other options."""
        arch = [] if self.arch is None else [("--arch", self.arch)]
        kept = [word for option in (*self.window.arguments(), *arch, *_anywhere()) for word in option]
        return f"{NEXT}{_PROGRAM} {command} {shlex.join([*self.traces, *kept, *words])}"

    def cut(self, number: int, key: str) -> str:
        """A line that suggests to cut out a collective."""
        # Collectives are numbered anew in a part of the traces; keys stay.
        wanted = str(number) if self.window == WindowChoice() else key
        words = [*self.traces, "--collective", wanted, *(word for option in _anywhere() for word in option)]
        return f"{NEXT}{_PROGRAM} cut {shlex.join(words)} -o collective.json.gz"

    def below_screen(self, job: Job) -> list[str]:
        """What to ask after the first screen."""
        if not len(job.matched):
            return []
        is_late = job.lateness is not None and job.lateness.late is not None
        found = [self.next(command="report")] if _is_idle(job) else []
        found += [self.next("--table", "rank_links")] if job.slow_links else []
        found.append(self.next("--table", "late_ranks" if is_late else "rank_collectives"))
        found += [*self._link(job), *self._repair(job)]
        if any(rank.has_gpu_work for rank in job.matched.ranks):
            found.append(self.next("--path"))
        return found

    def below_table(self, table: Table, job: Job) -> list[str]:
        """What to ask after a table; nothing for most of them."""
        if table.name not in ("rank_collectives", "late_arrivals", "late_ranks") or not len(table):
            return []
        if table.name == "late_ranks":
            return [self.next("--table", "late_arrivals"), *self._repair(job)]
        more = [self.next("--table", "late_arrivals")] if table.name == "rank_collectives" else []
        return [*more, self.cut(table["collective"][0], table["key"][0])]

    def _link(self, job: Job) -> list[str]:
        """What the slow links with most excess would save, as fast as the others."""
        if not any(rank.has_gpu_work for rank in job.matched.ranks) or not job.link_edit:
            return []
        return [self.next("--what-if", f"bandwidth={job.link_edit}")]

    def _repair(self, job: Job) -> list[str]:
        if not (late := [called(job.matched.ranks, place) for place in job.repairable]):
            return []
        late.sort(key=lambda one: (len(one), one))
        numbers = len(late) == 1 or all(map(str.isdecimal, late))
        return [self.next("--what-if", f"repair={','.join(late if numbers else late[:1])}")]


def _is_idle(job: Job) -> bool:
    """Whether the GPUs are idle for a large part of a step, and for more of it than communication is exposed."""
    from tracelens_graph.analyses.diagnosis.thresholds import MAJOR_PERCENT

    percent = {row["time"]: row["percent"] or 0.0 for row in job.table("rank_times").records()}
    return bool(percent) and percent["idle"] > max(percent["exposed"], MAJOR_PERCENT)


def called(ranks: Sequence[Ranked], place: int) -> str:
    """What to call a rank in a command: its number, or the name of its trace where several have the number."""
    from tracelens_graph.graph.ranks import rank_number

    number = rank_number(ranks, place)
    is_alone = sum(rank_number(ranks, other) == number for other in range(len(ranks))) == 1
    return str(number) if is_alone else ranks[place].name
