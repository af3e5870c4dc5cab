"""`db push-diff` on a real server."""

from __future__ import annotations

import csv
import io
import json
import re
import secrets
from pathlib import Path

import pytest
from handmade import Run, small_trace

from tracelens_graph.db.connection import Connection


@pytest.fixture
def pair(neo4j: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two traces that no other test has; in the second, kernels take longer."""
    known = {"NEO4J_URI": neo4j.uri, "NEO4J_USER": neo4j.user, "NEO4J_PASSWORD": neo4j.password}
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    paths = []
    for factor, name in ((1, "before"), (2, "after")):
        trace = small_trace() | {"mark": secrets.token_hex(8)}
        for event in trace["traceEvents"]:
            if event.get("cat") == "kernel":
                event["dur"] *= factor
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(trace))
    return paths


def test_compare_again_and_ask(run: Run, pair: list[Path]) -> None:
    name = f"run-{secrets.token_hex(4)}"
    code, out, err = run("db", "push-diff", *pair, "--run", name)
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert re.fullmatch(rf"pushed {name}/after against {name}/before: \d+ places, \d+ matches in \d+\.\d s", first)
    command = second.removeprefix("ask next: tracelens-graph ").split()
    code, out, _ = run(*command, "--format", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert rows
    assert sum(float(row["change_ms"]) for row in rows) > 0
    code, out, _ = run("db", "push-diff", *pair)
    assert (code, out.splitlines()[0]) == (0, re.sub(r" in [\d.]+ s$", "", first.replace("pushed", "unchanged")))


def test_another_part_needs_replace(run: Run, pair: list[Path]) -> None:
    assert run("db", "push-diff", *pair)[0] == 0
    code, _, err = run("db", "push-diff", *pair, "--device", "0")
    assert code == 1
    assert "is in the database with another part of the first trace" in err
    assert err.strip().endswith("push it with --replace")
    code, out, _ = run("db", "push-diff", *pair, "--device", "0", "--replace")
    assert (code, out.startswith("replaced ")) == (0, True)


def test_what_cannot_be_compared(run: Run, pair: list[Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"traceEvents": []}')
    code, out, err = run("db", "push-diff", pair[0], empty)
    assert (code, out) == (1, "")
    assert "holds no GPU events to compare" in err
