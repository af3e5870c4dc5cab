"""`tracelens-graph ranks --path` and `--what-if`: what bounds a step, and what would change it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.hints import Asked, called
from tracelens_graph.cli.outputs import Forms, Outputs
from tracelens_graph.cli.shown import Shown, book, no_hints, of_table, print_lines, print_table, screen
from tracelens_graph.cli.traces import load_set, ranks_in, traces_named
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.errors import AnalysisError, TraceError

if TYPE_CHECKING:
    from tracelens_graph.analyses.critical_path.critical_path import CriticalPath
    from tracelens_graph.analyses.critical_path.job_causes import JobCauses
    from tracelens_graph.analyses.critical_path.what_if import WhatIf
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.tables.table import Table

TABLES = (
    "critical_path", "critical_path_classes", "critical_path_ranks", "critical_path_names", "critical_path_steps",
    "critical_path_ties", "critical_path_slack",
)  # fmt: skip
"""Tables that need whole traces."""
_ROWS_FOR_PEOPLE = 20
FEW_FILES = 8
"""From more files on, a part that is asked for is looked for in some before all are read."""
_WORK_TRIED = 2
"""Kernels, and functions of the host, with most of the path that are tried as changes of one trace."""
WORTH_ASKING = 0.01
"""Share of a path that a change must save to be suggested."""
_NUMBER = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")
_NUMBERS = re.compile(r"[0-9]+(?:,[0-9]+)+")
_CHANGE = re.compile(r"(?P<what>.+)=(?P<value>[0-9.]+)")


def changes_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """What `--what-if` asks for, one at a time: `repair=RANK`, `scale=KERNELS:0.5`, `collectives=2`, ...

    Raises:
        typer.BadParameter: a text is none of these.
    """
    return [_change(text) for text in texts]


def _change(text: str) -> dict[str, Any]:
    edit, _, given = text.partition("=")
    if edit == "repair" and _NUMBERS.fullmatch(given):
        return {edit: [int(one) for one in given.split(",")]}
    if edit in ("repair", "remove", "overlap") and given:
        return {edit: given}
    if edit in ("scale", "bandwidth"):
        name, _, times = given.rpartition(":")
        if name and _NUMBER.fullmatch(times):
            return {edit: {name: float(times)}}
    match = _CHANGE.fullmatch(text)
    factor = float(match["value"]) if match and _NUMBER.fullmatch(match["value"]) else 0.0
    if not match or factor <= 0:
        raise typer.BadParameter(
            f"--what-if {text!r}: say collectives=2, allreduce=2, op:aten::mm=2 (so many times as fast), repair=RANK, "
            "scale=KERNELS:0.5, remove=FUNCTION, bandwidth=GROUP:2, or overlap=COLLECTIVE"
        )
    what = match["what"]
    if what == "collectives":
        return {"collectives": factor}
    return {"ops": {what[3:]: factor}} if what.startswith("op:") else {"collectives": {what: factor}}


def answer_path(
    traces: Sequence[str], asked: Asked, table: str | None, top: int | None, outputs: Outputs,
    changes: Sequence[Mapping[str, Any]], conditions: Sequence[gate.Condition], correct: bool, scheduler: str | None,
) -> None:  # fmt: skip
    """Load the ranks whole, follow the critical path, print and write what is asked for.

    Ends with the exit code of failed conditions.
    """
    if outputs.formats and table is None:
        outputs.check(FORMS, "a critical path (--path, --what-if)")
    # A step of a path begins where that before it ended, on whatever rank: it is no window of a trace.
    files, step = traces_named(traces), asked.step
    if step is not None and len(files) > FEW_FILES:
        check_part(files, asked.window)
    window = WindowChoice() if step is not None else asked.window
    ranks = _ranks(files, scheduler, is_asked=window == WindowChoice())
    _check_gpu_work(files, ranks, asked)
    conditions = gate.of_ranks(conditions, ranks)
    job = _job(ranks, correct, window)
    answer: _WhatIfs | _Path = _WhatIfs(job, asked, top, changes) if changes else _Path(job, asked, top)
    if table is not None:
        print_table(for_people(answer.table(table), top), outputs)
    else:
        if outputs.to_screen:
            print_lines(answer.screen())
        outputs.write(answer, FORMS, answer.tables)
    gate.judge(conditions, answer.table, ranks)


def check_part(files: Sequence[str], window: WindowChoice) -> None:
    """Refuse a part that neither the first nor the last trace has, before all are read.

    Beside them may lie files of another kind, such as execution traces, which loading judges.
    """
    lacks: AnalysisError | None = None
    for ends in (files, files[::-1]):
        for file in ends[:FEW_FILES]:
            try:
                window.of_each(load_set([file], is_job=False))
            except TraceError:
                continue
            except AnalysisError as error:
                lacks = error
                break
            return
    if lacks is not None:
        raise lacks


def _ranks(files: Sequence[str], scheduler: str | None, is_asked: bool) -> TraceSet:
    """The ranks; where they are asked, and not held, what each leaves where it is read."""
    from tracelens_graph.analyses.critical_path.rank_answers import kept_rank
    from tracelens_graph.analyses.ranks.rank_collectives import ReadRank

    if not is_asked:
        return ranks_in(load_set(files, scheduler=scheduler))
    return ranks_in(load_set(files, scheduler=scheduler, leaves=ReadRank(), keeps=kept_rank))


def _job(ranks: TraceSet, correct: bool, window: WindowChoice) -> JobCauses:
    from tracelens_graph.analyses.critical_path.job_causes import job_causes
    from tracelens_graph.analyses.ranks.strangers import of_one_job

    matched = None
    if len(ranks) > 1:
        matched, ours = of_one_job(ranks, correct, ranks)
        ranks = ours or ranks
    return job_causes(ranks if window == WindowChoice() else window.of_each(ranks), matched)


def _check_gpu_work(files: Sequence[str], traces: TraceSet, asked: Asked) -> None:
    from tracelens_graph.analyses.ranks.rank_collectives import has_gpu_work

    if not any(map(has_gpu_work, traces)):
        instead = "" if len(traces) < 2 else f"; {asked.next('--table', 'late_ranks')}"
        raise AnalysisError(f"{files[0]}: no GPU work is recorded, and a critical path leads over GPU work{instead}")


def for_people(table: Table, top: int | None, hints: Callable[[Table], Sequence[str]] = no_hints) -> Shown:
    """A table of ranks or paths as it is shown, whatever order it is in."""
    from tracelens_graph.reports.views import with_headings

    return Shown(table, top, _ROWS_FOR_PEOPLE, with_headings, hints, ordered=True)


@dataclass(frozen=True)
class _Path:
    """The critical path of a step, or of all, and what was asked."""

    job: JobCauses
    asked: Asked
    top: int | None
    main = TABLES[0]

    @cached_property
    def path(self) -> CriticalPath:
        """The path."""
        from tracelens_graph.analyses.critical_path.critical_path import critical_path

        return critical_path(self.job, self.asked.step)

    def table(self, name: str) -> Table:
        """A table by its name."""
        from tracelens_graph.analyses.critical_path.critical_path import step_paths
        from tracelens_graph.analyses.critical_path.path_tables import steps

        path = self.path
        makers: dict[str, Callable[[], Table]] = {
            "critical_path": path.segments, "critical_path_classes": path.classes, "critical_path_ranks": path.ranks,
            "critical_path_names": path.names, "critical_path_steps": lambda: steps(step_paths(self.job)),
            "critical_path_ties": path.near_ties, "critical_path_slack": path.slack,
        }  # fmt: skip
        return makers[name]()

    def tables(self) -> dict[str, Table]:
        """All tables."""
        return {name: self.table(name) for name in TABLES}

    def screen(self) -> Iterator[str]:
        """The answer in lines, and what to ask next."""
        from tracelens_graph.reports.path_text import screen as lines

        yield from lines(self.path, *screen(), self.top)
        yield self.asked.next("--table", "critical_path", "--top", "0")
        if worth := [word for change in self._changes() for word in ("--what-if", change)]:
            yield self.asked.next(*worth)

    def _changes(self) -> Iterator[str]:
        """Changes that save something: faster collectives, a repair of the rank with most of the path, or of all.

        Of one trace: faster kernels, and less time in a function of the host, of those with most of the path. Large
        jobs are not replayed, and have the repair suggested.
        """
        from tracelens_graph.analyses.stragglers.late_causes import are_few

        traces, late = self.job.traces, self.path.ranks()
        if not len(late):
            return
        place = next(at for at, one in enumerate(traces) if one.name == late["trace"][0])
        if not are_few(traces):
            yield from [f"repair={called(traces, place)}"] if len(traces) > 1 else []
            return
        if self._saves(collectives=2):
            yield "collectives=2"
        if len(traces) > 1:
            repairs = {called(traces, place): late["trace"][0], "all": "all"}
            yield from (f"repair={name}" for name, ranks in repairs.items() if self._saves(repair=ranks))
            return
        names = self.path.names().records()
        for kind, edit, form in (("computation", "scale", "scale={}:0.5"), ("host", "remove", "remove={}")):
            for name in [row["name"] for row in names if row["class"] == kind and row["uid"] is not None][:_WORK_TRIED]:
                if self._saves(**{edit: {name: 0.5} if edit == "scale" else name}):
                    yield form.format(name)
                    break

    def _saves(self, **change: Any) -> bool:
        from tracelens_graph.analyses.critical_path.what_if import what_if

        try:
            found = what_if(self.job, self.asked.step, **change)
        except AnalysisError:  # there are no collectives, or no other rank does the like
            return False
        return self.path.length_ns - found.most_ns > 0 and found.saved_ns >= WORTH_ASKING * self.path.length_ns

    def json(self) -> str:
        """The answer for programs."""
        from tracelens_graph.reports.path_text import path_json

        return path_json(self.path, self.tables())

    def markdown(self) -> str:
        """The answer for a pull request."""
        from tracelens_graph.reports.path_text import path_markdown

        return path_markdown(self.path, self.top)


@dataclass(frozen=True)
class _WhatIfs:
    """What some changes would gain, and what was asked."""

    job: JobCauses
    asked: Asked
    top: int | None
    changes: Sequence[Mapping[str, Any]]
    main = "what_if"

    @cached_property
    def found(self) -> list[WhatIf]:
        """What each gains."""
        from tracelens_graph.analyses.critical_path.what_if import what_if

        return [what_if(self.job, self.asked.step, **change) for change in self.changes]

    def table(self, name: str) -> Table:
        """All changes, a row each."""
        tables = [one.table() for one in self.found]
        columns = {name: [cell for one in tables for cell in one[name]] for name in tables[0].columns}
        title = "What if" if len(tables) > 1 else tables[0].title
        notes = list(dict.fromkeys(note for one in tables for note in one.notes))
        return replace(tables[0], columns=columns, title=title, notes=notes)

    def tables(self) -> dict[str, Table]:
        """The one table."""
        return {self.main: self.table(self.main)}

    def screen(self) -> Iterator[str]:
        """The answer in lines, and what to ask next."""
        from tracelens_graph.reports.path_text import what_if_lines

        yield from what_if_lines(self.found, *screen())
        yield ""
        shown = for_people(self.table(self.main), self.top, lambda _: [self.asked.next("--path")])
        yield from shown.text().splitlines()

    def json(self) -> str:
        """The answer for programs."""
        from tracelens_graph.reports.path_text import what_if_json

        return what_if_json(self.found, self.table(self.main))

    def markdown(self) -> str:
        """The answer for a pull request."""
        from tracelens_graph.reports.path_text import what_if_markdown

        return what_if_markdown(self.found, self.table(self.main))


FORMS: Forms = {
    "xlsx": book(lambda answer: answer.tables()),
    "json": lambda answer: answer.json(), "md": lambda answer: answer.markdown(),
    "csv": of_table("csv", lambda answer: for_people(answer.table(answer.main), answer.top)),
}  # fmt: skip
