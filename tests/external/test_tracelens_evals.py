"""TraceLens's own evaluation: its grader passes on our tables, and our commands find what its pages say."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from external.findings import Finding, device_file, findings, metrics, numbers, tables, text_of
from handmade import Run
from parity.cases import Eval, evals, read
from perf.test_roofline import TRACELENS_MI300X

from corpus import CORPUS, NO_CORPUS, needs_corpus
from corpus import cases as in_corpus
from tracelens_graph.loading.one import load_core

pytestmark = pytest.mark.corpus(missing=NO_CORPUS)

EVALS = pytest.mark.parametrize(
    "case", in_corpus(((case, case) for case in evals("tracelens-evals")), needs=needs_corpus)
)
PAIRS = pytest.mark.parametrize(
    "case",
    in_corpus(
        ((case, case) for case in evals("tracelens-evals-comparative") if case.number == "1"), needs=needs_corpus
    ),
)
NEAR = 0.02


def graded(output: Path, reference: Path, scope: str) -> str:
    """What TraceLens's grader says of a folder of tables; empty if it passes."""
    assert CORPUS is not None
    grader = CORPUS / "external/tracelens-evals/graders/quality_scripted_evals.py"
    results = output / "results.csv"
    options = {"output-dir": output, "reference-dir": reference, "results": results, "comparison-scope": scope}
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    subprocess.run([sys.executable, "-W", "ignore", str(grader), *words], check=False)
    verdicts = csv.DictReader(io.StringIO(results.read_text()))
    return "; ".join(row["details"] for row in verdicts if row["result"] != "PASS")


@pytest.fixture
def tracelens_mi300x(tmp_path: Path) -> Path:
    """The device as TraceLens describes it."""
    path = tmp_path / "mi300x.json"
    path.write_text(json.dumps(TRACELENS_MI300X))
    return path


@EVALS
def test_the_grader_passes(case: Eval, run: Run, tracelens_mi300x: Path, tmp_path: Path) -> None:
    output, reference = tmp_path / "ours", tmp_path / "theirs"
    reference.mkdir()
    (reference / "perf_report_csvs").symlink_to(case.csvs)
    options = ("--layout", "tracelens", "--arch", tracelens_mi300x, "--csv", output / "perf_report_csvs")
    assert run("report", case.trace, *options)[0] == 0
    assert graded(output, reference, "standalone") == ""


@PAIRS
def test_the_grader_passes_on_a_comparison(case: Eval, run: Run, tracelens_mi300x: Path, tmp_path: Path) -> None:
    output, reference = tmp_path / "ours", tmp_path / "theirs"
    reference.mkdir()
    first, second = case, Eval(case.name, "2")
    for number, (one, more) in enumerate(((first, ("--compare-with", second.trace)), (second, ())), 1):
        name = f"perf_report_trace{number}_csvs"
        (reference / name).symlink_to(one.csvs)
        options = ("--layout", "tracelens", "--arch", tracelens_mi300x, *more, "--csv", output / name)
        assert run("report", one.trace, *options)[0] == 0
    assert graded(output, reference, "comparative") == ""


def test_external_ids_link_as_correlation_ids_do(tmp_path: Path) -> None:
    """A recorded trace whose launches and GPU events have an External id of their own in place of the other."""
    assert CORPUS is not None
    trace = read(CORPUS / "tracelens/mi300/bert-small.json.gz")
    events = [event for event in trace["traceEvents"] if event.get("cat") != "ac2g"]
    by_correlation = load_core({**trace, "traceEvents": events})
    for event in events:
        args = event.get("args")
        if isinstance(args, dict) and "correlation" in args:
            event["args"] = {key: value for key, value in args.items() if key != "correlation"}
            event["args"]["External id"] = args["correlation"]
    by_external_id = load_core({**trace, "traceEvents": events})
    assert (by_external_id.columns.correlation == -1).all()
    assert by_external_id.columns.parent.tolist() == by_correlation.columns.parent.tolist()
    assert by_external_id.columns.owner.tolist() == by_correlation.columns.owner.tolist()


# --- findings ----------------------------------------------------------------------------------------------------


def rows(run: Run, *command: object) -> list[dict[str, Any]]:
    """The rows that a command gives of one table."""
    code, out, _ = run(*command, "-f", "csv")
    assert code == 0
    return list(csv.DictReader(io.StringIO(out)))


def near(value: str | float, expected: float | None) -> bool:
    """Whether a figure is within two percent, or within the last digit that a page shows."""
    return expected is not None and abs(float(value) - expected) <= max(NEAR * abs(expected), 0.005)


def row_of(finding: Finding, found: list[dict[str, Any]], op: str, dims: str) -> dict[str, Any]:
    """The row of a finding's operation and sizes."""
    size = len(finding.dims)
    (row,) = [row for row in found if row[op] == finding.op and json.loads(row[dims])[:size] == finding.dims]
    return row


