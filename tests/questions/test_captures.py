"""A trace that is joined with captures answers the same in the database and in memory, and comes back as it went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from same_tables import Ask, assert_same

from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.db.database import Database
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate.serving import simulate, write

ASKED: list[tuple[str, dict[str, Any]]] = [
    (name, {})
    for name, question in QUESTIONS.items()
    if question.query and not question.several and name not in ("storage_kernels", "peak_bytes_by_module")
] + [("gpu_time_under", {"under": "hipGraphLaunch"}), ("gpu_time_under", {"under": "LlamaDecoderLayer_1"})]


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Core:
    folder: Path = tmp_path_factory.mktemp("server")
    write(simulate(seed=2, steps=3, layers=2, platform="rocm", streams=2), folder, traces_only=True)
    return load_core(folder / "rank0.json.gz", capture=folder / "capture")


@pytest.mark.neo4j
@pytest.mark.parametrize(("name", "given"), ASKED, ids=str)
def test_the_database_answers_the_same(joined: Core, ask: Ask, name: str, given: dict[str, Any]) -> None:
    assert_same(*ask(joined, name, **given))


@pytest.mark.neo4j
def test_a_joined_trace_comes_back(joined: Core, database: Database, ask: Ask) -> None:
    ask(joined, "replays")
    again = database.pull(joined.trace_id)
    assert again.info.replays == joined.info.replays
    for name in ("parent", "last", "owner", "owner_rule", "flags", "uid"):
        assert (getattr(again.columns, name) == getattr(joined.columns, name)).all()
