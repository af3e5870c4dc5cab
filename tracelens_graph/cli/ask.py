"""`tracelens-graph ask`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli.common import load, warn_of_unread_tensors, write_table
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    CacheOption,
    ExecutionTraceFile,
    Extensions,
    Format,
    FormatOption,
    SchedulerAddress,
    extension_of,
)
from tracelens_graph.cli.traces import load_set, say, traces_named
from tracelens_graph.cli.windows import WindowChoice, with_window_options

if TYPE_CHECKING:
    from tracelens_graph.analyses.questions import Question
    from tracelens_graph.extensions.extension import Extension
    from tracelens_graph.tables.table import Table

_ROWS_FOR_PEOPLE = 20
_RUN = "run"
"""A parameter of questions about several traces that is of use where runs have names: in a database, and in Python."""


@with_window_options
def ask(
    window: WindowChoice,
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", show_default=False, help="Name of a question; without it, all are listed."),
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Argument(metavar="TRACE...", show_default=False, help="The trace, or several: files, folders, patterns."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", metavar="NAME=VALUE", show_default=False, help="A parameter; may be given several times."
        ),
    ] = None,
    extension: Extensions = None,
    format: FormatOption = Format.table,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help=f"Rows; 0 for all. Sets the question's parameter top where it has one. Without it {_ROWS_FOR_PEOPLE} "
            "for people.",
        ),
    ] = None,
    et: ExecutionTraceFile = None,
    cache: CacheOption = False,
    scheduler: SchedulerAddress = None,
) -> None:
    """Ask a trace, or several, a question by its name; without arguments, list the questions.

    The same questions can be asked of traces in a database, by `db query`.

    Example: tracelens-graph ask idle_gaps trace.json.gz --param top=5

    Example: tracelens-graph ask rank_collectives traces/ -p kind=allreduce --format csv
    """
    is_complete = True
    hints: list[str] = []
    if question is None:
        table = _listed()
        if format is not Format.table or top is not None:
            table = _first(table, format, top)
    else:
        asked = _question(question)
        if not traces:
            table = _described(asked)
        else:
            given, added = _parameters(asked, param or []), extension_of(extension)
            own = _own_top(asked, given, format, top)
            table, is_complete, has_times = _answer(
                asked, traces, given | own, window, added, format, et, cache, scheduler
            )
            if not own:
                table = _first(table, format, top)
            if format is Format.csv:  # which has no place for them
                from tracelens_graph.analyses.shared.answers import without_noise

                say(table.notes)
                table = without_noise(table)
            if not asked.several and has_times:
                hints = Call(traces[0], window, extension or []).to_open(table)
    write_table(table, format, hints)
    if not is_complete:
        raise typer.Exit(1)


def _question(name: str) -> Question:
    from tracelens_graph.analyses.questions import QUESTIONS
    from tracelens_graph.utils.suggest import hint

    if name not in QUESTIONS:
        raise typer.BadParameter(f"there is no question {name!r}; {hint(name, QUESTIONS)}")
    return QUESTIONS[name]


def _parameters(question: Question, given: list[str]) -> dict[str, Any]:
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.utils.suggest import hint

    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"--param {text}: it has the form NAME=VALUE")
        if name == _RUN and question.several:
            raise typer.BadParameter("--param run: traces from files are of no named run; name the traces you mean")
        if name not in question.parameters:
            raise typer.BadParameter(f"--param: {question.name} has no {name!r}; {hint(name, question.parameters)}")
        try:
            values[name] = question.parameters[name].read(value)
        except AnalysisError as error:
            raise typer.BadParameter(f"--param {error}") from None
    return values


def _own_top(question: Question, given: dict[str, Any], form: Format, top: int | None) -> dict[str, int]:
    """How many rows the question itself is to give, where it has a parameter for that."""
    from tracelens_graph.analyses.questions import TOP

    if TOP not in question.parameters:
        return {}
    if TOP in given:
        if top not in (None, given[TOP]):
            raise typer.BadParameter(f"--top {top} and --param top={given[TOP]} are the same: give one of them")
        return {TOP: given[TOP]}
    if top is not None:
        return {TOP: top}
    usual: int = question.parameters[TOP].default
    return {TOP: min(usual, _ROWS_FOR_PEOPLE) if form is Format.table else usual}


def _answer(
    question: Question,
    traces: list[str],
    parameters: dict[str, Any],
    window: WindowChoice,
    extension: Extension | None,
    form: Format,
    et: str | None,
    cache: bool,
    scheduler: str | None,
) -> tuple[Table, bool, bool]:
    """The answer, whether all files that look like traces could be read, and whether the trace tells times."""
    files = traces_named(traces)
    if question.several:
        if cache or extension is not None or et is not None:
            raise typer.BadParameter(
                f"--cache, --et and --extension go with questions about one trace; {question.name} is not"
            )
        from tracelens_graph.graph.window import columns_read

        columns = None if question.columns is None else {*question.columns, *columns_read(vars(window))}
        members = load_set(files, columns=columns, scheduler=scheduler)
        windows = members if window == WindowChoice() else window.of_each(members)
        return question(windows, **parameters), not members.broken, True
    if len(files) != 1:
        raise typer.BadParameter(f"{question.name} is asked of one trace, not of {len(files)}")
    if scheduler is not None:
        raise typer.BadParameter(f"--scheduler goes with questions about several traces; {question.name} is not")
    w = window.of(load(files[0], cache, needs_times=False, et=et), extension)
    table = question(w, **parameters)
    if question.theme == "tensors":
        warn_of_unread_tensors(w.core)
    if form is Format.table:
        from tracelens_graph.reports.views import view

        table = view(table, w.core)
    return table, True, w.core.framework.has_times


def _first(table: Table, form: Format, top: int | None) -> Table:
    from tracelens_graph.reports.views import top as first_rows

    return first_rows(table, (_ROWS_FOR_PEOPLE if form is Format.table else 0) if top is None else top)


def _listed() -> Table:
    """All questions, by theme."""
    from tracelens_graph.analyses.questions import QUESTIONS
    from tracelens_graph.tables.table import Column, Table

    found = list(QUESTIONS.values())
    columns = {
        "question": [one.name for one in found],
        "of": ["several" if one.several else "one" for one in found],
        "answers": [one.answers for one in found],
    }
    about = {
        "question": Column("its name"),
        "of": Column("whether it is asked of one trace or of several"),
        "answers": Column("what it answers"),
    }
    notes = ["parameters of one: tracelens-graph ask QUESTION"]
    return Table("questions", columns, about, "Questions", notes)


def _described(question: Question) -> Table:
    """The parameters of a question."""
    from tracelens_graph.tables.table import Column, Table

    found = [one for one in question.parameters.values() if one.name != _RUN]
    columns = {
        "parameter": [one.name for one in found],
        "value": [one.wanted for one in found],
        "default": ["null" if one.default is None else str(one.default).lower() for one in found],
    }
    about = {
        "parameter": Column("its name, for --param"),
        "value": Column("what its value may be"),
        "default": Column("its value where none is given"),
    }
    of = "TRACE..." if question.several else "TRACE"
    notes = [f"ask it: tracelens-graph ask {question.name} {of}" + (" --param NAME=VALUE" if found else "")]
    return Table(question.name, columns, about, question.answers, notes)