@EVALS
def test_findings_are_found(case: Eval, run: Run, tmp_path: Path) -> None:
    text = text_of(case.folder / "reference.md")
    device = tmp_path / "mi300x.toml"
    device.write_text(device_file(text))
    listed = findings(text)
    assert listed
    report = rows(run, "report", case.trace, "--arch", device, "--table", "unified_perf_summary")
    below = rows(run, "roofline", case.trace, "--arch", device, "--table", "below_roof")
    without = rows(run, "roofline", case.trace, "--arch", device, "--table", "unmodelled")
    ranked = rows(run, "report", case.trace, "--arch", device, "--table", "opportunities")
    span = {row["type"]: float(row["time ms"]) for row in rows(run, "report", case.trace, "--table", "gpu_timeline")}
    for finding in listed:
        row = row_of(finding, report, "name", "Input Dims")
        time_ms = float(row["Kernel Time (µs)_sum"]) / 1000
        assert near(time_ms, finding.time_ms)
        assert near(100 * time_ms / span["total_time"], finding.percent_of_span)
        assert int(row["operation_count"]) == finding.calls
        (place,) = [one for one in ranked if one["uid"] == row["ex_UID"] and "roof" in one["id"]]
        assert near(place["time_ms"], finding.time_ms)
        assert int(place["calls"]) == finding.calls
        assert place["bound"] == finding.bound
        if not finding.bound:
            assert [one["op"] for one in without] == [finding.op]
            assert near(without[0]["gpu_sum_ms"], finding.time_ms)
            continue
        assert near(row["FLOPS/Byte"], finding.intensity)
        assert near(row["Pct Roofline_mean"], finding.percent_of_roof)
        assert near(place["mean_percent_of_roof"], finding.percent_of_roof)
        assert float(place["could_win_ms"]) < float(place["time_ms"])
        roofed = row_of(finding, below, "op", "input_dims")
        assert (roofed["bound"], int(roofed["calls"])) == (finding.bound, finding.calls)
        assert near(roofed["time_ms"], finding.time_ms)
        assert near(roofed["flops_per_byte"], finding.intensity)
        assert near(roofed["mean_percent_of_roof"], finding.percent_of_roof)
        # Theirs is the mean over calls; the ratio of totals stands beside it.
        least_ms = float(roofed["time_ms"]) - float(roofed["could_be_won_ms"])
        assert float(roofed["percent_of_roof"]) == pytest.approx(100 * least_ms / float(roofed["time_ms"]))


@EVALS
def test_figures_of_the_whole_trace_are_found(case: Eval, run: Run) -> None:
    text = text_of(case.folder / "reference.md")
    said = metrics(text)
    timeline = {row["type"]: row for row in rows(run, "report", case.trace, "--table", "gpu_timeline")}
    assert near(timeline["total_time"]["time ms"], numbers(said["Total Time"])[0])
    parts = {"computation_time": "Compute %", "idle_time": "Idle %", "exposed_comm_time": "Exposed Communication %"}
    for part, name in parts.items():
        assert near(timeline[part]["percent"], numbers(said[name])[0])
    # Categories are those of the ops that have a model, not of what they call.
    times: dict[str, float] = {}
    for row in rows(run, "report", case.trace, "--layout", "tracelens", "--table", "unified_perf_summary"):
        times[row["op category"]] = times.get(row["op category"], 0.0) + float(row["Kernel Time (µs)_sum"]) / 1000
    first = max(times, key=times.__getitem__)
    category, _, share = said["Top Bottleneck Category"].partition(" ")
    assert first == category
    assert near(100 * times[first] / sum(times.values()), numbers(share)[0])
    for ranked in (row for table in tables(text) for row in table if "Rank" in row):
        assert near(times[ranked["Category"]], float(ranked["Time (ms)"]))


# --- comparisons -------------------------------------------------------------------------------------------------


def agrees(value: str | float, expected: float, digit: float = 0.0) -> bool:
    """Whether a figure is within one percent, or within the last digit that a page shows; an empty cell is 0."""
    return abs(float(value or 0) - expected) <= max(0.01 * abs(expected), digit)


@PAIRS
def test_totals_of_comparisons_agree(case: Eval, run: Run) -> None:
    said = {row["Metric"]: row for row in next(tables(text_of(case.folder / "reference.md")))}
    two = case.trace, Eval(case.name, "2").trace
    found = {row["type"]: row for row in rows(run, "diff", *two, "--table", "gpu_timeline")}
    lines = (("total_time", "time ms", "Total Time"), ("computation_time", "percent", "Compute %"))
    for part, of, name in (*lines, ("idle_time", "percent", "Idle %")):
        first, second, change = (numbers(cell)[0] for cell in list(said[name].values())[1:4])
        ours = found[part]
        assert agrees(ours[f"trace1::{of}"], first, 0.05 if of == "percent" else 0.005)
        assert agrees(ours[f"trace2::{of}"], second, 0.05 if of == "percent" else 0.005)
        if of == "time ms":
            assert agrees(ours[f"{of}__trace2_diff"], change, 0.005)
            assert agrees(ours[f"{of}__trace2_pct"], numbers(said[name]["Difference"])[1], 0.05)


