"""All questions about profiles of JAX: the database says what the graph in memory says, and gives the graph back."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from handmade_jax import US, looping_profile, training_profile
from placed_traces import placed
from plain_xplane import Plane, written
from same_tables import Ask, assert_same

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.db.database import Database
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceMember
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.frames import edge_columns, node_columns

OF_ONE = [name for name, question in QUESTIONS.items() if question.query and not question.several]
OF_TWO = [name for name, question in QUESTIONS.items() if question.query and {"a", "b"} <= set(question.parameters)]
ANSWERED = (
    "steps", "ops_unique_args", "programs", "modules", "python_lines", "launch_delay", "forward_backward", "copies",
    "op_signatures", "instruction_costs", "path_to_python", "unlinked",
)  # fmt: skip
"""Questions with an answer other than none."""


@cache
def training() -> Core:
    return load_core(training_profile())


@cache
def two() -> tuple[TraceMember, TraceMember]:
    profiles = (training_profile(mark=f"across {number}", steps=number) for number in (1, 3))
    return tuple(placed(load_core(one), "jax", f"{n}") for n, one in enumerate(profiles))  # type: ignore[return-value]


@pytest.mark.parametrize("name", OF_ONE)
def test_the_database_says_the_same(ask: Ask, name: str) -> None:
    query, twin = ask(training(), name)
    assert_same(query, twin)
    assert len(twin) or name not in ANSWERED


@pytest.mark.parametrize("step", [None, 1])
def test_costs_of_instructions_in_a_loop(ask: Ask, step: int | None) -> None:
    query, twin = ask(load_core(looping_profile()), "instruction_costs", step=step)
    assert_same(query, twin)
    assert list(twin["departs"]) == ["loop trips", None, "gathered rows", "libraries"]
    assert_same(*ask(load_core(looping_profile()), "programs"))


def test_calls_that_are_marked_twice(ask: Ask) -> None:
    host = Plane("/host:CPU")
    host.line(
        11, "python", 1000,
        *(host.event(f"PjitFunction({name})", start * US, length * US)
          for name, start, length in (("f", 0, 100), ("f", 1, 90), ("g", 2, 10), ("f", 200, 50), ("f", 200, 50))),
    )  # fmt: skip
    query, twin = ask(load_core(written(host)), "runtime_summary")
    assert_same(query, twin)
    assert dict(zip(twin["name"], twin["calls"].tolist(), strict=True)) == {"PjitFunction(f)": 2, "PjitFunction(g)": 1}


@pytest.mark.parametrize("name", OF_TWO)
def test_the_database_compares_alike(ask: Ask, database: Database, name: str) -> None:
    if "Divergence" in QUESTIONS[name].query.text:  # type: ignore[union-attr]
        ask(two(), "common_signatures", a="jax/0", b="jax/1")  # pushes both
        a, b = two()
        database.push_diff(Diff(*median_steps(a.window, b.window), (a.name, b.name)))
    assert_same(*ask(two(), name, a="jax/0", b="jax/1"))


@pytest.mark.parametrize("name", OF_ONE)
@parametrize("path", [path for path in xplane_files() if "attention" in path.name])  # custom calls, fusions, no steps
def test_the_database_says_the_same_of_real_profiles(ask: Ask, path: Path, name: str) -> None:
    assert_same(*ask(loaded(path), name))


def come_back(database: Database, core: Core, name: str) -> None:
    if core.trace_id not in {one["id"] for one in database.traces()}:
        database.push(core, run="jax", name=name)
    pulled = database.pull_core(core.trace_id)
    for ours, theirs in ((node_columns(core), node_columns(pulled)), (edge_columns(core), edge_columns(pulled))):
        assert list(ours) == list(theirs)
        for key, column in ours.items():
            assert plain(column.tolist()) == plain(theirs[key].tolist()), key
    assert pulled.info == replace(core.info, source=Path(core.info.source).name)
    assert pulled.framework.compiles_programs
    assert pulled.programs == core.programs is not None
    tables = report_tables(pulled)
    for key, table in report_tables(core).items():
        pd.testing.assert_frame_equal(table.to_pandas(), tables[key].to_pandas(), obj=key)


def plain(values: list[Any]) -> list[Any]:
    """Values without the white space of argument sets, which is that of whoever pushed them last."""
    return ["".join(value.split()) if isinstance(value, str) else value for value in values]


def test_a_profile_comes_back(database: Database) -> None:
    come_back(database, training(), "made")


@parametrize("path", xplane_files())
def test_real_profiles_come_back(database: Database, path: Path) -> None:
    come_back(database, loaded(path), path.stem)
