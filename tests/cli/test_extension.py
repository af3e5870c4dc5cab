"""`report --extension`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from extended import trace
from handmade import Run

from tracelens_graph.errors import ExtensionError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "extensions"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace()))
    return path


def test_the_report_takes_extensions(run: Run, file: Path, tmp_path: Path) -> None:
    both = [argument for name in ("my_ext.py", "hooks.py") for argument in ("--extension", EXAMPLES / name)]
    code, out, err = run("report", file, *both)
    assert (code, err) == (0, "")
    assert "Longest kernels" in run("report", file, *both, "--all")[1]
    code, out, _ = run("report", file, *both, "--csv", tmp_path / "out", "--arch", "h100-sxm")
    assert code == 0
    assert {"longest_kernels.csv", "steps.csv"} < {path.name for path in (tmp_path / "out").iterdir()}
    _, out, _ = run("report", file, *both, "--table", "longest_kernels", "--step", 2, "--format", "csv")
    assert [line.split(",")[1] for line in out.splitlines()] == ["us", "20.0", "10.0"]
    _, out, _ = run("report", file, *both, "--table", "steps", "--format", "csv")
    assert out.splitlines() == ["name,ms", "ProfilerStep#1,0.1", "ProfilerStep#2,0.2"]
    code, _, err = run("report", file, *both, "--table", "stepps")
    assert (code, "there is no table 'stepps'" in err) == (1, True)
    code, _, err = run("report", file, *both[:2], "--table", "longest_kernel")
    assert (code, "did you mean" in err) == (2, True)
    code, out, _ = run("report", file, *both, "-o", tmp_path / "report.json")
    options = json.loads((tmp_path / "report.json").read_text())["options"]
    assert options["extension"] == f"{EXAMPLES / 'my_ext.py'}, {EXAMPLES / 'hooks.py'}"


def test_several_traces_load_the_extension_each(run: Run, tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace()))
    code, out, err = run("report", tmp_path, "--all", "--extension", EXAMPLES / "my_ext.py")
    assert (code, err) == (0, "")
    assert "Longest kernels" in out


def test_what_is_left_out_is_said(run: Run, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "my_ext.py"
    path.write_text("op_category_extension = {'my::norm': 'x'}\ndef categorize_extension(row, plugin): pass\n")
    code, _, err = run("report", file, "--extension", path)
    assert (code, err) == (0, f"warning: {path}: categorize_extension is not a known hook; it is left out\n")


def test_an_error_is_one_line(run: Run, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "my_ext.py"
    path.write_text("def get_additional_dataframes_extension(tree):\n    return tree.no_such\n")
    code, out, err = run("report", file, "--extension", path)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {path}:2: AttributeError: ")
    assert err.count("\n") == 1
    with pytest.raises(ExtensionError):
        run("report", file, "--extension", path, "--debug")
