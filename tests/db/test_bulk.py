"""What is imported offline, by the real tool, is what is pushed: every node, label, property and edge."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from handmade import HOSTILE, small_trace, span
from handmade_jax import training_profile
from hypothesis import given
from made_traces import traces
from neo4j_server import Home
from profiles import examples

from corpus import loaded, trace_id, traces_named
from tracelens_graph.db.bulk import ARGUMENTS, README, SCHEMA, BulkExport, Exported
from tracelens_graph.db.database import Database, image
from tracelens_graph.db.image import Image, Options, Placement
from tracelens_graph.errors import OutputError
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate, write
from tracelens_graph.stores.frames import edge_columns, node_columns

NAMES = (
    HOSTILE, "", '"', 'a ""quoted"" \\', "trailing \\", '\\"', "line\nbreak", "cr\r\nlf\r", "nul\x00", "tab\t,;|",
    "\x1f", " blank ", "\ufeffmark", "\u2028\u0085\U0001f600", "half \ud800", "'single'", "y" * 5_000_000,
)  # fmt: skip
REAL = ("dlrm-8-ranks/kineto/rank0", "tracelens/inference/vllm-decode/graph-replay")
EXCEPTED = {"pushed_ns", "begun_ns"}


def hostile_trace() -> bytes:
    """Odd names of everything that has one."""
    trace = small_trace()
    trace["deviceProperties"][0]["name"] = NAMES[3]
    trace["traceEvents"][0]["args"]["name"] = NAMES[6]
    for place, name in enumerate(NAMES):
        shape = {"Input_Dims": [[place]], "Input_type": [name[:99]], "Concrete_Inputs": [name[:99]]}
        trace["traceEvents"] += [
            span("cpu_op", name, 3000 + 10 * place, 9, 1, name[:99], External_id=500 + place, **shape),
            span("cuda_runtime", "cudaLaunchKernel", 3001 + 10 * place, 1, 1, name[:99], correlation=900 + place),
            span("kernel", name, 3100 + 10 * place, 4, 0, 7, device=0, stream=7, correlation=900 + place),
            {**span("cpu_op", "endless", 5000 + place, 0), "dur": None},
        ]
    return json.dumps(trace).encode()


def images(folder: Path) -> Iterator[Image]:
    """Traces that share much: ranks of one run, the same trace in others; lean, with arguments, with labels."""
    labels = {"note": '";,\n', "empty": "", "batch": 64, "rate": 1e-3, "is_new": False}
    yield image(load_core(hostile_trace()), Placement("hostile", NAMES[3], labels), Options(with_args=True))
    yield image(load_core(small_trace()), Placement("small", "whole", {"batch": "64"}))
    lean = load_core(json.dumps({"lean": True, **small_trace()}).encode())
    yield image(lean, Placement("small", "lean"), Options(kinds=("Op", "Kernel")))
    yield image(load_core({"traceEvents": []}), Placement("empty", "empty"))
    for steps in (1, 2):  # both ran one program
        yield image(load_core(training_profile(steps)), Placement("jax", f"steps {steps}"))
    for file in sorted(write(simulate(ranks=2, steps=2, layers=1, seed=7), folder)):
        if file.name.endswith(".json.gz"):
            yield image(load_core(file), Placement("simulated", file.name))
    for path in traces_named(*REAL):
        name = trace_id(path)
        yield image(loaded(path), Placement(name.partition("/")[0], name))


class Dump(NamedTuple):
    """All that is in a database: nodes by labels and properties, edges by type and both ends."""

    nodes: Counter[Any]
    edges: Counter[Any]
    traces: list[dict[str, Any]]


def dumped(graphs: Database) -> Dump:
    found = graphs.ask("MATCH (n) RETURN elementId(n) AS id, labels(n) AS labels, properties(n) AS properties")
    nodes = {
        row["id"]: (
            frozenset(row["labels"]),
            tuple(sorted((key, repr(value)) for key, value in row["properties"].items() if key not in EXCEPTED)),
        )
        for row in found.records()
    }
    joined = graphs.ask(
        "MATCH (a)-[e]->(b) RETURN elementId(a) AS a, type(e) AS type, properties(e) AS properties, elementId(b) AS b"
    )
    edges = Counter(
        (nodes[e["a"]], e["type"], repr(sorted(e["properties"].items())), nodes[e["b"]]) for e in joined.records()
    )
    return Dump(Counter(nodes.values()), edges, graphs.traces())


class Both(NamedTuple):
    """A database that was pushed to, and one that was imported."""

    pushed: Dump
    imported: Dump
    exported: Exported
    constraints: list[set[str]]
    pulled_equals: list[bool]


@pytest.fixture(scope="module")
def both(doomed: Home, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """The same traces imported, by the command of the export, in place of all that was there; then pushed."""
    folder = tmp_path_factory.mktemp("export") / "a folder"
    made = list(images(tmp_path_factory.mktemp("simulated")))
    schema = "SHOW INDEXES YIELD name, labelsOrTypes, properties, owningConstraint RETURN *"
    constraints = []
    with BulkExport(folder) as export:
        for one in made:
            export.add(one)

    with Database(doomed.connection) as graphs:
        graphs.push(load_core({"only for its schema": True, **small_trace()}), run="schema")
        constraints.append({repr(row) for row in graphs.ask(schema).records()})
    doomed.stop()
    run_import(doomed, folder)
    doomed.start()
    with Database(doomed.connection) as graphs:
        assert len(graphs.ask(schema)) < len(constraints[0])  # an import makes none
        for statement in (folder / SCHEMA).read_text().split(";\n")[:-1]:
            graphs.ask(statement, write=True)
        constraints.append({repr(row) for row in graphs.ask(schema).records()})
        imported = dumped(graphs)
        core, pulled = load_core(small_trace()), graphs.pull_core("small/whole")
        equals = [
            ours[name].tolist() == theirs[name].tolist()
            for ours, theirs in ((make(core), make(pulled)) for make in (node_columns, edge_columns))
            for name in ours
        ]
        doomed.empty()
        for one in made:
            graphs.push_image(one)
        pushed = dumped(graphs)
    return Both(pushed, imported, export.done, constraints, equals)


def run_import(home: Home, folder: Path) -> None:
    """Import as README.txt says."""
    arguments = export_command(folder)
    tool = [str(home.java.path), "-Xmx512m", "-cp", f"{home.files}/*", "org.neo4j.cli.AdminTool"]
    done = subprocess.run(
        [*tool, *arguments],
        cwd=folder,
        env={**os.environ, "NEO4J_HOME": str(home.folder), "NEO4J_CONF": str(home.folder / "conf")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def export_command(folder: Path) -> list[str]:
    """The arguments of neo4j-admin in README.txt."""
    (line,) = [line for line in (folder / README).read_text().splitlines() if line.strip().startswith("neo4j-admin ")]
    return line.split()[1:]


def test_import_and_push_give_the_same_nodes(both: Both) -> None:
    assert both.pushed.nodes - both.imported.nodes == Counter()
    assert both.imported.nodes - both.pushed.nodes == Counter()
    assert both.exported.nodes == sum(both.imported.nodes.values())


def test_import_and_push_give_the_same_edges(both: Both) -> None:
    assert both.pushed.edges - both.imported.edges == Counter()
    assert both.imported.edges - both.pushed.edges == Counter()
    assert both.exported.edges == sum(both.imported.edges.values())


def test_imported_traces_are_complete(both: Both) -> None:
    assert len(both.imported.traces) == both.exported.traces == len(both.pushed.traces)
    for trace in both.imported.traces:
        assert trace["state"] == "complete"
        assert trace["pushed_ns"] == trace["begun_ns"] > 1_700_000_000 * 10**9


def test_imported_constraints_and_indexes_are_those_of_a_push(both: Both) -> None:
    pushed, imported = both.constraints
    assert imported == pushed


def test_what_was_imported_can_be_pulled(both: Both) -> None:
    assert both.pulled_equals
    assert all(both.pulled_equals)


# --- files -----------------------------------------------------------------------------------------------------


def exported(folder: Path, *cores: Any) -> Exported:
    with BulkExport(folder) as export:
        for number, core in enumerate(cores):
            export.add(image(core, Placement("run", str(number))))
    return export.done


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of a file by the names of its header, as Python's reader of CSV has them."""
    header = (folder / f"{name}.header.csv").read_text().rstrip().split(",")
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [dict(zip(header, row, strict=True)) for row in csv.reader(file, strict=True)]


