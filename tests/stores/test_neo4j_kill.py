"""A push that is killed, or whose server is, at any point: the next one completes it, nothing lost, nothing doubled."""

from __future__ import annotations

import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from neo4j_contents import Contents, assert_same, contents
from neo4j_home import PASSWORD, Home

from tracelens_graph.database import Database, image
from tracelens_graph.loading import load_core
from tracelens_graph.simulate import simulate
from tracelens_graph.stores.neo4j.image import Placement
from tracelens_graph.stores.neo4j.writer import batches

KILLS, SERVER_KILLS = 20, 4
DRIVER_WAITS_S = 20
"""A server that is back so soon is waited for; the driver gives up after 30 s."""

BATCHES = 60
"""Kills fall into the first so many transactions of the push."""

MOMENTS = ("before", "within", "after")
"""Before a transaction is begun, before its commit, after it."""

CHILD = """
import itertools, os, pickle, signal, sys
from tracelens_graph.stores.neo4j.connection import Connection
from tracelens_graph.stores.neo4j.push import push_image
from tracelens_graph.stores.neo4j.writer import Writer

uri, password, file, at, moment, *victims = sys.argv[1:]
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

Writer._commit = killing
with open(file, "rb") as opened:
    image = pickle.load(opened)
with Connection(uri, password=password).driver() as driver:
    print(push_image(driver, "neo4j", image))
"""


@pytest.fixture(scope="module")
def pushed(home: Home, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Contents]:
    """The image of about 20,000 nodes as a file, its trace, and the database after an undisturbed push."""
    core = load_core(simulate(1, steps=8, layers=4, seed=20).ranks[0].trace)
    made = image(core, Placement("killed", "rank0", ("seed=20",)))
    assert 18_000 < sum(map(len, made.nodes)) < 25_000
    assert sum(len(queue) for group in (*made.nodes, *made.edges) for queue in batches(group)) > BATCHES
    file = tmp_path_factory.mktemp("image") / "image"
    file.write_bytes(pickle.dumps(made))
    with Database(home.connection) as database:
        assert database.push_image(made) == "pushed"
        found = contents(home.connection)
        database.drop("killed")
    assert len(found.nodes) > sum(map(len, made.nodes)) * 0.99
    return file, core.trace_id, found


def points() -> list[tuple[int, int, str, str]]:
    """Seeded: number, batch, moment, and who is killed; the server's last, as it is slow after its start."""
    drawn = random.Random(20)
    chosen = [(drawn.randrange(BATCHES), MOMENTS[i % 3]) for i in range(KILLS)]
    victims = ["client"] * (KILLS - SERVER_KILLS) + ["server", "server", "both", "both"]
    return [(i, *point, victim) for i, (point, victim) in enumerate(zip(chosen, victims, strict=True))]


@pytest.mark.parametrize(("number", "batch", "moment", "victim"), points())
def test_the_next_push_completes_it(
    number: int, batch: int, moment: str, victim: str, home: Home, pushed: tuple[Path, str, Contents]
) -> None:
    file, trace, expected = pushed
    made = pickle.loads(file.read_bytes())
    assert contents(home.connection) == Contents({}, {})  # type: ignore[arg-type]
    pids = {"client": ["0"], "server": [str(home.pid)], "both": [str(home.pid), "0"]}[victim]
    arguments = [home.connection.uri, PASSWORD, str(file), str(batch), moment, *pids]
    with subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True) as child:
        if victim != "client":
            home.wait_for_its_end()
            began = time.monotonic()
            home.start()
            down_s = time.monotonic() - began
        said, _ = child.communicate(timeout=120)
    with Database(home.connection) as database:
        states = {one["id"]: one["state"] for one in database.traces()}
        if victim != "server":
            assert child.returncode == -signal.SIGKILL
        elif down_s < DRIVER_WAITS_S:
            assert (child.returncode, said) == (0, "pushed\n")
        if child.returncode:
            assert states == {trace: "loading"}
            assert database.push_image(made) == "completed"
        assert_same(contents(home.connection), expected)
        assert database.push_image(made) == "unchanged"
        database.drop("killed")
