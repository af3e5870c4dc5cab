"""What `tracelens-graph diff` answers of two traces, of several, and of the parts of one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tracelens_graph.cli.hints import Call, without_folders
from tracelens_graph.cli.outputs import Forms
from tracelens_graph.cli.shown import Shown, book, of_table, screen
from tracelens_graph.cli.traces import call_devices, say
from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.analyses.alignment.difference import Diff
    from tracelens_graph.analyses.alignment.places import Place
    from tracelens_graph.graph.window import Window as Part
    from tracelens_graph.tables.table import Table

ROWS_FOR_PEOPLE = 20
_PROGRAM = "tracelens-graph"
_FRAMEWORKS = (
    "Operations of JAX have other names than those of PyTorch: --by-name joins what both compute by family and sizes."
)


@dataclass(frozen=True)
class Pair:
    """Commands that ask two traces, or both of them, further.

    Attributes:
        calls: what the command was asked, of each.
        names: what the user calls them; None to go by files.
    """

    calls: tuple[Call, Call]
    names: str | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether both traces can be read again: what came through a pipe cannot."""
        return not any(call.is_read_once for call in self.calls)

    def without_folders(self) -> Pair:
        """The same for a page that goes elsewhere: of the paths only the end that differs."""
        ends = without_folders([call.trace for call in self.calls])
        first, second = (replace(call.without_folders(), trace=end) for call, end in zip(self.calls, ends, strict=True))
        return Pair((first, second), self.names)

    def diff(self, options: str) -> str:
        """The command that compares the two once more."""
        names = "" if self.names is None else f" --names {shlex.quote(self.names)}"
        first, second = (shlex.quote(call.trace) for call in self.calls)
        return self.calls[0].complete(f"{_PROGRAM} diff {first} {second}{names} {options}".rstrip())


