"""A server whose disk is full: said to be, ended, and good again once there is room."""

from __future__ import annotations

import gc
import resource
from pathlib import Path
from warnings import catch_warnings, simplefilter

import pytest
from neo4j_server import Home, assert_same, contents

from tracelens_graph.db.connection import Connection, errors_in_words
from tracelens_graph.db.database import Database, image
from tracelens_graph.db.image import Placement
from tracelens_graph.errors import DatabaseError, EndedBySignal
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

ROOM = 300_000
"""Bytes by which a file of the server may still grow."""


def limit(pid: int, folder: Path) -> None:
    """Have no file of a process grow by more than a little, as if the disk were full."""
    largest = max(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest + ROOM, largest + ROOM))


def test_a_full_disk_is_said_to_be_and_a_push_goes_on_once_there_is_room(doomed: Home) -> None:
    made = image(load_core(simulate(1, steps=4, layers=2, seed=21).ranks[0].trace), Placement("full", "rank0"))
    doomed.empty()
    with Database(doomed.connection) as database:
        database.push_image(made)
        expected = contents(doomed.connection)
        database.drop("full")
    limit(doomed.pid, doomed.folder / "data")
    with Database(doomed.connection) as database:
        with pytest.raises(DatabaseError, match=r"disk is full[^\n]*db stop"):
            database.push_image(made)
        with pytest.raises(DatabaseError, match="disk is full"):
            database.traces()
    with catch_warnings():  # the driver leaves a socket open where the server cut off a message
        simplefilter("ignore", ResourceWarning)
        del database
        gc.collect()
    doomed.stop()
    doomed.start()
    with Database(doomed.connection) as database:
        assert [one["state"] for one in database.traces()] == ["loading"]
        assert database.push_image(made) == "completed"
        assert_same(contents(doomed.connection), expected)
        database.drop("full")


class Broken(Database):
    """A database whose connections cannot be closed, as threads use them."""

    def close(self) -> None:
        super().close()
        raise BufferError("Existing exports of data: object cannot be re-sized")


@pytest.mark.parametrize("ended", [EndedBySignal(15), KeyboardInterrupt()], ids=repr)
def test_what_ends_the_work_comes_through_whatever_the_driver_says_of_it(ended: BaseException) -> None:
    def cut_off() -> None:
        try:
            raise ended
        finally:
            raise BufferError("Existing exports of data: object cannot be re-sized")

    known = Connection()
    with pytest.raises(type(ended)), Broken(known), errors_in_words(known):
        cut_off()
