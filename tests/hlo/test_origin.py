"""Scopes, pass and primitive out of the names that JAX gives instructions."""

from __future__ import annotations

import pytest

from tracelens_graph.hlo.origin import Pass, origin_of


@pytest.mark.parametrize(
    ("op_name", "scopes", "part", "primitive"),
    [
        ("jit(f)/mlp/dot_general", ("mlp",), Pass.forward, "dot_general"),
        ("jit(f)/jvp(mlp)/dot_general", ("mlp",), Pass.forward, "dot_general"),
        ("jit(f)/transpose(jvp(mlp))/dot_general", ("mlp",), Pass.backward, "dot_general"),
        ("jit(f)/vmap(jvp(a))/b/add", ("a", "b"), Pass.forward, "add"),
        ("jit(f)/transpose(jvp(a))/jvp(a)/checkpoint/b/mul", ("a", "b"), Pass.backward, "mul"),
        ("jit(f)/transpose(jvp(a))/jvp(a)/checkpoint/rematted_computation/b/mul", ("a", "b"), Pass.recompute, "mul"),
        ("jit(f)/while/body/closed_call/a/add", ("a",), Pass.forward, "add"),
        ("jit(f)/cond/branch_1_fun/a/add", ("a",), Pass.forward, "add"),
        ("jit(f)/jvp(bsd,de->bse)/dot_general", (), Pass.forward, "dot_general"),
        ("jit(f)/transpose(jvp())/mul;jit(f)/x/broadcast", (), Pass.backward, "mul"),
        ("jit(f)/jit(_normal)/add", (), Pass.forward, "add"),
        ("jit(f)/a/a/add", ("a",), Pass.forward, "add"),
        ("w['a/b']", (), Pass.forward, ""),
        ("", (), Pass.forward, ""),
    ],
)
def test_origins(op_name: str, scopes: tuple[str, ...], part: Pass, primitive: str) -> None:
    assert origin_of(op_name) == (scopes, part, primitive)


def test_a_name_of_many_parts_is_read_in_part() -> None:
    assert len(origin_of("/".join(f"s{i}" for i in range(10_000))).scopes) < 100
