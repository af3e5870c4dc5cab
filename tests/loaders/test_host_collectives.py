"""What spans of collectives on the host tell: kind, type and number of elements."""

from __future__ import annotations

from msgspec import Raw

from tracelens_graph.loaders.kineto.records import arguments, is_host_collective


def test_what_is_one() -> None:
    names = ["gloo:all_reduce", "mpi:broadcast", "nccl:all_reduce", "gloo", "my gloo:all_reduce", ""]
    assert [is_host_collective(name) for name in names] == [True, True, False, False, False, False]


def test_what_it_tells() -> None:
    text = b'{"tid": 12, "args": {"Input Dims": [[2, 3], []], "Input type": ["long int", "float"]}}'
    found = {key: value for key, value in arguments("gloo:scatter", Raw(text)).items() if value is not None}
    assert found == {"kind": "scatter", "dtype": "long int", "in_elements": 7, "thread": 12}


def test_what_cannot_be_read_is_left_out() -> None:
    deep = b'{"args": {"Input Dims": ' + b"[" * 5000 + b"]" * 5000 + b"}}"
    for event in (b'{"args": 5}', b'{"args": {"Input Dims": [[1], "x"]}}', b"{", deep, b'{"name": "gloo:reduce"}'):
        found = arguments("gloo:reduce", Raw(event))
        assert {key: value for key, value in found.items() if value is not None} == {"kind": "reduce"}
