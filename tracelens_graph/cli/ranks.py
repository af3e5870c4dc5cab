"""`tracelens-graph ranks`: who waited for whom, what the network did, and what bounds a step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from tracelens_graph.cli import gate
from tracelens_graph.cli.hints import NEXT, Asked, without_folders
from tracelens_graph.cli.options import (
    Arch,
    FailIf,
    Layout,
    LayoutOption,
    SchedulerAddress,
    TableName,
    Top,
    Traces,
    architecture_named,
    check_name,
    option,
    refuse,
)
from tracelens_graph.cli.outputs import PICTURES, Forms, Outputs, Writes
from tracelens_graph.cli.ranks_path import FEW_FILES, answer_path, changes_of, check_part, for_people
from tracelens_graph.cli.ranks_path import TABLES as PATH_TABLES
from tracelens_graph.cli.shown import TABLE, Shown, book, of_table, print_lines, print_table, screen
from tracelens_graph.cli.traces import load_set, ranks_in, say, traces_named
from tracelens_graph.cli.windows import Window, WindowChoice
from tracelens_graph.errors import AnalysisError
from tracelens_graph.utils.texts import file_name, wrapped

if TYPE_CHECKING:
    from tracelens_graph.analyses.ranks.job import Job
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.tables.table import Table


def ranks(
    traces: Traces,
    *,
    arch: Arch = None,
    path: Annotated[
        bool, option("--path", help="Follow the critical path, of --step N or of all: what bounds it, on which ranks.")
    ] = False,
    what_if: Annotated[
        list[str] | None,
        option(
            metavar="CHANGE",
            help="Show how long it would take with repair=RANK (its number or name, 4,5 for two, stage2, host0, all), "
            "scale=KERNELS:0.5, remove=FUNCTION (of the host), bandwidth=GROUP:2, overlap=COLLECTIVE, "
            "collectives=2 (twice as fast), allreduce=2 or op:aten::mm=2; may be given again.",
        ),
    ] = None,
    recorded_clocks: Annotated[
        bool, option("--recorded-clocks", help="Take clocks as they are, even if hosts differ.")
    ] = False,
    table: TableName = None,
    top: Top = None,
    outputs: Annotated[Outputs, Writes("html", *sorted(PICTURES), "xlsx", "json", "md", "csv", folder=True)],
    layout: LayoutOption = Layout.own,
    lenient: Annotated[
        bool,
        option(
            "--lenient", help="With --layout tracelens: if ranks disagree on kind or size, the lowest rank decides."
        ),
    ] = False,
    scheduler: SchedulerAddress = None,
    fail_if: FailIf = None,
    window: Window,
) -> None:
    """Show who waited for whom in a job of several ranks, what the network did, and what bounds a step.

    It takes the traces of all ranks, usually a folder. It matches what ranks did together, corrects the clocks of
    several hosts by the ends of collectives, and separates waiting from communication.

    Example: tracelens-graph ranks traces/

    Pages and pictures show waits by rank and step, bandwidths by size of the message, and the step of median duration
    on all ranks; --step chooses another step. With --layout tracelens the tables are those of TraceLens's collective
    report.

    Example: tracelens-graph ranks traces/ -o ranks.html

    Example: tracelens-graph ranks traces/ -o ranks.svg

    Example: tracelens-graph ranks traces/ --table rank_collectives --format csv

    Example: tracelens-graph ranks traces/ --path --step 4

    For a parquet file with one row per operation of a pipelined job, it shows the slowdown against even work.

    Example: tracelens-graph ranks traces/ --fail-if 'exposed_waiting_percent > 10'
    """
    from tracelens_graph.analyses.ranks.job import LATE_TABLES
    from tracelens_graph.analyses.ranks.job import TABLES as OF_RANKS

    is_path = path or bool(what_if)
    changes = changes_of(what_if or [])
    is_theirs = layout is Layout.tracelens
    refuse(
        (fail_if and len(changes) > 1, "--fail-if with --what-if judges one change: ask for one at a time"),
        (what_if and table is not None, "--what-if is a table of its own: leave out --table"),
        (lenient and not is_theirs, "--lenient goes with --layout tracelens"),
        (is_theirs and is_path, "TraceLens has no tables of a critical path: leave out --layout tracelens"),
        (is_theirs and table, "--layout tracelens goes with --csv and xlsx alone"),
        (is_theirs and not outputs.to_files, "--layout tracelens is for files: name a folder with --csv, or an .xlsx"),
    )
    if table is not None:
        check_name("--table", table, PATH_TABLES if is_path else (*OF_RANKS, *LATE_TABLES, *PATH_TABLES))
        outputs.check(TABLE, "a table", has_folder=False)
    if is_theirs:
        outputs.check(THEIRS, "--layout tracelens")
    is_path = is_path or table in PATH_TABLES
    figures = gate.figures_of_what_if() if changes else gate.figures_of_path() if is_path else gate.figures_of_ranks()
    conditions = gate.parse(fail_if or [], of=figures)
    asked = Asked(traces, window, arch)
    files = traces_named(traces)
    is_of_operations = files[0].endswith(OPERATIONS)
    refuse((is_path and is_of_operations, f"{files[0]}: operations have no path: leave out --path and --what-if"))
    if is_path:
        answer_path(traces, asked, table, top, outputs, changes, conditions, not recorded_clocks, scheduler)
        return
    device = architecture_named(arch)
    if len(files) == 1 < len(traces):
        raise AnalysisError(
            f"{files[0]}: one file, named {len(traces)} times; ranks are compared with one another, so name all of a "
            "job"
        )
    if is_of_operations:
        refuse(
            (len(files) > 1 or window != WindowChoice(), f"{files[0]}: operations of a job are one file, taken whole")
        )
        answer_operations(files[0], table, top, outputs, conditions)
        return
    job, ranked = _job(files, window, device, not recorded_clocks, scheduler, is_theirs)
    conditions = gate.of_ranks(conditions, ranked)
    if is_theirs:
        found = _as_tracelens(ranked, lenient)
        outputs.write(found, THEIRS, lambda: found)
    elif table is not None:
        made = job.table(table)
        print_table(for_people(made, top, lambda _: asked.below_table(made, job)), outputs)
    else:
        answer = _Ranks(job, asked, top)
        if outputs.to_screen:
            print_lines(answer.screen())
        outputs.write(answer, FORMS, job.tables)
    gate.judge(conditions, job.table, ranked)


OPERATIONS = ".parquet"
"""How the names of files end that hold operations of a job, as ByteDance publishes them."""


def answer_operations(
    file: str, table: str | None, top: int | None, outputs: Outputs, conditions: Sequence[gate.Condition]
) -> None:
    """Show how much slower a job of recorded operations is than with even work."""
    from tracelens_graph.analyses.stragglers.slowdown import slowdown

    refuse((table not in (None, "slowdown"), f"{file}: of operations there is one table, slowdown"))
    other = [one.figure.text for one in conditions if one.figure.table != "slowdown"]
    refuse((other, f"{file}: of operations there is one figure, slowdown; {''.join(other[:1])} is of traces"))
    found = slowdown(file)

    def drawn(_: Shown) -> str:
        from tracelens_graph.reports.html.ranks import slowdown_page

        return slowdown_page(found, file_name(file))

    forms = TABLE if table is not None else {**TABLE, "html": drawn}
    outputs.check(forms, "a table" if table is not None else "the slowdown of operations", has_folder=table is None)
    shown = for_people(found.table(), top)
    if outputs.to_screen:
        wide = screen()
        of_job = f"{found.sizes()}; {found.times()}"
        lines = [line for one in (of_job, found.line()) for line in wrapped(one, wide.width, "  ")]
        head = [*lines, "", *found.heat_map().text(*wide).splitlines(), ""]
        asked = Asked([file], WindowChoice())
        below = [asked.next("--table", "slowdown", "--top", "0"), asked.next("-o", "slowdown.html")]
        few = shown if top is not None else for_people(_few_of_each(shown.table), 0)
        print_lines([*head, *few.text().splitlines(), *below] if table is None else shown.text().splitlines())
    outputs.write(shown, forms, lambda: {one.name: one for one in found.tables()})
    gate.judge(conditions, lambda _: found.table())


_OF_EACH = 5
"""Types of operations, stages, data-parallel ranks and workers on the first screen."""


def _few_of_each(table: Table) -> Table:
    """The slowest of each kind of rows."""
    import numpy as np

    kinds = list(table["of"])
    kept = [at for at, kind in enumerate(kinds) if kinds[:at].count(kind) < _OF_EACH]
    more = f"the first {_OF_EACH} of each kind, {len(kept):,} of {len(table):,} rows"
    few = table.take(np.array(kept))
    return few if len(kept) == len(table) else replace(few, notes=[more, *few.notes])


def _job(
    files: Sequence[str], window: WindowChoice, device: Architecture | None, correct: bool, scheduler: str | None,
    is_theirs: bool,
) -> tuple[Job, TraceSet]:  # fmt: skip
    """The ranks of a job, and their traces: what each leaves where it is read; for TraceLens's tables whole graphs."""
    from tracelens_graph.analyses.ranks.job import Job
    from tracelens_graph.analyses.ranks.rank_collectives import ReadRank

    is_cut = window != WindowChoice()
    reads = ReadRank(window.of if is_cut else None)
    if is_cut and len(files) > FEW_FILES:
        check_part(files, window)
    traces = ranks_in(load_set(files, scheduler=scheduler, leaves=None if is_theirs else reads))
    if len(traces) < 2:
        raise AnalysisError(
            f"{traces[0].info.source}: one trace alone; ranks are compared with one another, so name all of a job"
            "; --path shows the critical path of one, --what-if what a change of it would save"
        )
    if is_theirs:
        ranked = window.of_each(traces) if is_cut else traces
        return Job(ranked, device, correct, traces), ranked
    parts = reads.parts_of(traces)
    there = [place for place, one in enumerate(parts) if not one.lacks]
    if not there:
        raise AnalysisError(parts[0].lacks)
    say(f"left out: {one.name}: {one.lacks}" for one in parts if one.lacks)
    traces = traces.only(there) if len(there) < len(parts) else traces
    return Job([parts[place] for place in there], device, correct, traces), traces


