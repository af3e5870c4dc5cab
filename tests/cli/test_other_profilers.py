"""Whatever is asked of a file of another profiler has an answer, or one line on why there is none."""

from __future__ import annotations

import pickle
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from handmade import Run
from memory_snapshots import PIECES
from nsys_reports import CALL, KERNEL, RANGE, SECOND, TABLES, TEXTS, TID, report
from rocprof_runs import files, of_two_processes

from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.cli.options import ANYWHERE, Anywhere
from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import GPU_KINDS, Kind

VIZTRACER = Path(__file__).parents[1] / "loaders/viztracer/trace.json"
CLAIMS = {"GPU events": GPU_KINDS, "ops": (Kind.Op,), "modules": (Kind.Module,), "steps": (Kind.Step,),
          "runtime or driver calls": (Kind.RuntimeCall,)}  # fmt: skip
"""What a note may say that a trace has not."""


def nsys(folder: Path) -> Path:
    return report(folder, TABLES, TEXTS)


def nsys_of_two(folder: Path) -> Path:
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL, KERNEL | {"globalPid": SECOND, "deviceId": 1, "end": 9_700_001}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [CALL, CALL | {"globalTid": SECOND | TID}],
        "NVTX_EVENTS": [RANGE, RANGE | {"globalTid": SECOND | TID}],
    }
    return report(folder, tables, TEXTS)


def snapshot(folder: Path) -> Path:
    (folder / "memory.pickle").write_bytes(pickle.dumps(PIECES))
    return folder / "memory.pickle"


def amd(of: Callable[[Path], object], at: int) -> Callable[[Path], Path]:
    return lambda folder: list(of(folder))[at]  # type: ignore[call-overload, no-any-return]


MAKERS: dict[str, Callable[[Path], Path]] = {
    "nsys": nsys, "nsys of two": nsys_of_two, "snapshot": snapshot, "generic": lambda _: VIZTRACER,
    **{f"rocprof {at}": amd(files, at) for at in range(4)}, "rocprof of two": amd(of_two_processes, 3),
}  # fmt: skip


NEEDS = {"kernels": "GPU events", "gpu_events": "GPU events", "op": "ops", "module_path": "modules"}
"""Columns of answers -> what a trace must have for them."""


@pytest.mark.parametrize("name", MAKERS)
def test_each_question_has_rows_or_says_why_not(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "generic":
        monkeypatch.setenv("TRACELENS_GRAPH_GENERIC", "1")
    g = load_core(MAKERS[name](tmp_path))
    has = {word: len(rows_of_kind(g.columns, kinds)) > 0 for word, kinds in CLAIMS.items()}
    for question in QUESTIONS.values():
        try:
            table = question(TraceSet.of({"a": g, "b": g}) if question.several else g)
        except TraceLensGraphError as error:
            notes = [str(error)]
        else:
            notes, lacks = table.notes, any(column in table.about and not has[word] for column, word in NEEDS.items())
            assert len(table) or notes or question.several or not lacks, question.name
        assert not any("\n" in note for note in notes), question.name
        said = [word for word in CLAIMS for note in notes if has[word] and f"no {word}" in note]
        assert not said, (question.name, notes)


COMMANDS = (
    "report FILE", "report FILE -o OUT/r.html -o OUT/r.json -o OUT/r.md", "info FILE", "tree FILE", "modules FILE",
    "ranks FILE", "ranks FILE --path", "diff FILE FILE", "save FILE -o OUT/s.tlg",
    "cut FILE --from 0ms --to 1ms -o OUT/c.json", "cypher FILE 'MATCH (n) RETURN count(*)'",
)  # fmt: skip
ALWAYS = ("report", "info", "tree", "save", "cut", "cypher")
"""Commands that have an answer for every file."""


@pytest.mark.parametrize("name", MAKERS)
def test_each_command_answers_or_says_why_not_in_one_line(name: str, tmp_path: Path, run: Run) -> None:
    file, more = MAKERS[name](tmp_path), ["--generic"] * (name == "generic")
    for command in COMMANDS:
        words = [word.replace("FILE", str(file)).replace("OUT", str(tmp_path)) for word in shlex.split(command)]
        code, out, err = run(*words, *more)
        ANYWHERE.set(Anywhere())  # it stays set in this process
        if code:
            assert err.startswith("error: "), (command, err)
            assert err.count("error") == 1, (command, err)
        else:
            assert out.strip(), command
        assert code == 0 or words[0] not in (ALWAYS if "two" not in name else (*ALWAYS, "ranks", "diff")), (
            command,
            err,
        )
