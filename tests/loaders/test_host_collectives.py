"""What spans of collectives on the host tell: kind, type and number of elements."""

from __future__ import annotations

from msgspec import Raw

from tracelens_graph.loaders.kineto.host_collectives import arguments, is_host_collective


def test_what_is_one() -> None:
    names = ["gloo:all_reduce", "mpi:broadcast", "nccl:all_reduce", "gloo", "my gloo:all_reduce", ""]
    assert [is_host_collective(name) for name in names] == [True, True, False, False, False, False]


def test_what_it_tells() -> None:
    found = arguments(
        "gloo:scatter", Raw(b'{"args": {"Input Dims": [[2, 3], []], "Input type": ["long int", "float"]}}')
    )
    assert (found.kind, found.dtype, found.in_elements) == ("scatter", "long int", 7)
    assert (found.group, found.ranks, found.out_elements) == (None, None, None)


def test_what_cannot_be_read_is_left_out() -> None:
    deep = b'{"args": {"Input Dims": ' + b"[" * 5000 + b"]" * 5000 + b"}}"
    for event in (b'{"args": 5}', b'{"args": {"Input Dims": [[1], "x"]}}', b"{", deep, b'{"name": "gloo:reduce"}'):
        found = arguments("gloo:reduce", Raw(event))
        assert (found.kind, found.in_elements, found.dtype) == ("reduce", None, None)
