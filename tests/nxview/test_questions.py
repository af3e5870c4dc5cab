"""Questions, verdict and report as methods, what they show of themselves, and their types."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from handmade import HOSTILE, small_trace

import tracelens_graph as tlg
from corpus import CHECKOUT
from tracelens_graph.analyses.diagnosis.finding import Finding
from tracelens_graph.graph.graph import PARTS
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.nxview.questions import SEVERAL, OfSet, OfTrace
from tracelens_graph.nxview.ranks import TraceGraphSet

PROGRAM = """
import tracelens_graph as tlg

g = tlg.load("trace.json.gz")
gaps: tlg.Table = g.idle_gaps(device=0, top=3)
part: tlg.Window = g.window(step=3, under="Linear")
findings: list[tlg.Finding] = g.verdict()
largest: tlg.Table = g.report().largest
line: str = g.find("Kernel", "/gemm/")[0].name
of_part: tlg.Table = g.window(step=3).kernel_summary()
choices: tlg.Table = tlg.load_set("a.json", "b.json").kernel_choices(top=3)
g.idle_gaps(tops=3)
g.window(steps=3)
line = g.verdict()
"""
WRONG = (
    'Unexpected keyword argument "tops"',
    'Unexpected keyword argument "steps"',
    "Incompatible types in assignment",
)


@pytest.mark.checkout
def test_types_of_a_users_program_hold(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(CHECKOUT / "pyproject.toml"),
        "--follow-imports=silent",
    ]
    command += ["--cache-dir", str(CHECKOUT / ".mypy_cache"), str(tmp_path / "program.py")]
    found = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, env={**os.environ, "MYPYPATH": ""})
    errors = [line for line in found.stdout.splitlines() if ": error: " in line]
    assert [any(wrong in line for line in errors) for wrong in WRONG] == [True] * len(WRONG), (
        found.stdout + found.stderr
    )
    assert len(errors) == len(WRONG), errors


def test_every_question_is_a_method() -> None:
    for name, question in tlg.QUESTIONS.items():
        of = [one for one in (OfTrace, OfSet) if hasattr(one, name)]
        assert of == ([] if name in PARTS else [OfSet if question.several else OfTrace]), name
        assert question.several == (question.theme in SEVERAL), name


def test_every_method_takes_a_number_of_rows() -> None:
    g = tlg.load(small_trace())
    whole = g.kernel_summary()
    assert len(whole) > 1
    assert g.kernel_summary(top=1).records() == whole.records()[:1]
    assert g.kernel_summary(top=0).records() == whole.records()
    for wrong in (-1, "two"):
        with pytest.raises(tlg.TraceLensGraphError):
            g.kernel_summary(top=wrong)


def test_methods_answer_as_questions_do() -> None:
    g = tlg.load(small_trace())
    for name, question in tlg.QUESTIONS.items():
        if question.several or name in PARTS:
            continue
        try:
            wanted = question(g)
        except tlg.TraceLensGraphError as error:
            with pytest.raises(type(error)):
                getattr(g, name)()
        else:
            assert repr(getattr(g, name)().records()) == repr(wanted.records()), name


def test_methods_show_the_parameters_and_what_they_do() -> None:
    g = tlg.load(small_trace())
    assert list(inspect.signature(g.idle_gaps).parameters) == ["device", "min_us", "top"]
    assert inspect.getdoc(g.idle_gaps) == inspect.getdoc(tlg.idle_gaps)
    assert {"idle_gaps", "verdict", "report", "kernel_summary"} <= {*dir(g)} & {*dir(g.window())}
    assert "kernel_choices" not in dir(g)
    assert "kernel_choices" in dir(TraceGraphSet)


def test_verdict_and_report_are_those_of_the_functions() -> None:
    g = tlg.load(small_trace())
    assert g.verdict() == tlg.verdict(g)
    screen = g.report()
    assert screen.verdict == g.verdict()
    assert screen.verdict[0].text.split(":")[0] in repr(screen)
    assert sum(screen.spent["percent"]) == pytest.approx(100)
    assert str(screen.largest["name"][0]) in repr(screen)


def test_commands_of_a_verdict_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "my trace.json"
    path.write_text(json.dumps(small_trace()))
    asked = [one.ask_next for one in tlg.load(path).verdict() if one.ask_next]
    assert asked
    assert all(f"'{path}'" in command for command in asked)


def test_methods_check_what_they_are_given() -> None:
    g = tlg.load(small_trace())
    for wrong in ({"top": "x"}, {"top": -1}, {"min_us": "long"}):
        with pytest.raises(tlg.AnalysisError, match="is wanted"):
            g.idle_gaps(**wrong)
    with pytest.raises(tlg.AnalysisError, match="by='bogus': op or function or line or module or thread is wanted"):
        g.host_times("bogus")
    assert len(g.idle_gaps(None, 0, top=1)) == 1


def test_what_is_shown_of_names_is_no_markup() -> None:
    finding = Finding("python", HOSTILE, ask_next=HOSTILE)
    traces = TraceSet.of({HOSTILE: tlg.load(small_trace()), "b": tlg.load(small_trace())})
    for shown in (finding._repr_html_(), tlg.load(small_trace()).report()._repr_html_(), traces._repr_html_()):
        assert "<script" not in shown
        assert "\x1b" not in shown
    assert "\x1b" not in repr(finding)


def test_all_questions_show_what_they_answer() -> None:
    shown, html = repr(tlg.QUESTIONS), tlg.QUESTIONS._repr_html_()  # type: ignore[attr-defined]
    for name, question in tlg.QUESTIONS.items():
        assert name in shown
        assert name in html
        assert question.answers in repr(question)
