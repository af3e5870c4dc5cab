"""A push that is killed, or whose server is, at any point: the next one completes it, nothing lost, nothing doubled."""

from __future__ import annotations

import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from neo4j_server import Contents, Home, assert_same, contents
from profiles import thorough

from tracelens_graph.db import batches
from tracelens_graph.db.batches import edge_stages, node_batches
from tracelens_graph.db.database import Database, image
from tracelens_graph.db.image import Placement
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

DRIVER_WAITS_S = 100
"""A server that is back so soon is waited for; the driver gives up after two minutes."""

BATCH = 250
"""Rows of a transaction, so that the push of a small trace is one of many transactions."""

BATCHES = 60
"""Kills fall into the first so many transactions of the push."""

MOMENTS = ("before", "within", "after")
"""Before a transaction is begun, before its commit, after it."""

CHILD = """
import itertools, os, pickle, signal, sys
from tracelens_graph.db import batches
from tracelens_graph.db.connection import Connection, OpenDatabase
from tracelens_graph.db.push import Writer, push_trace

uri, password, file, rows, at, moment, *victims = sys.argv[1:]
numbers, commit = itertools.count(), Writer._commit

def kill():
    for victim in victims:
        os.kill(int(victim) or os.getpid(), signal.SIGKILL)

class Session:
    def __init__(self, session):
        self.session = session

    def execute_write(self, work):
        def then_kill(tx):
            work(tx)
            kill()
            victims.clear()
        return self.session.execute_write(then_kill)

def killing(writer, session, batch):
    if next(numbers) != int(at):
        return commit(writer, session, batch)
    if moment == "before":
        kill()
    rows = commit(writer, Session(session) if moment == "within" else session, batch)
    if moment == "after":
        kill()
    return rows

batches.BATCH, Writer._commit = int(rows), killing
with open(file, "rb") as opened:
    image = pickle.load(opened)
with Connection(uri, password=password).driver() as driver:
    print(push_trace(OpenDatabase(driver), image))
"""


class Kill(NamedTuple):
    """Who is killed at which of the transactions, the client, the server, or both; and how long the server is away."""

    batch: int
    moment: str
    victim: str
    away_s: int = 0


def kills() -> list[Kill]:
    """Kills at places drawn with a seed: of the client at every moment, and of the server, alone and with the client.

    A thorough run has each of these six times, and a server that is away for a minute.
    """
    drawn = random.Random(20)
    kinds: list[Any] = [(moment, "client") for moment in MOMENTS] + [("within", "server"), ("before", "both")]
    if thorough():
        kinds = [(moment, victim) for victim in ("client", "server", "both") for moment in MOMENTS] * 6
        kinds.append(("within", "server", 60))
    return [Kill(drawn.randrange(BATCHES), *kind) for kind in kinds]


@pytest.fixture(scope="module")
def pushed(doomed: Home, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Contents]:
    """An image as a file, its trace, and the database after an undisturbed push."""
    size = {"steps": 8, "layers": 4} if thorough() else {"steps": 2, "layers": 1}
    core = load_core(simulate(1, **size, seed=20).ranks[0].trace)
    made = image(core, Placement("killed", "rank0", {"seed": 20}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH", BATCH)
        of_edges = sum(len(queue) for stage in edge_stages(made.edges) for queue in stage)
        assert len(node_batches(made.nodes)) + of_edges > BATCHES
    file = tmp_path_factory.mktemp("image") / "image"
    file.write_bytes(pickle.dumps(made))
    doomed.empty()
    with Database(doomed.connection) as database:
        assert database.push_image(made) == "pushed"
        found = contents(doomed.connection)
        database.drop("killed")
    assert len(found.nodes) > sum(map(len, made.nodes)) * 0.99
    return file, core.trace_id, found


@pytest.mark.parametrize("kill", kills(), ids=lambda kill: "-".join(map(str, kill)))
def test_the_next_push_completes_it(kill: Kill, doomed: Home, pushed: tuple[Path, str, Contents]) -> None:
    file, trace, expected = pushed
    made = pickle.loads(file.read_bytes())
    assert contents(doomed.connection) == Contents({}, {})  # type: ignore[arg-type]
    pids = {"client": ["0"], "server": [str(doomed.pid)], "both": [str(doomed.pid), "0"]}[kill.victim]
    arguments = [doomed.connection.uri, doomed.connection.password, file, BATCH, kill.batch, kill.moment, *pids]
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        if kill.victim != "client":
            doomed.wait_for_its_end()
            began = time.monotonic()
            time.sleep(kill.away_s)
            doomed.start()
            down_s = time.monotonic() - began
        said, complaint = child.communicate(timeout=240)
    with Database(doomed.connection) as database:
        states = {one["id"]: one["state"] for one in database.traces()}
        if kill.victim != "server":
            assert child.returncode == -signal.SIGKILL
        elif down_s < DRIVER_WAITS_S:
            assert (child.returncode, said, complaint) == (0, "pushed\n", "")  # nor a word about what was tried again
        if child.returncode:
            assert states == {trace: "loading"}
            assert database.push_image(made) == "completed"
        assert_same(contents(doomed.connection), expected)
        assert database.push_image(made) == "unchanged"
        database.drop("killed")
