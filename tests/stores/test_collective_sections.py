"""Arguments of collectives in a saved graph: long values stand once, and come back as they were."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.errors import TraceError
from tracelens_graph.stores.parts import read_collectives, write_collectives
from tracelens_graph.stores.sections import Sections, SectionWriter


def file_with(arguments: dict[int, dict[str, Any]]) -> bytes:
    file = BytesIO()
    writer = SectionWriter(file)
    write_collectives(writer, arguments)
    writer.finish({})
    return file.getvalue()


VALUES = st.one_of(
    st.none(), st.integers(), st.text(max_size=40), st.lists(st.integers(), max_size=40),
    st.lists(st.lists(st.integers(), max_size=3), min_size=30, max_size=34),
)  # fmt: skip


@given(st.dictionaries(st.integers(0, 2**40), st.dictionaries(st.text(max_size=5), VALUES, max_size=4), max_size=5))
def test_arguments_come_back_in_their_order(arguments: dict[int, dict[str, Any]]) -> None:
    found = read_collectives(Sections(file_with(arguments), "saved"))
    assert found == arguments
    assert [list(args) for args in found.values()] == [list(args) for args in arguments.values()]


def test_members_of_a_group_stand_once() -> None:
    members = list(range(100_000))
    arguments: dict[int, dict[str, Any]]
    arguments = {
        uid: {"ranks": members, "sequence": uid, "equal": list(members), "groups": [members]} for uid in range(40)
    }
    file = file_with(arguments)
    assert len(file) < 1_400_000
    found = read_collectives(Sections(file, "saved"))
    assert found == arguments
    assert found[0]["ranks"] is found[39]["ranks"] is found[1]["equal"]


@pytest.mark.parametrize(
    "bad",
    [
        {"values": [], "events": [[-1, {}, {}]]},
        {"values": [], "events": [[2**63, {}, {}]]},
        {"values": [1], "events": [[1, {}, {"ranks": 1}]]},
        {"values": [1], "events": [[1, {}, {"ranks": -1}]]},
        {"events": []},
        [],
    ],
)  # fmt: skip
def test_what_was_not_written_so_is_damaged(bad: Any) -> None:
    file = BytesIO()
    writer = SectionWriter(file)
    writer.json("collectives", bad)
    writer.finish({})
    with pytest.raises(TraceError, match="damaged"):
        read_collectives(Sections(file.getvalue(), "saved"))