@dataclass(frozen=True)
class Two:
    """How two traces differ, and what was asked.

    Attributes:
        windows: what is compared.
        names: what the two are called.
        pair: commands that follow.
        top: how many places or rows are asked for.
        is_whole: whether they are compared as they are, and not a step of each.
        with_noise: whether changes within noise are left out.
    """

    windows: tuple[Part, Part]
    names: tuple[str, str]
    pair: Pair
    top: int | None
    is_whole: bool
    with_noise: bool = True

    @cached_property
    def _sides(self) -> tuple[Part, Part]:
        from tracelens_graph.analyses.alignment.compared_steps import median_steps

        return self.windows if self.is_whole else median_steps(*self.windows)

    @cached_property
    def difference(self) -> Diff:
        """The comparison."""
        from tracelens_graph.analyses.alignment.difference import diff

        return diff(*self._sides, self.names)

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """All tables by name."""
        from tracelens_graph.analyses.alignment.tables import diff_tables
        from tracelens_graph.graph.iterations import is_of_server

        tables = diff_tables(self.difference, self.with_noise)
        if all(is_of_server(window.core) for window in self.windows):
            from tracelens_graph.analyses.serving.compared import phases_table

            if (phases := phases_table(*self.windows, self.names)) is not None:
                tables["diff_phases"] = phases
        return tables

    @cached_property
    def notes(self) -> list[str]:
        """What is to be known of the two sides."""
        from tracelens_graph.analyses.alignment.compared_steps import choice_note
        from tracelens_graph.reports.diff_text import notes_on

        notes = notes_on(self.difference)
        if self._sides != self.windows:
            notes = [choice_note(*self._sides), *notes]
        is_mixed = len({side.framework.name for side in self._sides}) > 1
        return [*notes, _FRAMEWORKS] if is_mixed else notes

    @property
    def warned(self) -> list[str]:
        """The same behind what to know before any time is read."""
        from tracelens_graph.reports.diff_text import warnings_on

        return [*warnings_on(self.difference), *self.notes]

    def screen(self) -> Iterator[str]:
        """The answer in lines, and what to ask next."""
        from tracelens_graph.analyses.alignment.setups import amount_of_work
        from tracelens_graph.reports.diff_text import changed_places, listed_places
        from tracelens_graph.reports.diff_text import screen as lines

        yield from lines(self.difference, self.tables, *screen(), self.notes, self.top)
        if not self.pair.is_repeatable:
            return
        if idle := self._on_idle_time:
            yield f"ask next: {idle}"
        if changed := changed_places(self.tables["diff_places"]):
            first, *_ = listed_places(changed) or changed
            # Where one side only has more of the same work, places are out of phase.
            more = "--by-name" if amount_of_work(self.difference) else f"--point {first['place']}"
            yield f"ask next: {self.pair.diff(more)}"

    @property
    def _on_idle_time(self) -> str:
        """The command that shows what the host did, on the side that waits longer for it; "" where a place changed more
        than any cause of idle time that the host has to do with."""
        from tracelens_graph.analyses.alignment.times import AROUND, IDLE
        from tracelens_graph.analyses.idle.idle import Cause

        causes = [
            row
            for row in self.tables["diff_times"].records()
            if row["part"] in (IDLE, AROUND) and row["cause"] != Cause.queued.name
        ]
        largest = max(causes, key=lambda row: abs(row["change_ms"]), default={"change_ms": 0.0})
        most = largest["change_ms"]
        if abs(most) <= max((abs(place.change_ns) for place in self.difference.places), default=0) / 1e6:
            return ""
        side = int(most > 0)
        command = "ask idle_causes" if largest["part"] == IDLE else "report"
        return self.pair.calls[side].complete(f"{_PROGRAM} {command} TRACE {self._part(side)}".rstrip())

    def _part(self, side: int) -> str:
        """The option for what was chosen of one side: of a server the phase that changed most, else its step."""
        from tracelens_graph.analyses.alignment.compared_steps import steps_with_work
        from tracelens_graph.graph.batches import PHASES

        if self._sides == self.windows:
            return ""
        rows = self.tables["diff_phases"].records() if "diff_phases" in self.tables else []
        rows = [row for row in rows if row["phase"] in PHASES]
        if rows:
            most = max(rows, key=lambda row: abs(row["change_ms"]) * row["iterations_b"])
            return f"--phase {most['phase']}"
        return "".join(f"--step {number}" for number in steps_with_work(self._sides[side]))

    def tree(self, min_percent: float) -> Iterator[str]:
        """Both call trees as one."""
        from tracelens_graph.analyses.alignment.merged import merged_tree
        from tracelens_graph.reports.diff_text import side_lines, warnings_on
        from tracelens_graph.reports.diff_tree import tree_lines
        from tracelens_graph.utils.texts import printable, wrapped

        width, color = screen()
        for line in (*side_lines(self.difference), *warnings_on(self.difference)):
            yield from wrapped(printable(line), width, "  ")
        yield ""
        yield from tree_lines(merged_tree(self.difference.alignment), width, color, min_percent)

    def point(self, number: int) -> Iterator[str]:
        """A place, both sides of it, and what to do next.

        Raises:
            typer.BadParameter: there are not so many.
        """
        from tracelens_graph.reports.diff_text import place_lines
        from tracelens_graph.reports.diff_tree import point_lines

        places = self.tables["diff_places"]
        if number > len(places):
            raise typer.BadParameter(f"--point: there are {len(places):,} places, from 1")
        width, _ = screen()
        place = self.difference.places[number - 1]
        yield from place_lines(places.records()[number - 1], width)
        yield ""
        yield from point_lines(self.difference, place, width)
        yield from self._on_point(place, self.pair)

    def _on_point(self, place: Place, pair: Pair) -> Iterator[str]:
        """Lines with what to do next about a place, a command each; none for traces that cannot be read again."""
        from tracelens_graph.reports.diff_tree import drawn_rows

        if not pair.is_repeatable:
            return
        sides = (self.difference.a.core, self.difference.b.core)
        rows = drawn_rows(self.difference, place)
        events = [
            (call, side, core, int(core.columns.uid[row]))
            for call, side, core, row in zip(pair.calls, "ab", sides, rows, strict=True)
            if row >= 0
        ]
        for call, _, _, uid in events:
            yield f"ask next: {call.complete(f'{_PROGRAM} tree TRACE --uid {uid} --up')}"
        for call, side, core, uid in events:
            options = f"--uid {uid} -o {side}-{uid}/"  # a folder of its own: names of programs may be equal
            yield from call.to_replay(core, [uid], options)
        for call, side, _, uid in events:
            cut = f"{_PROGRAM} cut TRACE --uid {uid} -o {side}-{uid}.json.gz"
            yield f"open in Perfetto UI: {call.complete(cut)}"

    def places(self, for_people: bool) -> Shown:
        """The places: for people those that differ, for programs all."""
        from tracelens_graph.reports.diff_text import only_changed
        from tracelens_graph.reports.views import with_headings

        table = self.tables["diff_places"]
        table = replace(table, notes=[*self.warned, *table.notes])
        return Shown(only_changed(table) if for_people else table, self.top, ROWS_FOR_PEOPLE, with_headings)

    def json(self) -> str:
        """The answer for programs."""
        from tracelens_graph.reports.diff_text import diff_json

        return diff_json(self.difference, self.tables, self.warned)

    def markdown(self) -> str:
        """The answer for a pull request."""
        from tracelens_graph.reports.diff_text import diff_markdown

        rows = {} if self.top is None else {"rows": self.top}
        return diff_markdown(self.difference, self.tables, self.warned, **rows)

    def page(self) -> str:
        """The answer as a page for a browser."""
        from tracelens_graph.reports.html.diff import diff_page

        apart = self.pair.without_folders() if self.pair.is_repeatable else self.pair

        def commands(number: int) -> Iterator[tuple[str, str]]:
            lines = [f"ask next: {apart.diff(f'--point {number}')}"] if apart.is_repeatable else []
            for line in (*lines, *self._on_point(self.difference.places[number - 1], apart)):
                label, _, command = line.partition(": ")
                yield label, command

        return diff_page(self.difference, self.tables, self.warned, commands)

    def write_as_tracelens(self, folder: Path) -> str:
        """Write the files of TraceLens's TraceDiff; the line that says so."""
        from tracelens_graph.analyses.alignment.common_ancestors import TraceLensDiff
        from tracelens_graph.compat.trace_diff import write_trace_diff

        theirs = TraceLensDiff(self.difference)
        written = write_trace_diff(theirs, folder)
        say(theirs.notes)
        return f"wrote {len(written)} files to {folder}"


