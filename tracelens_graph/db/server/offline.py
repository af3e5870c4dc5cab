"""Filling the database of a stopped server by Neo4j's own importer.

What the database held is moved aside before and deleted afterwards, so that an import that fails, or is killed, leaves
the database as it was. The importer holds the lock of the folder, too: where it outlives the process that started it,
nothing is put back under its hands.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tracelens_graph.db.bulk import ARGUMENTS
from tracelens_graph.db.connection import DEFAULT_DATABASE
from tracelens_graph.db.server import process
from tracelens_graph.db.server.jars import Java
from tracelens_graph.db.server.process import reason_in
from tracelens_graph.errors import ServerError

ADMIN = "org.neo4j.cli.AdminTool"
LOG = "import.log"
"""Name of what the importer printed, among the logs of the server."""

_ASIDE, _REPLACED = "before-import", "replaced-by-import"
"""What an import that is under way has moved aside; and what one that is done has left to be deleted."""

_STORES = ("databases", "transactions")
_HEAP = "1g"


def import_files(folder: Path, files: Path, java: Java, jars: Path, lock: int) -> None:
    """Put what an export holds in place of all that the database holds.

    Args:
        folder: where the server lives; it is stopped.
        files: what `BulkExport` wrote.
        java: runs the importer.
        jars: folder of the program.
        lock: descriptor that keeps others away from the folder for as long as any process has it.

    Raises:
        ServerError: the import failed; the message says why, and the database is as it was.
    """
    if not (files / ARGUMENTS).is_file():
        raise ServerError(f"{files} holds no {ARGUMENTS}, which `db export` writes last")
    restore(folder)
    for store in _STORES:
        if (folder / "data" / store / DEFAULT_DATABASE).exists():
            aside = folder / "data" / _ASIDE / store
            aside.parent.mkdir(exist_ok=True)
            os.replace(folder / "data" / store / DEFAULT_DATABASE, aside)
    log = folder / "logs" / LOG
    command = [str(java.path), f"-Xmx{_HEAP}", "-cp", f"{jars}/*", ADMIN, "database", "import", "full", f"@{ARGUMENTS}"]
    places = {"NEO4J_HOME": str(folder), "NEO4J_CONF": str(folder / "conf"), "LC_ALL": "C.UTF-8"}
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command, cwd=files, env=process.environment() | places, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, pass_fds=(lock,),
            )  # fmt: skip
        if done.returncode:
            reason = reason_in(log.read_text("utf-8", errors="replace")) or f"exit code {done.returncode}"
            raise ServerError(f"the import failed: {reason}; all of it stands in {log}")
    except BaseException:
        restore(folder)
        raise
    aside = folder / "data" / _ASIDE
    if aside.is_dir():
        os.replace(aside, folder / "data" / _REPLACED)  # from here on the import counts, wherever it is cut off
    _sweep(folder)


def _sweep(folder: Path) -> None:
    """Delete what an import has replaced."""
    shutil.rmtree(folder / "data" / _REPLACED, ignore_errors=True)


def restore(folder: Path) -> None:
    """Put back what an import that was cut off had moved aside, and delete what one that was done had replaced."""
    _sweep(folder)
    aside = folder / "data" / _ASIDE
    if not aside.is_dir():
        return
    for store in _STORES:
        if (aside / store).exists():
            shutil.rmtree(folder / "data" / store / DEFAULT_DATABASE, ignore_errors=True)
            os.replace(aside / store, folder / "data" / store / DEFAULT_DATABASE)
    aside.rmdir()