def options(folder: Path) -> list[str]:
    return (folder / ARGUMENTS).read_text().splitlines()


def test_knowledge_of_two_traces_is_written_once(tmp_path: Path) -> None:
    one, two = (load_core(json.dumps({"number": number, **small_trace()}).encode()) for number in range(2))
    exported(tmp_path / "one", one)
    exported(tmp_path / "two", one, two)
    for label in ("Signature", "KernelName", "Category", "SubtreeClass", "Run"):
        keys = [row.get("key:string") or row["name:string"] for row in rows(tmp_path / "two", label)]
        assert keys
        assert keys == [row.get("key:string") or row["name:string"] for row in rows(tmp_path / "one", label)]
        assert len(set(keys)) == len(keys)
    assert len(rows(tmp_path / "two", "Trace")) == 2
    among = Counter(tuple(row.values()) for row in rows(tmp_path / "two", "IN_CATEGORY"))
    assert set(among.values()) == {1}


@examples(20)
@given(trace=traces())
def test_made_traces_are_written_with_the_ends_of_all_edges(
    trace: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("made") / "export"
    core = load_core(trace)
    done = exported(folder, core)
    of_nodes = [option.split("=")[-1] for option in options(folder) if option.startswith("--nodes")]
    of_edges = [option.split("=")[-1] for option in options(folder) if option.startswith("--relationships")]
    nodes = [row for file in of_nodes for row in rows(folder, file.split(",")[1].removesuffix(".csv"))]
    edges = [row for file in of_edges for row in rows(folder, file.split(",")[1].removesuffix(".csv"))]
    assert sorted(int(row[":ID"]) for row in nodes) == list(range(done.nodes))
    assert len(edges) == done.edges
    assert {int(row[end]) for row in edges for end in (":START_ID", ":END_ID")} <= set(range(done.nodes))
    names = Counter(row["name:string"] for row in nodes if row.get("uid:long"))
    assert names == Counter(core.names[code] for code in core.columns.name.tolist())


def test_folders_that_hold_something_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    with pytest.raises(OutputError, match="holds something already"), BulkExport(tmp_path):
        pass
    with pytest.raises(OutputError, match="is a file; name a folder"), BulkExport(tmp_path / "note"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_what_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    made = image(load_core(small_trace()), Placement("run", "name"))

    def stop(done: int, size: int) -> None:
        if done > size / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), BulkExport(tmp_path / "export") as export:
        export.add(made, stop)
    assert list(tmp_path.iterdir()) == []


def test_the_same_trace_or_name_twice_is_refused(tmp_path: Path) -> None:
    one = load_core(small_trace())
    other = load_core({"traceEvents": []})
    with BulkExport(tmp_path / "export") as export:
        export.add(image(one, Placement("run", "name")))
        for core, name in ((one, "other"), (other, "name")):
            with pytest.raises(OutputError, match="is in the export already"):
                export.add(image(core, Placement("run", name)))
    assert export.done.traces == 1