FORMS: Forms = {
    "html": Two.page, "json": Two.json, "md": Two.markdown, "xlsx": book(lambda two: two.tables),
    "csv": of_table("csv", lambda two: two.places(for_people=False)),
}  # fmt: skip


# --- several traces --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Several:
    """How several traces differ, or the parts of one, and what was asked.

    Attributes:
        paths, tags: files, and what they are called.
        opened: loads a file.
        calls: what was asked of each.
        names: what the user calls all of them; None to go by files.
        runs: what the user named.
        top: how many rows are asked for.
        within: whether parts of one trace are asked for, or the ranks of one job, and not runs.
    """

    paths: Sequence[str]
    tags: Sequence[str]
    opened: Callable[[str], Part]
    calls: Sequence[Call]
    names: str | None
    runs: Sequence[str]
    top: int | None
    within: bool

    @cached_property
    def table(self) -> Table:
        """The answer."""
        from tracelens_graph.analyses.alignment.host_work import HOST_TIMES
        from tracelens_graph.analyses.alignment.several import odd_parts, odd_ranks, runs_table
        from tracelens_graph.utils.texts import HOST

        if not self.within:
            table = runs_table(self._readable(), self.calls[0].window != WindowChoice())
        elif len(self.paths) == 1:
            table = odd_parts(self.opened(self.paths[0]))
        else:
            table = odd_ranks(dict(self._readable()))
        if HOST_TIMES in table.notes:
            call_devices([HOST])
        return table

    def _readable(self) -> Iterator[tuple[str, Part]]:
        """Those files that are traces: whatever else lies in a folder of traces is passed over."""
        from tracelens_graph.errors import NotATraceError, TraceError
        from tracelens_graph.loading.files import left_out_note

        others = []
        for path, tag in zip(self.paths, self.tags, strict=True):
            try:
                window = self.opened(path)
            except NotATraceError:
                others.append(path)
                continue
            yield tag, window
        if len(others) == len(self.paths):
            raise TraceError(f"none of the {len(self.paths)} files is a trace that can be read")
        say(left_out_note(others))

    def shown(self) -> Shown:
        """The answer as a table."""
        from tracelens_graph.reports.views import with_headings

        return Shown(self.table, self.top, ROWS_FOR_PEOPLE, with_headings)

    def screen(self) -> Iterator[str]:
        """The answer in lines, and what to ask next."""
        from tracelens_graph.reports.diff_text import runs_text, within_text

        if self.within:
            rows = ROWS_FOR_PEOPLE if self.top is None else self.top
            yield from within_text(self.table, *screen(), rows)
            yield from self._beside_odd()
        else:
            yield from runs_text(self.table, *screen())
            first, *others = self.table.records()
            most = max(others, key=lambda row: abs(row["change_ms"]), default=None)
            if most is not None and most["most"]:
                yield from self._pair(first["run"], most["run"])

    def _beside_odd(self) -> Iterator[str]:
        if not len(self.table) or any(call.is_read_once for call in self.calls):
            return
        row: dict[str, Any] = self.table.records()[0]
        call = self.calls[0]
        if len(self.paths) > 1:
            yield f"ask next: {call.complete(f'{_PROGRAM} report {shlex.join(self.runs)}')}"
            yield from self._pair(row["usual"], row["name"])
        elif row["uid"] is not None:
            for uid in (row["uid"], row["usual_uid"]):
                yield f"ask next: {call.complete(f'{_PROGRAM} tree TRACE --prune --uid {uid}')}"
        else:
            for name in (row["name"], row["usual"]):
                step = name.rpartition("#")[2]
                yield f"ask next: {call.complete(f'{_PROGRAM} report TRACE --step {step}')}"

    def _pair(self, *two: str) -> Iterator[str]:
        """The command that compares two of several traces."""
        call_of = dict(zip(self.tags, self.calls, strict=True))
        pair = Pair((call_of[two[0]], call_of[two[1]]), self.names and ",".join(two))
        if pair.is_repeatable:
            yield f"ask next: {pair.diff('')}"