@dataclass(frozen=True)
class _Ranks:
    """What is known of the ranks of a job, and what was asked."""

    job: Job
    asked: Asked
    top: int | None

    def screen(self) -> list[str]:
        """The answer in lines, and what to ask next."""
        from tracelens_graph.reports.ranks_text import screen as lines

        return [*lines(self.job, *screen(), rows=self.top), *self.asked.below_screen(self.job)]

    @property
    def source(self) -> str:
        """What the traces are called together."""
        given = self.asked.traces
        more = f" and {len(given) - 1:,} more" if len(given) > 1 else ""
        return f"{file_name(os.path.abspath(given[0]))}{more}"

    def shown(self) -> Shown:
        """The table of all collectives."""
        return for_people(self.job.table("rank_collectives"), self.top)

    def json(self) -> str:
        """The answer for programs."""
        from tracelens_graph.reports.ranks_text import ranks_json

        return ranks_json(self.job)

    def markdown(self) -> str:
        """The answer for a pull request."""
        from tracelens_graph.reports.ranks_text import ranks_markdown

        return ranks_markdown(self.job, **({} if self.top is None else {"rows": self.top}))

    def page(self) -> str:
        """The page for a browser, which names no folder of the machine that it was written on."""
        from tracelens_graph.reports.html.ranks import ranks_page

        bare = replace(self.asked, traces=without_folders(self.asked.traces))
        return ranks_page(self.job, self.source, [one.removeprefix(NEXT) for one in bare.below_screen(self.job)])

    def picture(self, form: str) -> bytes:
        """The picture."""
        from tracelens_graph.reports.picture import saved
        from tracelens_graph.reports.ranks_picture import ranks_picture

        return saved(ranks_picture(self.job, self.source), form, "ranks")


FORMS: Forms = {
    "html": _Ranks.page, **{name: partial(_Ranks.picture, form=name) for name in PICTURES}, "json": _Ranks.json,
    "md": _Ranks.markdown, "csv": of_table("csv", _Ranks.shown), "xlsx": book(lambda answer: answer.job.tables()),
}  # fmt: skip


THEIRS: Forms = {"xlsx": book(lambda tables: tables)}
"""Formats of TraceLens's tables."""


def _as_tracelens(traces: TraceSet, lenient: bool) -> Mapping[str, Table]:
    from tracelens_graph.compat.ranks.tables import tracelens_tables

    tables = tracelens_tables(traces, strict=not lenient)
    say(dict.fromkeys(note for table in tables.values() for note in table.notes))
    return tables
