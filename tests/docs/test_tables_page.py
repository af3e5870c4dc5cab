"""docs/tables.md is current, its commands and calls work, and tables have the columns that it names."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import make_reference
import pytest
from handmade_jax import MIXED, profile
from pages import DOCS
from rank_traces import collective, job
from typer.testing import CliRunner

import tracelens_graph as tlg
from tracelens_graph.cli.app import app
from tracelens_graph.perf.devices import architecture
from tracelens_graph.registry import HOMES, REPORT, schemas
from tracelens_graph.simulate import simulate, write
from tracelens_graph.tables.table import Table

SECTION = re.compile(r"^### (\S+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = dict(SECTION.findall((DOCS / "tables.md").read_text()))
WAYS = {kind: re.compile(rf"^{kind}: `(.+?)`", re.MULTILINE) for kind in ("Command", "Python")}
COMMANDS = {name: found[1] for name, text in SECTIONS.items() if (found := WAYS["Command"].search(text))}
RANKS = job({rank: [collective(0, 9), collective(20, 9, "all_to_allv", elements=2, split=[1, 1])] for rank in (0, 1)})
CALLS = {name: found[1] for name, text in SECTIONS.items() if (found := WAYS["Python"].search(text))}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(simulate(ranks=2, steps=2, layers=1), tmp_path_factory.mktemp("tables"))[0]


@pytest.fixture(scope="module")
def graph(trace: Path) -> tlg.TraceGraph:
    return tlg.load(trace)


def execution_trace(trace: Path) -> Path:
    return trace.with_name("rank0.execution-trace.json")


@pytest.fixture(scope="module")
def replayed(trace: Path) -> dict[str, str]:
    """A folder of programs, and results of one."""
    folder = trace.parent / "programs"
    assert CliRunner().invoke(app, ["replay", str(trace), "--op", "aten::mm", "-o", str(folder)]).exit_code == 0
    found = {"PROGRAMS": str(folder)}
    for name in ("A.json", "B.json"):
        signature = {"dims": [[8]], "types": ["float"], "strides": [[1]], "values": [""]}
        result = {"op": "aten::relu", "signature": signature, "device": "GPU", "torch": "2.9", "median_us": 2.0,
                  "spread_us": [2.0, 2.0], "iterations": 5, "traced_us": 9.0, "kernels": ["k"]}  # fmt: skip
        found[name] = str(trace.parent / name)
        Path(found[name]).write_text(json.dumps([result]))
    return found


@pytest.fixture(scope="module")
def linked(trace: Path) -> tlg.TraceGraph:
    return tlg.load(trace, et=execution_trace(trace))


MAY_BE_EMPTY = ("diff_within", "late_ranks", "late_arrivals", "unmatched_collectives", "critical_path_ties", "programs")
"""Tables without rows where all ranks are alike; and of JAX alone."""
WITH_TORCH = {"replay_verify"}
"""Tables whose commands need PyTorch."""


DOCUMENTED = HOMES.keys() - {"lanes", "perf_sheet"}
"""All tables but that of a page, and the one of all families, which has a name of its own there."""


def test_page_is_current() -> None:
    assert make_reference.tables() == (DOCS / "tables.md").read_text(), "run docs/make_reference.py"


def test_every_table_is_explained() -> None:
    assert SECTIONS.keys() >= DOCUMENTED
    assert CALLS.keys() >= DOCUMENTED
    assert COMMANDS.keys() >= DOCUMENTED


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITH_TORCH))
def test_command_works(name: str, trace: Path, replayed: dict[str, str], tmp_path: Path) -> None:
    et = str(execution_trace(trace))
    xplane = tmp_path / "host.xplane.pb"
    xplane.write_bytes(profile(*MIXED))
    places = {"TRACE": str(trace), "ET": et, "PROFILE": str(xplane), **replayed}
    arguments = [places.get(word, word) for word in COMMANDS[name].replace("--csv ", f"--csv {tmp_path}/").split()[1:]]
    if COMMANDS[name].count("TRACE") > 1:
        arguments[arguments.index(str(trace))] = str(trace.with_name("rank1.json.gz"))
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    least = 1 if " --csv " in COMMANDS[name] or name in MAY_BE_EMPTY else 2 if " ask " in COMMANDS[name] else 3
    assert len(result.output.splitlines()) >= least


@pytest.mark.parametrize("name", CALLS)
def test_call_gives_a_table_with_columns_of_the_page(
    name: str, graph: tlg.TraceGraph, linked: tlg.TraceGraph, replayed: dict[str, str]
) -> None:
    *statements, call = CALLS[name].split("; ")
    known = {"tlg": tlg, "g": graph, "ranks": RANKS, "linked": linked, "profile": tlg.load(profile(*MIXED))}
    known |= {"programs": replayed["PROGRAMS"], "a": replayed["A.json"], "b": replayed["B.json"]}
    exec("\n".join([*statements, f"table = {call}"]), known)
    table = known["table"]
    assert isinstance(table, Table)
    assert len(table) or "QUESTIONS" in call or name in MAY_BE_EMPTY
    columns = re.findall(r"^\| `(.+?)` \|", SECTIONS[name], re.MULTILINE)
    if name == "comparison":
        patterns = [re.sub("RUN|COLUMN", ".+", column) for column in columns]
        assert all(any(re.fullmatch(pattern, column) for column in table.columns) for pattern in patterns)
    else:
        assert {re.sub(r"^rank_\d+_", "rank_i_", column) for column in table.columns} <= set(columns)


@pytest.mark.parametrize("name", REPORT)
def test_columns_of_the_page_are_in_the_table_under_some_options(name: str, graph: tlg.TraceGraph) -> None:
    switches = {field.name: True for field in fields(tlg.ReportOptions) if field.default is False}
    plain = tlg.report_tables(graph)[name].columns
    options = tlg.ReportOptions(**switches, arch=architecture("h100-sxm"), compare_with=graph.everything)
    full = tlg.report_tables(graph, options)[name].columns
    # Of the first there is one of two, depending on who launched the kernels; the others need an execution trace.
    # Instructions and devices stand in tables of profiles of JAX alone.
    absent = {
        "Instruction",
        "% of graph time",
        "gpu_pid",
        "et_node",
        "input_tensors",
        "input_storages",
        "output_tensors",
        "output_storages",
    }
    assert schemas()[name].keys() - absent == full.keys()
    section = SECTIONS[name]
    assert {column for column in full if re.search(rf"^\| `{re.escape(column)}` \|.*`--", section, re.MULTILINE)} == (
        full.keys() - plain.keys()
    )
