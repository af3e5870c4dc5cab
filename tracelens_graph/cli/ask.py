"""`tracelens-graph ask`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli import completing
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    ExecutionTraceFile,
    Extensions,
    Parameters,
    SchedulerAddress,
    Top,
    argument,
    check_name,
    refuse,
)
from tracelens_graph.cli.outputs import Outputs
from tracelens_graph.cli.shown import Shown, as_it_is, no_hints, print_answer, print_lines, print_table, put, screen
from tracelens_graph.cli.tables import OneTable
from tracelens_graph.cli.traces import (
    as_one,
    count_named,
    extension_of,
    load,
    load_set,
    lost_gpu_work,
    traces_named,
    warn_of_unread_tensors,
)
from tracelens_graph.cli.windows import Window, WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.analyses.questions import Question
    from tracelens_graph.tables.table import Table

_ROWS_FOR_PEOPLE = 20
_RUN = "run"
"""A parameter of questions about several traces that is of use where runs have names: in a database, and in Python."""


def ask(
    question: Annotated[
        str | None,
        argument(
            metavar="QUESTION",
            autocompletion=completing.questions,
            help="Name of a question; without it, all are listed.",
        ),
    ] = None,
    traces: Annotated[
        list[str] | None, argument(metavar="TRACE...", help="The trace, or several: files, folders, patterns.")
    ] = None,
    *,
    param: Parameters = None,
    extension: Extensions = None,
    top: Top = None,
    et: ExecutionTraceFile = None,
    scheduler: SchedulerAddress = None,
    outputs: OneTable,
    window: Window,
) -> None:
    """Ask a trace, or several, a question by its name; without arguments, list the questions.

    `db query` asks the same questions of traces in a database. --top sets the parameter top of a question.

    Example: tracelens-graph ask idle_gaps trace.json.gz --param top=5

    Example: tracelens-graph ask rank_collectives traces/ -p kind=allreduce --format csv
    """
    if question is None:
        _list(top, outputs)
        return
    from tracelens_graph.analyses.questions import QUESTIONS

    check_name("QUESTION", question, QUESTIONS, "question")
    asked = QUESTIONS[question]
    if not traces:
        print_table(Shown(_described(asked)), outputs)
        return
    given = _parameters(asked, param or [])
    own = _own_top(asked, given, outputs, top)
    answer = _of_several if asked.several else _of_one
    choice = _Choice(traces, given | own, window, extension or [], et, scheduler)
    table, is_complete, view, hints = answer(asked, choice)
    shown = Shown(table, None if own else top, 0 if own else _ROWS_FOR_PEOPLE, view, hints, top is not None)
    print_answer(shown, outputs)
    if not is_complete:
        raise typer.Exit(1)


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


def _own_top(question: Question, given: dict[str, Any], outputs: Outputs, top: int | None) -> dict[str, int]:
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
    if not usual:
        return {}
    return {TOP: min(usual, _ROWS_FOR_PEOPLE) if outputs.to_screen else usual}


@dataclass(frozen=True)
class _Choice:
    """What a question is asked of."""

    traces: list[str]
    parameters: dict[str, Any]
    window: WindowChoice
    extensions: list[str]
    et: str | None
    scheduler: str | None


def _of_several(question: Question, of: _Choice) -> tuple[Table, bool, Any, Any]:
    """The answer, whether nothing that it needs is lost, such as a file, and what people are shown of it."""
    refuse((of.extensions or of.et, f"--et and --extension go with questions about one trace; {question.name} is not"))
    from tracelens_graph.graph.window import columns_read

    columns = None if question.columns is None else {*question.columns, *columns_read(vars(of.window))}
    is_of_two = {"a", "b"} <= question.parameters.keys()
    members = load_set(traces_named(of.traces), columns=columns, scheduler=of.scheduler, is_job=not is_of_two)
    windows = members if of.window == WindowChoice() else of.window.of_each(members)
    return question(windows, **of.parameters), not members.broken, as_it_is, no_hints


def _of_one(question: Question, of: _Choice) -> tuple[Table, bool, Any, Any]:
    """The same of a question about one trace."""
    from tracelens_graph.reports.views import view

    files = as_one(of.traces, traces_named(of.traces))
    parameters = [one for one in of.traces if one.partition("=")[0] in question.parameters]
    refuse(
        (parameters, f"{' '.join(parameters)}: a parameter of the question stands behind --param"),
        (len(files) != 1, f"{question.name} is asked of one trace, not of {count_named(of.traces, files)}"),
        (of.scheduler, f"--scheduler goes with questions about several traces; {question.name} is not"),
    )
    added = extension_of(of.extensions)
    w = of.window.of(load(files[0], needs_times=False, et=of.et), added)
    table = question(w, **of.parameters)
    if question.theme == "tensors":
        warn_of_unread_tensors(w.core)
    call = Call(of.traces[0], of.window, of.extensions)
    to_open = call.to_open if w.core.framework.has_times else no_hints
    is_complete = len(table) > 0 or not lost_gpu_work(w.core)
    return call.completed(table, w), is_complete, lambda shown: view(shown, w.core), to_open


def _list(top: int | None, outputs: Outputs) -> None:
    """Show all questions: on the screen by theme, else in one table."""
    from tracelens_graph.analyses.questions import QUESTIONS
    from tracelens_graph.tables.table import Table

    parts = list(QUESTIONS.by_theme())
    if outputs.to_screen and top is None:
        put("\n".join(one.text(screen().width) for one in parts))
        print_lines(["", "parameters of one: tracelens-graph ask QUESTION"])
        return
    columns = {name: [cell for part in parts for cell in part[name]] for name in parts[0].columns}
    theme = [part.title for part in parts for _ in range(len(part))]
    print_table(Shown(Table("questions", columns | {"theme": theme}, parts[0].about, "Questions"), top), outputs)


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
