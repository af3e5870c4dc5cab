"""`db import` on a real server: what it replaces, what it asks, and what stays when it fails."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from handmade import small_trace
from neo4j_server import Home, assert_same, contents
from typer.testing import CliRunner

from tracelens_graph.cli.app import app
from tracelens_graph.db.bulk import ARGUMENTS, BulkExport
from tracelens_graph.db.database import Database, image
from tracelens_graph.db.image import Placement
from tracelens_graph.db.server import offline, server
from tracelens_graph.db.server.jars import Java
from tracelens_graph.errors import ServerError
from tracelens_graph.loading.one import load_core


class TestRestore:
    """What was moved aside comes back, whole or not at all."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for store in ("databases", "transactions"):
            (tmp_path / "data" / store / "neo4j").mkdir(parents=True)
            (tmp_path / "data" / store / "neo4j" / "held").write_text(store)
        (tmp_path / "logs").mkdir()
        return tmp_path

    def held(self, folder: Path) -> dict[str, str]:
        return {str(path.relative_to(folder)): path.read_text() for path in folder.glob("data/**/held")}

    def files(self, tmp_path: Path) -> Path:
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / ARGUMENTS).write_text("neo4j\n")
        return tmp_path / "files"

    def java(self, tmp_path: Path, text: str) -> Java:
        (tmp_path / "java").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "java").chmod(0o755)
        return Java(tmp_path / "java", 17)

    @pytest.fixture
    def lock(self, folder: Path) -> Iterator[int]:
        with (folder / ".lock").open("w") as file:
            yield file.fileno()

    def test_after_a_failure(self, folder: Path, lock: int) -> None:
        before, files = self.held(folder), self.files(folder)
        java = self.java(
            folder,
            'mkdir -p "$NEO4J_HOME/data/databases/neo4j"; echo half > "$NEO4J_HOME/data/databases/neo4j/held"\n'
            "echo 'java.lang.RuntimeException: no room left'; exit 1",
        )
        with pytest.raises(ServerError, match="the import failed: no room left; all of it stands in .*import.log"):
            offline.import_files(folder, files, java, folder, lock)
        assert self.held(folder) == before
        assert not (folder / "data" / "before-import").exists()

    def test_after_an_import(self, folder: Path, lock: int) -> None:
        files = self.files(folder)
        offline.import_files(folder, files, self.java(folder, 'echo "$@" > "$NEO4J_HOME/told"'), folder, lock)
        assert self.held(folder) == {}
        assert (folder / "told").read_text().endswith(f"database import full @{ARGUMENTS}\n")
        assert sorted(path.name for path in (folder / "data").iterdir()) == ["databases", "transactions"]

    def test_an_import_counts_also_if_the_deletion_of_the_old_is_cut_off(
        self, folder: Path, lock: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files, remove = self.files(folder), shutil.rmtree

        def cut_off(path: Path, **given: Any) -> None:
            if (path / "databases").exists():
                (path / "databases" / "held").unlink()
                raise KeyboardInterrupt
            remove(path, **given)

        store = '"$NEO4J_HOME/data/databases/neo4j"'
        java = self.java(folder, f"mkdir -p {store}; echo imported > {store}/held")
        monkeypatch.setattr(shutil, "rmtree", cut_off)
        with pytest.raises(KeyboardInterrupt):
            offline.import_files(folder, files, java, folder, lock)
        monkeypatch.undo()
        assert [path for path in (folder / "data").glob("*/transactions") if path.is_dir()]
        offline.restore(folder)
        assert self.held(folder) == {"data/databases/neo4j/held": "imported\n"}
        assert sorted(path.name for path in (folder / "data").iterdir()) == ["databases", "transactions"]

    def test_nobody_else_gets_the_folder_while_the_importer_lives(self, folder: Path) -> None:
        """Its parent is killed; what it had moved aside comes back once the importer has ended."""
        before, files = self.held(folder), self.files(folder)
        (folder / "server.json").write_text("{}")
        java = self.java(
            folder,
            'mkdir -p "$NEO4J_HOME/data/databases/neo4j"; : > "$NEO4J_HOME/begun"\n'
            'while [ ! -e "$NEO4J_HOME/go" ]; do sleep 0.05; done; echo late > "$NEO4J_HOME/data/databases/neo4j/held"',
        )
        with subprocess.Popen([sys.executable, "-c", _IMPORT, str(folder), str(files), str(java.path)]) as first:
            while not (folder / "begun").exists():
                assert first.poll() is None
                time.sleep(0.02)
            first.kill()
        try:
            with pytest.raises(ServerError, match="its importer is at work in .*: wait for its end"):
                server.import_files(folder, files, java, folder, patience_s=0.2)
            assert (folder / "data" / "before-import").is_dir()
        finally:
            (folder / "go").touch()
        with pytest.raises(ServerError, match="the import failed"):
            server.import_files(folder, files, self.java(folder, "exit 1"), folder)
        assert self.held(folder) == before

    @pytest.mark.parametrize("moved", [("databases",), ("databases", "transactions")])
    def test_after_it_was_killed(self, folder: Path, moved: tuple[str, ...]) -> None:
        before = self.held(folder)
        for store in moved:
            (folder / "data" / "before-import").mkdir(exist_ok=True)
            (folder / "data" / store / "neo4j").rename(folder / "data" / "before-import" / store)
        if len(moved) == 2:
            (folder / "data" / "databases" / "neo4j").mkdir()
            (folder / "data" / "databases" / "neo4j" / "held").write_text("half")
        offline.restore(folder)
        assert self.held(folder) == before
        assert not (folder / "data" / "before-import").exists()

    def test_what_is_no_export_is_refused_before(self, folder: Path, lock: int) -> None:
        before = self.held(folder)
        with pytest.raises(ServerError, match="holds no import.args"):
            offline.import_files(folder, folder, self.java(folder, "exit 1"), folder, lock)
        assert self.held(folder) == before


_IMPORT = """
import sys
from pathlib import Path
from tracelens_graph.db.server.jars import Java
from tracelens_graph.db.server.server import import_files
folder, files, java = map(Path, sys.argv[1:])
import_files(folder, files, Java(java, 17), folder)
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "for import"
    core = load_core(json.dumps(small_trace() | {"mark": "import"}).encode())
    with BulkExport(folder) as export:
        export.add(image(core, Placement("imported", "rank0")))
    return folder


@pytest.fixture
def started(doomed: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """The server of the tests as `db import` finds it; the fetched program stays where it is."""
    monkeypatch.setenv("NEO4J_PASSWORD", doomed.connection.password)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    doomed.start()
    yield doomed
    doomed.start()


def import_(*words: object) -> tuple[int, str]:
    """Exit code and all that is printed of `db import`, in one line."""
    told = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["db", "import", *map(str, words)])
    return told.exit_code, " ".join(told.output.replace("│", " ").split())


def test_an_import_takes_the_place_of_what_was_there(started: Home, exported: Path, tmp_path: Path) -> None:
    started.empty()
    core = load_core(json.dumps(small_trace() | {"mark": "import"}).encode())
    with Database(started.connection) as graphs:
        graphs.push(core, run="imported", name="rank0")
        pushed = contents(started.connection)
        graphs.push(load_core(small_trace()), run="before")
        everything = contents(started.connection)

    code, said = import_(exported, "--folder", started.folder)  # nobody is there to be asked
    assert code == 2
    assert "nodes of 2 traces, which an import replaces: add --force" in said
    assert_same(contents(started.connection), everything)

    (tmp_path / ARGUMENTS).write_text("neo4j\n--nodes=Op=nowhere.csv\n")
    code, said = import_(tmp_path, "--folder", started.folder, "--force")
    assert code == 1, said
    assert "error: the import failed: " in said
    assert_same(contents(started.connection), everything)

    code, said = import_(exported, "--folder", started.folder, "--force")
    assert (code, said.count("imported 1 trace: ")) == (0, 1), said
    assert_same(contents(started.connection), pushed)
    with Database(started.connection) as graphs:
        assert graphs.push(core, run="imported", name="rank0") == "unchanged"
        names = set(graphs.ask("SHOW INDEXES YIELD name RETURN name")["name"])
    assert {"event_trace_uid_key", "trace_run_name_key"} <= names


def test_a_database_that_cannot_be_used_is_told_and_replaced(started: Home, exported: Path) -> None:
    started.stop()
    (started.folder / "data" / "databases" / "neo4j" / "neostore").write_text("no store")
    for _ in range(2):
        with pytest.raises(
            ServerError, match=r"^the database neo4j cannot be used: .*store.*; `db import DIR --force`"
        ):
            started.start()
        assert server.running(started.folder) is None
    code, said = import_(exported, "--folder", started.folder)
    assert (code, "cannot be used" in said) == (1, True)
    code, said = import_(exported, "--folder", started.folder, "--force")
    assert (code, said.count("imported 1 trace: ")) == (0, 1), said
    ports = ["--bolt-port", "1", "--http-port", str(server.running(started.folder).http_port)]  # type: ignore[union-attr]
    told = CliRunner().invoke(app, ["db", "start", "--folder", str(started.folder), *ports])
    assert (told.exit_code, "runs already" in told.stdout) == (0, True)
    assert told.stderr == "it stays on its ports: --bolt-port count after `db stop` only\n"


def test_what_is_missing_is_told(exported: Path, tmp_path: Path) -> None:
    code, said = import_(exported, "--folder", tmp_path / "none")
    assert code == 1, said
    assert "`tracelens-graph db start` sets one up" in said
    code, said = import_(tmp_path, "--folder", tmp_path)
    assert code == 1, said
    assert "holds no import.args" in said
