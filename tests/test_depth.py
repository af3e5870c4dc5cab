"""No command, question or export recurses over the depth of a trace, and none draws a line as long as it is deep."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from all_commands import commands
from shapes import trace
from typer.testing import CliRunner

import tracelens_graph
from tracelens_graph import TraceGraph
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.cli.app import app
from tracelens_graph.compat import TraceToTree

pytestmark = pytest.mark.proof

DEPTHS = {"nested_ops": 100_000, "nested_frames": 20_000, "nested_annotations": 20_000}
"""Shape -> how deep it is: deeper by far than Python's stack, once as deep as a broken trace may be."""
DEPTH = max(DEPTHS.values())

SWITCHES = (
    "--micro-idle 5 --short-kernels 10 --add first-occurrence --add call-stack --recompute --add by-kernel-count "
    "--add by-module --add kernel-categories --add overlap"
)
COMMANDS = {
    "report": ("report F", "report T --all", f"report T --csv D {SWITCHES}", "report T -o J"),
    "diff": (
        "diff T T",
        "diff T T --by-name --names a,b",
        "diff T T --by-name --names a,b --csv D",
        "diff T T --tree",
        "diff T T --point 1",
        "diff T T --csv D",
        "diff T T -o R",
        "diff T T --layout tracelens --csv D",
    ),
    "ranks": ("ranks T F", "ranks T F --path", "ranks T F -o R"),
    "info": ("info T",),
    "explain": ("explain T", "explain T headline"),
    "modules": ("modules T", "modules T --format table --by class"),
    "tree": ("tree T", "tree T --gpu-time --uids", "tree T --prune --kind gpu", "tree T --name gemm --up --gpu-time"),
    "roofline": ("roofline T --arch h100-sxm -o R",),
    "cut": ("cut F --uid 50 -o C",),
    "split": ("split F -o D",),
    "replay": ("replay T", "replay T --op /./ --top 3", "replay T --op /./ --top 3 -o D"),
    "export": (
        "export T --format graphml -o G",
        "export T --format csv -o D",
        "export T --format parquet -o D",
        "export T -o L -o O -o P",
        "db export D T",
    ),
    "save": ("save F -o S",),
    "cypher": ("cypher T RETURN~1", "cypher T MATCH~(e:Event)~RETURN~count(e)"),
    "ask": (
        *(f"ask {name} T" for name in QUESTIONS if not QUESTIONS[name].several),
        "ask attribution T -p level=kernel",
    ),
}
"""Command -> how it is called: F is the trace as a file, T as a saved graph, the others are places to write to."""

FILES = {
    "R": ".html",
    "C": ".json",
    "G": ".graphml",
    "S": ".tlg",
    "J": ".json",
    "L": ".folded",
    "O": ".speedscope.json",
    "P": ".json",
}

WITH_AN_EXECUTION_TRACE = {"link", "tensor"}
"""Deep pairs are in the tests of linkage."""
WITHOUT_A_TRACE = {"skill", "mcp"}
WITH_A_DATABASE = {
    "check",
    "demo",
    "drop",
    "forget-events",
    "import",
    "list",
    "pull",
    "push",
    "push-diff",
    "queries",
    "query",
    "start",
    "stop",
    "upgrade",
}


@pytest.fixture(scope="module", params=DEPTHS)
def deep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deep trace as a file, with the saved graph beside it."""
    path = tmp_path_factory.mktemp("deep") / f"{request.param}.json"
    path.write_text(json.dumps(trace(request.param, DEPTHS[request.param])))
    tracelens_graph.load(path).save(path.with_suffix(".tlg"))
    return path


def test_no_command_is_forgotten() -> None:
    known = {name.rpartition(" ")[2] for name, _ in commands()}
    assert known == set(COMMANDS) | WITH_AN_EXECUTION_TRACE | WITHOUT_A_TRACE | WITH_A_DATABASE


@pytest.mark.parametrize("words", [words for ways in COMMANDS.values() for words in ways])
def test_a_command_takes_any_depth(words: str, deep: Path, tmp_path: Path) -> None:
    if "parquet" in words:
        pytest.importorskip("pyarrow")
    places = {"F": str(deep), "T": str(deep.with_suffix(".tlg")), "D": str(tmp_path / "tables")}
    places |= {name: str(tmp_path / f"{name}{end}") for name, end in FILES.items()}
    result = CliRunner().invoke(app, [places.get(word, word).replace("~", " ") for word in words.split()])
    assert not result.exception or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in (0, 1), result.stderr
    assert result.exit_code == 0 or result.stderr.startswith("error: "), result.stderr
    assert max(map(len, result.stdout.splitlines()), default=0) < 10_000
    written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert written + len(result.stdout) < 3000 * DEPTH


@pytest.fixture(scope="module")
def graph(deep: Path) -> TraceGraph:
    return tracelens_graph.load(deep)


def test_python_takes_any_depth(graph: TraceGraph) -> None:
    deepest = graph.nodes_at([int(np.argmax(graph.columns.depth))])[0]
    top = graph.nodes_at([0])[0]
    assert len(deepest.ancestors) == deepest.depth
    assert len(top.subtree) == int(graph.columns.last[0]) + 1
    assert all(len(text) < 1000 for node in (top, deepest) for text in (repr(node), str(node.attributes())))
    assert deepest.gpu_time.busy <= deepest.gpu_time.sum
    steps, node = 0, top
    while node.children:
        node, steps = node.children[0], steps + 1
    assert steps == int(graph.columns.depth.max())
    assert len(graph.same_as(deepest)) <= DEPTH
    assert graph.to_networkx().number_of_nodes() == len(graph.columns)
    assert len(repr(graph)) < 1000


def test_what_is_known_from_tracelens_takes_any_depth(deep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = TraceToTree(tracelens_graph.load(deep))
    deepest = tree.get_UID2event(int(tree.graph.columns.uid[int(np.argmax(tree.graph.columns.depth))]))
    top = tree.get_UID2event(int(tree.graph.columns.uid[0]))
    assert len(tree.traverse_parents_and_get_callstack(deepest)) > 1
    tree.traverse_subtree_and_print(top)
    tree.traverse_parents_and_print(deepest)
    assert len(capsys.readouterr().out) < 10_000_000
