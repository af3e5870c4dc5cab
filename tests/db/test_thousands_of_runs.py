"""The facts of two thousand runs: which kernels take longer since which build, in how much work of the server."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from math import exp
from pathlib import Path

import pytest
from neo4j_server import Home

from tracelens_graph.categories.kernels import kernel_category
from tracelens_graph.db.database import Database
from tracelens_graph.db.image import Options
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

RUNS = 2000
AT_ONCE = 100
NOISE = 0.03
"""Standard deviation of the logarithms of times between runs."""
MOST_S = 1.5
"""Seconds of its processor that the server may need for an answer, about twice of what it does need."""

_ANOTHER = """
UNWIND $runs AS run
MATCH (base:Trace {name: 'rank0', run: 'run 0'})
CREATE (t:Trace)
SET t = base {.*, id: run.id, run: 'run ' + run.build, path: 'run ' + run.build + '/rank0', label_build: run.build,
              pushed_ns: base.pushed_ns + run.build}
WITH base, run, t
MATCH (base)-[s:SPENT]->(x:KernelName|Signature|ModulePlace)
CREATE (t)-[another:SPENT]->(x)
SET another = properties(s),
    another.ns = toInteger(s.ns * run.scatter[x.key] *
      CASE WHEN run.build >= $since AND (x.key IN $slower OR any(one IN s.kernels WHERE one IN $slower))
      THEN $factor ELSE 1 END)
"""

_FEWER = f"MATCH (t:Trace) WITH t LIMIT {AT_ONCE} DETACH DELETE t RETURN count(*) AS deleted"


@pytest.fixture(scope="module")
def database(home: Home) -> Iterator[Database]:
    with Database(home.connection) as found:
        found.push(
            load_core(simulate(1, steps=1, layers=1, seed=43).ranks[0].trace),
            run="run 0", name="rank0", labels=["build=0"], options=Options(kinds=()),
        )  # fmt: skip
        yield found
        while found.ask(_FEWER, write=True)["deleted"][0]:
            pass


def seconds_of(home: Home) -> float:
    """Processor time that the server has used."""
    fields = Path(f"/proc/{home.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("seed", [5])
def test_slower_kernels_are_named_in_a_second_of_work(home: Home, database: Database, seed: int) -> None:
    draw = random.Random(seed)
    kinds: dict[str, dict[str, str]] = {}
    keys = []
    for row in database.ask("MATCH (:Trace)-[:SPENT]->(x) RETURN x.key AS key, labels(x)[0] AS label, x.name AS name"
                            " ORDER BY key").records():  # fmt: skip
        keys.append(row["key"])
        if row["label"] == "KernelName":
            kinds.setdefault(kernel_category(row["name"]), {})[row["key"]] = row["name"]
    slower = kinds[draw.choice(sorted(kinds))]
    since, factor = draw.randrange(RUNS // 4, RUNS * 3 // 4), draw.uniform(1.2, 1.5)
    for first in range(1, RUNS, AT_ONCE):
        runs = [
            {"id": f"{build:032x}", "build": build, "scatter": {key: exp(draw.gauss(0, NOISE)) for key in keys}}
            for build in range(first, min(first + AT_ONCE, RUNS))
        ]
        database.ask(_ANOTHER, write=True, runs=runs, slower=list(slower), since=since, factor=factor)
    took = []
    for _ in range(4):  # the first is planned, and compiled
        before = seconds_of(home)
        found = database.ask("regressions", label="build", top=0)
        took.append(seconds_of(home) - before)
    assert set(found["name"]) == set(slower.values())
    for row in found.records():
        assert row["since"] == str(since)
        assert row["factor"] == pytest.approx(factor, rel=0.01)
        assert (row["builds_before"], row["builds_since"]) == (since, RUNS - since)
        assert row["modules"]
    assert min(took) < MOST_S
