"""Every shell line of the pages about databases runs as it is written.

Lines behind `$ ` run in test_generated.py, with what they print. Here are the others, on the server of the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from neo4j_server import Home
from pages import PAGES

from corpus import CHECKOUT
from tracelens_graph.db.server import server
from tracelens_graph.simulate import simulate, write

_BLOCK = re.compile(r"^```(?:sh|bash|shell)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ABOUT_DATABASES = re.compile(r"tracelens-graph db |neo4j-admin|docker|NEO4J_")
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(_BLOCK.findall(page.read_text()))
    if _ABOUT_DATABASES.search(block)
]

ADMIN = """#!/bin/sh
NEO4J_HOME={home} NEO4J_CONF={home}/conf exec {java} -Xmx512m -cp '{files}/*' org.neo4j.cli.AdminTool "$@"
"""
DOCKER = """#!/bin/sh
test "$1 $2" = 'compose -f' && test -f "$3" && shift 3 && test "$*" = 'up -d --wait'
"""


@pytest.fixture(scope="module")
def shell(doomed: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A folder with the demo and what was exported, programs by their names, the server at its standard place."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "docker").symlink_to(CHECKOUT / "docker")
    write(simulate(ranks=2, steps=1, layers=1, seed=7), folder / "demo")
    place = folder / "data" / "tracelens_graph" / "neo4j"
    place.parent.mkdir(parents=True)
    place.symlink_to(doomed.folder)
    programs = folder / "bin"
    programs.mkdir()
    (programs / "docker").write_text(DOCKER)
    (programs / "neo4j-admin").write_text(ADMIN.format(home=doomed.folder, java=doomed.java.path, files=doomed.files))
    for program in programs.iterdir():
        program.chmod(0o755)
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEO4J_")}
    environment |= {"PATH": path, "XDG_DATA_HOME": str(folder / "data"), "PWD": str(folder)}
    environment |= {"NEO4J_PASSWORD": doomed.connection.password}
    doomed.empty()
    yield environment
    doomed.stop()
    doomed.start()


def test_there_are_some() -> None:
    assert len(BLOCKS) >= 6


@pytest.mark.checkout
@pytest.mark.skipif(sys.platform == "darwin", reason="data lies elsewhere there")
@pytest.mark.parametrize("block", BLOCKS)
def test_it_runs_as_written(block: str, shell: dict[str, str], doomed: Home) -> None:
    if re.search(r"db start|neo4j-admin", block):
        doomed.stop()
    else:
        doomed.start()
    folder = Path(shell["PWD"])
    shutil.rmtree(folder / "for-import", ignore_errors=True)
    export = "tracelens-graph db export for-import demo/rank0.json.gz demo/rank1.json.gz --run demo"
    for text in (export, block) if "for-import" in block else (block,):
        text = re.sub(r"^pip install .*", "", text, flags=re.MULTILINE)  # it is installed
        run = subprocess.run(
            ["bash", "-e", "-c", text], cwd=folder, env=shell, capture_output=True, text=True, timeout=300
        )
        assert run.returncode == 0, run.stdout + run.stderr
    running = server.running(doomed.folder)
    assert (running is None) == bool(re.search(r"db stop|neo4j-admin", block))
    if "neo4j-admin" in block:
        doomed.start()
        with doomed.connection.driver() as driver:
            (row,) = driver.execute_query("MATCH (t:Trace) RETURN count(t) AS traces").records
        assert row["traces"] == 2
