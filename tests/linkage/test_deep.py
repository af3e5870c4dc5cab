"""Pairs of traces that are nested far deeper than Python's stack."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tracelens_graph.cli.app import app

pytestmark = pytest.mark.proof

DEPTH = 30_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """An execution trace and a profiler's trace of ops each of which calls the next; each makes a tensor."""
    folder = tmp_path_factory.mktemp("deep")
    ids = range(2, DEPTH + 2)
    nodes = [
        {
            "id": i, "name": "op", "ctrl_deps": i - 1, "inputs": {"values": [], "shapes": [], "types": []},
            "outputs": {"values": [[10**6, 10**6 + 1, 0, 4, 4, "cpu"]], "shapes": [[4]], "types": ["Tensor(float)"]},
            "attrs": [{"name": "rf_id", "type": "uint64", "value": i}, {"name": "tid", "type": "uint64", "value": 1}],
        }
        for i in reversed(ids)
    ]  # fmt: skip
    root = {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "attrs": []}
    events = [
        {
            "ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": i, "dur": 2 * (DEPTH + 2 - i),
            "args": {"Record function id": i},
        }
        for i in ids
    ]  # fmt: skip
    for name, content in (("et", {"schema": "1.1.1", "nodes": [*nodes, root]}), ("trace", {"traceEvents": events})):
        (folder / f"{name}.json").write_text(json.dumps(content))
    return str(folder / "et.json"), str(folder / "trace.json")


@pytest.mark.parametrize("words", ["link TRACE --et ET --op 2", "tensor TRACE --et ET t1000000", "tree ET"])
def test_deep_pairs(words: str, pair: tuple[str, str]) -> None:
    places = dict(zip(("ET", "TRACE"), pair, strict=True))
    result = CliRunner().invoke(app, [places.get(word, word) for word in words.split()])
    assert result.exit_code == 0, result.output
    assert len(result.output.splitlines()) >= 3


def test_all_of_them_link(pair: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["link", "--et", pair[0], pair[1]])
    assert result.output.startswith(f"{DEPTH:,} of {DEPTH:,} nodes link")