@PAIRS
def test_categories_of_comparisons_agree(case: Eval, run: Run) -> None:
    two = case.trace, Eval(case.name, "2").trace
    asked = ("--layout", "tracelens", "--table", "ops_summary_by_category")
    found = [{row["op category"]: row for row in rows(run, "report", one, *asked)} for one in two]
    text = text_of(case.folder / "reference.md")
    ranked = [row for table in tables(text) for row in table if "Rank" in row]
    assert ranked
    for row in ranked:
        for side, ours in zip("12", found, strict=True):
            for expected in numbers(row[f"Trace {side} Time (ms)"]):
                assert agrees(ours.get(row["Category"], {}).get("total_direct_kernel_time_ms", 0), expected, 0.0005)


@PAIRS
def test_differences_of_operations_agree(case: Eval, run: Run) -> None:
    both = case, Eval(case.name, "2")
    theirs = [{row["name"]: float(row["total_direct_kernel_time_ms"]) for row in one.reference["ops_summary"]}
              for one in both]  # fmt: skip
    time = "total_direct_kernel_time_ms"
    found = {row["name"]: row for row in rows(run, "diff", *(one.trace for one in both), "--table", "ops_summary")}
    assert found.keys() == theirs[0].keys() | theirs[1].keys()
    for name, ours in found.items():
        first, second = (times.get(name, 0.0) for times in theirs)
        assert agrees(ours[f"trace1::{time}"], first)
        assert agrees(ours[f"trace2::{time}"], second)
        assert agrees(ours[f"{time}__trace2_diff"], second - first)


@PAIRS
def test_places_of_a_comparison_agree(case: Eval, run: Run) -> None:
    """Work that is below one ancestor of both traces is one place."""
    places: dict[str, list[float]] = {}
    for row in case.reference["diff_stats"]:
        one = places.setdefault(row["lowest_common_ancestor_name"], [0.0, 0.0])
        one[row["source"] == "trace2"] += float(row["kernel_time"]) / 1000
    found = {row["op"]: row for row in rows(run, "diff", case.trace, Eval(case.name, "2").trace)}
    assert found.keys() == places.keys()
    for op, (first, second) in places.items():
        assert agrees(found[op]["a_ms"], first)
        assert agrees(found[op]["b_ms"], second)
        assert agrees(found[op]["change_ms"], second - first)


# --- comparisons -------------------------------------------------------------------------------------------------

_TIMES = {"Total Time": "total_time", "Idle %": "idle_time", "Compute %": "computation_time"}


@PAIRS
def test_differences_of_a_comparison_are_places_with_their_figures(case: Eval, run: Run) -> None:
    """What a page says of two traces stands on the first screen of diff: times of both, and each P1 as a place."""
    other = Eval(case.name, "2")
    code, out, _ = run("diff", case.trace, other.trace, "-f", "json")
    assert code == 0
    found = json.loads(out)["tables"]
    totals = {row["time"]: row for row in found["diff_totals"]["rows"]}
    text = text_of(case.folder / "reference.md")
    row: dict[str, str]
    for row in next(tables(text)):
        name = _TIMES.get(row["Metric"])
        columns = [value for key, value in row.items() if key.startswith("Trace")]
        for side, cell in zip("ab", columns if name else (), strict=bool(name)):
            ms = totals[name or ""][f"{side}_ms"]
            whole = totals["total_time"][f"{side}_ms"]
            figure, digit = (100 * ms / whole, 0.05) if "%" in cell else (ms, 0.005)
            assert abs(figure - numbers(cell)[0]) <= digit, (row, side)
    screen = " ".join(run("diff", case.trace, other.trace)[1].split())
    for title, kernels in _priorities(text):
        (module,) = re.findall(r"The `(\w+)` module launches", title)
        (place,) = [one for one in found["diff_places"]["rows"] if one["op"] == module]
        assert place["events_a"] == len(kernels)
        assert near(1000 * place["a_ms"], sum(kernels.values()))
        assert all(any(name.split("<")[0] in one for one in place["kernels_a"]) for name in kernels)
        (became,) = re.findall(r"single fused kernel `(\w+)` \(([\d.]+) us\)", text)
        assert became[0] in screen
        assert near(1000 * place["b_ms"], float(became[1]))
        assert f"{place['events_a']} -> {place['events_b']} kernels" in screen


def _priorities(text: str) -> list[tuple[str, dict[str, float]]]:
    """What is said of each P1, and its kernels with their times in us."""
    sections = re.findall(r"^### \S+ P1: (.*?)(?=^#)", text, re.M | re.S)
    listed = [{row["Kernel"]: float(row["Duration (us)"]) for row in table} for table in tables(text)
              if "Kernel" in table[0]]  # fmt: skip
    return list(zip(sections, listed, strict=True))
