"""One name has one meaning on every command, `TRACE` alone is its report, and errors look the same."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
from all_commands import commands
from handmade import Run, small_trace, span
from typer.models import ArgumentInfo, OptionInfo

from tracelens_graph.cli import options
from tracelens_graph.simulate import simulate, write

ASKED_OF_A_PART = ("report", "explain", "tree", "modules", "roofline", "diff", "replay", "ask")


def flags(hidden: bool = False) -> dict[str, dict[str, Any]]:
    """Option that help lists, or those that it does not -> command -> its annotation."""
    found: dict[str, dict[str, Any]] = {}
    for command, function in commands():
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
            info = next((one for one in get_args(parameter.annotation) if isinstance(one, OptionInfo)), None)
            if info is not None and info.hidden == hidden:
                # In an annotation, the first name stands where a default would.
                first = [info.default] if str(info.default).startswith("-") else []
                names = [*first, *(info.param_decls or ())] or [f"--{name.replace('_', '-')}"]
                for one in names:
                    found.setdefault(one.partition("/")[0], {})[command] = parameter.annotation
    return found


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=2, steps=2, layers=1), folder)
    return folder


# --- declared once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "declared"),
    [
        ("--name", options.Name),
        ("--fail-if", options.FailIf),
        ("--layout", options.LayoutOption),
        ("--param", options.Parameters),
        ("--linked-only", options.LinkedOnly),
        ("--recompute", options.Recompute),
        ("--micro-idle", options.MicroIdle),
        ("--arch", options.Arch),
        ("--extension", options.Extensions),
    ],
)
def test_an_option_is_declared_once(flag: str, declared: Any) -> None:
    found = flags()[flag]
    assert found
    for command, annotation in found.items():
        assert annotation == declared, command


def test_an_execution_trace_is_given_in_one_way() -> None:
    found = flags()["--et"]
    found.pop("link")  # which needs one
    assert set(found) == {"report", "ask", "replay", "tensor", "save"}
    assert all(annotation == options.ExecutionTraceFile for annotation in found.values())


def test_a_report_prints_several_tables_other_commands_one() -> None:
    found = flags()["--table"]
    assert found.pop("report") == options.TableNames
    assert set(found) == {"diff", "info", "link", "ranks", "replay", "roofline"}
    assert all(annotation == options.TableName for annotation in found.values())


def test_outputs_are_called_alike() -> None:
    found = flags()
    assert set(found["--output"]) == set(found["-o"])
    writing = set(found["--output"])
    assert {"report", "diff", "link", "ranks", "roofline", "replay", "cut", "export", "save", "db pull"} < writing
    alone = {"cut", "save", "split", "db pull"}  # have one format
    assert set(found["--format"]) == set(found["-f"]) == {*writing, "replay"} - alone
    assert set(found["--csv"]) == {"report", "diff", "link", "ranks"}
    assert {get_args(annotation)[1].metavar for annotation in found["--csv"].values()} == {"DIR"}


def test_what_the_program_takes_anywhere_no_command_has_of_its_own() -> None:
    assert not {"--cache", "--force", "--debug", "--uri"} & {*flags(), *flags(hidden=True)}, "these stand anywhere"


@pytest.mark.parametrize("place", range(4))
def test_options_of_the_program_stand_anywhere(run: Run, trace_file: Path, tmp_path: Path, place: int) -> None:
    (tmp_path / "t.csv").write_text("precious")
    words: list[object] = ["timeline", trace_file, "-o", tmp_path / "t.csv"]
    words.insert([0, 1, 2, 4][place], "--force")
    assert run(*words)[0] == 0
    assert run(*(word for word in words if word != "--force"))[0] == 1


def test_options_of_a_group_stand_anywhere(run: Run) -> None:
    for words in (
        ["db", "--uri", "http://h", "check"],
        ["db", "check", "--uri", "http://h"],
        ["db", "check", "--uri=http://h"],
    ):
        code, _, err = run(*words)
        assert (code, err.startswith("error: 'http://h' is no URI")) == (1, True), err


def test_every_command_has_the_options_that_it_can_have() -> None:
    found = flags()
    compares_parts = {"db push-diff"}
    assert set(found["--step"]) - {"cut"} == set(found["--under"]) == {*ASKED_OF_A_PART, *compares_parts, "ranks"}
    assert set(found["--extension"]) == set(ASKED_OF_A_PART)
    assert set(found["--recompute"]) == {"report", "diff"}
    assert set(found["--arch"]) == {"explain", "report", "roofline", "ranks", "replay", "db push", "db export"}


def test_a_trace_is_asked_for_in_one_way() -> None:
    for command, function in commands():
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
            # `link` takes two traces of two kinds, each by an option.
            if name in ("trace", "traces") and command not in ("ask", "db pull", "link"):
                assert parameter.annotation in (options.Trace, options.Traces), command
                assert any(isinstance(one, ArgumentInfo) for one in get_args(parameter.annotation))


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("aten::addmm", {"aten::addmm"}),
        ("/^aten::(ad|l)/", {"aten::linear", "aten::addmm"}),
        ("aten::", set()),
        ("/", set()),
    ],
)
def test_a_name_is_exact_or_a_regular_expression_between_slashes(
    run: Run, trace_file: Path, name: str, found: set[str]
) -> None:
    _, out, _ = run("attribution", trace_file, "--name", name, "-f", "json")
    assert {row["name"] for row in json.loads(out)["rows"]} == found
    code, out, err = run("tree", trace_file, "--name", name, "--kind", "Op")
    assert code == (0 if found else 1)
    assert {line.split()[-1] for line in out.splitlines()} == found
    if not found:
        assert err.startswith(f"error: no node has name {name!r}")


def test_a_bad_expression_is_said(run: Run, trace_file: Path) -> None:
    for command, option in (("tree", "--name"), ("attribution", "--param name")):
        code, _, err = run(command, trace_file, "--name", "/(/")
        assert code == 2
        assert err.startswith(f"error: {option}: '(' is no regular expression: ")


# --- TRACE alone, folders, patterns ----------------------------------------------------------------------------------


def test_a_trace_without_a_command_gets_its_report(run: Run, trace_file: Path, tmp_path: Path) -> None:
    asked = run("report", trace_file)
    assert asked[0] == 0
    assert run(trace_file) == asked
    assert run(trace_file.parent / "small.js*n")[1] == asked[1].replace("100/100", "100/100")
    assert run("-", input=trace_file.read_bytes())[0] == 0
    assert run(trace_file, "--table", "gpu_timeline", "-f", "csv")[1].startswith("type,time ms")
    assert run("--debug", trace_file)[0] == 0


def test_a_file_called_like_a_command_is_no_trace(
    run: Run, trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(trace_file, tmp_path / "info")
    monkeypatch.chdir(tmp_path)
    assert run("info")[0] == 2
    assert run("./info")[0] == 0


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("repotr", 2, "there is no command 'repotr'; did you mean report?"),
        ("nosuch", 2, "there is no command 'nosuch'; there are report, tree,"),
        ("missing.json", 1, "missing.json: no such file or directory"),
        ("no/such/trace", 1, "no/such/trace: no such file or directory"),
        ("nothing*.json", 2, "no file fits nothing*.json"),
    ],
)
def test_what_is_neither_is_said(run: Run, word: str, code: int, said: str) -> None:
    done = run(word)
    assert done[:2] == (code, "")
    assert done[2].startswith(f"error: {said}")


def test_a_folder_without_a_command_gets_the_report_of_its_ranks(run: Run, job: Path, tmp_path: Path) -> None:
    for rank in (0, 1):
        shutil.copy(job / f"rank{rank}.json.gz", tmp_path)
    assert run(tmp_path)[1].startswith("2 traces\n")


@pytest.mark.parametrize("command", ["info", "tree", "modules", "roofline"])
def test_commands_of_one_trace_say_which_take_several(run: Run, job: Path, command: str) -> None:
    for several in (job, job / "rank?.json.gz"):
        code, out, err = run(command, several)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {several}: ")
        assert err.endswith(
            "this command takes one trace; several are for report, ranks, diff, ask, db push, db export, "
            "cut --collective and export\n"
        )
    assert run(command, job / "rank0.json.g?")[0] == 0


# --- windows, extensions, the device ---------------------------------------------------------------------------------


def test_the_tree_of_a_part(run: Run, job: Path) -> None:
    trace = job / "rank0.json.gz"

    def kernels(*part: str) -> int:
        return run("tree", trace, "--kind", "gpu", *part)[1].count("(kernel)")

    assert kernels("--step", "3") + kernels("--step", "4") == kernels("--step", "3-4") <= kernels()
    assert kernels("--step", "3") > 0 < kernels("--step", "4")
    code, _, err = run("tree", trace, "--name", "ProfilerStep#4", "--step", "3")
    assert code == 1
    assert "no node in step 3 has name" in err


@pytest.mark.parametrize("command", ASKED_OF_A_PART)
def test_an_extension_reaches_every_command(run: Run, trace_file: Path, tmp_path: Path, command: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import sys\n"
        "from tracelens_graph import Extension\n"
        "def asked(core):\n"
        "    print('asked', file=sys.stderr)\n"
        "    return core\n"
        "extension = Extension(postprocess=asked)\n"
    )
    words = {
        "ask": ["ask", "idle_gaps", trace_file],
        "diff": ["diff", trace_file, trace_file],
        "roofline": ["roofline", trace_file, "--arch", "h100-sxm"],
    }
    code, _, err = run(*words.get(command, [command, trace_file]), "--extension", file)
    assert code == 0
    assert "asked\n" in err


def test_the_device_is_that_of_the_trace_unless_another_is_named(run: Run, job: Path, trace_file: Path) -> None:
    trace = job / "rank0.json.gz"

    def columns(*given: object) -> set[str]:
        code, out, err = run("report", *given, "--table", "unified_perf_summary", "-f", "json")
        assert (code, err) == (0, "")
        return set(json.loads(out)["rows"][0])

    roofed = columns(trace)
    assert "Pct Roofline_mean" in roofed
    assert columns(trace, "--arch", "auto") == columns(trace, "--arch", "mi300x") == roofed
    assert "Pct Roofline_mean" not in columns(trace, "--arch", "none")
    assert "Pct Roofline_mean" not in columns(trace_file), "its device is not known, which is no error"


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("report TRACE --sort nosuch", 2, "--sort: no table has a column 'nosuch'; there are type, "),
        ("report TRACE --sort cals", 2, "--sort: no table has a column 'cals'; did you mean calls?"),
        ("report TRACE --top x", 2, "--top: 'x' is not a valid int"),
        ("modules TRACE --top 3", 2, "no such option: --top; did you mean --depth or --min-percent?"),
        ("report TRACE --tpo 3", 2, "no such option: --tpo; did you mean --"),
        ("report", 2, "missing argument 'TRACE...' (see "),
        ("report TRACE --format xml --table x", 2, "--format / -f: 'xml' is not one of 'table', "),
        ("attribution TRACE --level x", 1, "there is no level 'x'; there are module, "),
        ("cut TRACE -o x.json --uid", 2, "option '--uid' requires an argument"),
        ("db qery", 2, "there is no command 'qery'; did you mean query?"),
        ("model gemm n=1", 2, "gemm needs m=, k="),
        ("model gmm", 2, "there is no formula 'gmm'; did you mean gemm?"),
        ("info /nowhere", 1, "/nowhere: no such file or directory"),
        ("roofline TRACE", 1, "no roofline: "),
        (
            "roofline TRACE --arch h100-sxm -o q.pdf",
            2,
            "--output: q.pdf: its name says no format; name a file .html, ",
        ),
        ("roofline TRACE --arch h100-sxm --table x", 2, "--table: there is no table 'x'; there are "),
        ("roofline TRACE --arch none", 2, "--arch: a roofline needs a device"),
    ],
)
def test_errors_look_the_same(run: Run, trace_file: Path, words: str, code: int, said: str) -> None:
    done = run(*(trace_file if word == "TRACE" else word for word in words.split()))
    assert done[:2] == (code, "")
    (line,) = done[2].splitlines()
    assert line.startswith(f"error: {said}")
    assert len(line) < 400


@pytest.mark.parametrize("words", [[], ["db"]])
def test_without_a_command_the_help_is_shown(run: Run, words: list[str]) -> None:
    code, out, err = run(*words)
    assert code == 2
    assert "Usage" in out + err


def test_gpu_work_without_a_device_in_the_trace_is_reported(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"traceEvents": [*small_trace()["traceEvents"], span("kernel", "k", 900, 5, 0, 7)]}))
    assert run(trace)[0] == 0
