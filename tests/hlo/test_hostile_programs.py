"""Programs that damage, or somebody, made larger, deeper or stranger than any: they cost no more than their bytes."""

from __future__ import annotations

from time import process_time

import pytest
from handmade_jax import F32, computation, dot_dims, instruction, packed, program, shape, tuple_of
from plain_xplane import block, number

from tracelens_graph.hlo.attributes import facts, kind_of
from tracelens_graph.hlo.collectives import collective_of
from tracelens_graph.hlo.facts import Facts, facts_of
from tracelens_graph.hlo.origin import Pass, origin_of
from tracelens_graph.hlo.program import Program, fingerprint
from tracelens_graph.hlo.shapes import LARGEST, ShortGroups
from tracelens_graph.hlo.work import Work, work
from tracelens_graph.loaders.xplane.hlo import read_program
from tracelens_graph.loaders.xplane.programs import instruction_arguments

pytestmark = pytest.mark.proof

SECONDS = 5
"""CPU time that a program may take: many times what it takes, and far below what the square of its size would."""


def read(*instructions: bytes, name: str = "jit_f") -> Program:
    proto = program(name, 2, computation(2, "main", 99, *instructions))
    return read_program(proto, 0, len(proto), 3)


def parameter(*dims: int, id: int = 1) -> bytes:
    return instruction(id, f"p{id}", "parameter", shape(F32, *dims))


@pytest.mark.parametrize("opcode", ["fusion", "call", "while", "conditional", "async-start", "reduce"])
def test_computations_nested_thousands_deep(opcode: str) -> None:
    depth = 5000
    bodies = [
        computation(100 + i, f"c{i}", i, instruction(i, f"i{i}", opcode, shape(F32, 4), [], calls=[101 + i]))
        for i in range(depth)
    ]
    end = computation(100 + depth, "end", depth, instruction(depth, "add.1", "add", shape(F32, 4)))
    proto = program("deep", 100, *bodies, end)
    found = read_program(proto, 0, len(proto), 3)
    before = process_time()
    told = [instruction_arguments(found, one) for one in found.instructions.values()]
    assert len(told) == depth + 1
    assert process_time() - before < SECONDS
    assert opcode == "reduce" or work(found, found.by_name["i0"]).flops == 4


@pytest.mark.parametrize("opcode", ["add", "sort", "all-reduce", "dot"])
def test_sizes_that_no_number_of_64_bits_holds(opcode: str) -> None:
    more = dot_dims([1], [0]) if opcode == "dot" else b""
    dims = [1 << 62] * 300
    found = read(parameter(*dims), instruction(99, "x.1", opcode, shape(F32, *dims), [1, 1], more=more))
    one = found.by_name["x.1"]
    assert max(work(found, one)) == LARGEST
    with pytest.raises(OverflowError):
        facts(found, one)


@pytest.mark.parametrize("told", ["Infinity", "1e999", "-1", "9" * 5000, "99999999999999999999999"])
def test_dimensions_in_a_config_that_are_none(told: str) -> None:
    config = f'{{"gemm_backend_config":{{"dot_dimension_numbers":{{"lhs_contracting_dimensions":[{told}]}}}}}}'
    more = block(28, "__cublas$gemm") + block(43, config)
    found = read(parameter(4, 8), instruction(99, "gemm.1", "custom-call", shape(F32, 4, 4), [1, 1], more=more))
    assert work(found, found.by_name["gemm.1"]).flops == 0
    assert facts(found, found.by_name["gemm.1"]).flops == 0


@pytest.mark.parametrize("value", ["9" * 6000, "-5"])
def test_sizes_of_attention_that_are_none(value: str) -> None:
    names = ("q_max_seqlen", "attn_heads", "kv_max_seqlen", "num_gqa_groups", "qk_head_dim", "v_head_dim")
    config = ", ".join(f"{name} = {value} : i64" for name in ("input_batch", *names)) + "a" * 200_000
    more = block(28, "te_fused_attn_forward_ffi") + block(43, config)
    before = process_time()
    found = read(parameter(4, 8), instruction(99, "a.1", "custom-call", shape(F32, 4), [1, 1, 1], more=more))
    assert work(found, found.by_name["a.1"]).flops == 0
    assert process_time() - before < SECONDS


def convolution(dims: int, size: int) -> bytes:
    """Dimensions and window of a convolution that moves along one dimension, many times."""
    same = packed(6, [0] * dims) + packed(11, [0] * dims) + packed(12, [0] * dims)
    window = b"".join(block(1, number(1, size) + number(3, i)) for i in range(dims))
    return block(16, number(3, 0) + number(4, 0) + same) + block(15, window)


def test_a_convolution_that_moves_along_one_dimension_many_times() -> None:
    found = read(
        parameter(1 << 20), parameter(1 << 40, id=2),
        instruction(99, "conv.1", "convolution", shape(F32, 1 << 20), [1, 2], more=convolution(2000, 1 << 16)),
    )  # fmt: skip
    before = process_time()
    assert facts(found, found.by_name["conv.1"]).kind == "convolution"
    assert work(found, found.by_name["conv.1"]).flops == 0
    assert process_time() - before < SECONDS


def test_groups_told_in_short() -> None:
    assert ShortGroups(2, 3, (6,)).groups() == ((0, 1, 2), (3, 4, 5))
    assert ShortGroups(3, 2, (2, 3), (1, 0)).groups() == ((0, 3), (1, 4), (2, 5))
    assert ShortGroups(3, 2, (2, 3), (1, 0)).groups(1) == ((0,),)
    assert ShortGroups(3, 2, (1, 2, *[1] * 100, 3), (102, *range(102))).groups() == ((0, 3), (1, 4), (2, 5))
    for damaged in (ShortGroups(2, 2, (5,)), ShortGroups(-1, -4, (4,)), ShortGroups(1 << 40, 1, (1 << 40,)),
                    ShortGroups(2, 2, (4,), (9,)), ShortGroups(0, 0, ())):  # fmt: skip
        assert damaged.groups() == ()


def test_groups_are_made_when_asked_for_and_shared() -> None:
    short = block(87, block(2, number(1, 1 << 17) + number(2, 1) + packed(3, [1 << 17])))
    many = [instruction(100 + i, f"ar.{i}", "all-reduce", shape(F32, 4), [1], more=short) for i in range(2000)]
    before = process_time()
    found = read(parameter(4), *many)
    known = [facts(found, found.by_name[f"ar.{i}"]) for i in range(200)]
    assert known[7].groups.startswith("{0}{1}{2}")
    of_one, of_other = (collective_of(found, found.by_name[name], 0) for name in ("ar.0", "ar.7"))
    assert of_one is not None
    assert of_other is not None
    assert of_one.groups is of_other.groups
    assert len(of_one.groups) == 1 << 17
    assert process_time() - before < SECONDS


def repeated_groups(count: int) -> bytes:
    return b"".join(block(49, packed(1, [i])) for i in range(count))


def repeated_pairs(count: int) -> bytes:
    return b"".join(block(52, number(1, i) + number(2, i + 1)) for i in range(count))


def repeated_dims(count: int) -> bytes:
    return block(30, number(1, 0) * count)


@pytest.mark.parametrize("repeated", [repeated_groups, repeated_pairs, repeated_dims])
def test_fields_that_are_repeated_take_the_time_of_their_bytes(repeated) -> None:  # type: ignore[no-untyped-def]
    before = process_time()
    found = read(parameter(4), instruction(99, "x.1", "dot", shape(F32, 4), [1, 1], more=repeated(100_000)))
    one = found.by_name["x.1"]
    assert len(one.replica_groups) + len(one.pairs) + len(one.dot.lhs_contracting if one.dot else ()) == 100_000
    assert process_time() - before < SECONDS


def test_operands_that_are_one_tuple_of_many_are_listed_in_part() -> None:
    parts = tuple_of(*[shape(F32, 4)] * 2000)
    found = read(instruction(1, "p", "parameter", parts), instruction(99, "t.1", "tuple", shape(F32, 4), [1] * 2000))
    before = process_time()
    (dims, types, _, _), known = instruction_arguments(found, found.by_name["t.1"])
    assert types.count("f32") == 4096
    assert len(dims) < 100_000
    assert facts_of(known).unlisted == 2000 * 2000 - 4096
    assert process_time() - before < SECONDS


def test_a_body_that_thousands_of_fusions_share() -> None:
    adds = [instruction(10_000 + i, f"a{i}", "add", shape(F32, 4)) for i in range(2000)]
    fusions = [instruction(i, f"f{i}", "fusion", shape(F32, 4), [], calls=[1]) for i in range(2, 2002)]
    proto = program("jit_f", 2, computation(1, "body", 10_000, *adds), computation(2, "main", 2, *fusions))
    found = read_program(proto, 0, len(proto), 3)
    before = process_time()
    for i in range(2, 2002):
        assert facts(found, found.by_name[f"f{i}"]) == Facts(
            "fusion(elementwise)", "f32[4]{0}", body="add", flops=8000, bytes=16
        )
    assert process_time() - before < SECONDS


@pytest.mark.parametrize("target", ["attn" * 50_000, "norm" * 50_000, "__cublas" * 20_000])
def test_long_targets(target: str) -> None:
    found = read(parameter(4), instruction(99, "c.1", "custom-call", shape(F32, 4), [1], more=block(28, target)))
    before = process_time()
    assert kind_of(found, found.by_name["c.1"]).startswith("custom-call(")
    assert process_time() - before < SECONDS


def test_long_names_of_programs_and_origins() -> None:
    before = process_time()
    fingerprint(read(parameter(4), name=".1" * 200_000 + "x"))
    assert fingerprint(read(parameter(4), name="jit_f.1.23")) == fingerprint(read(parameter(4)))
    assert fingerprint(read(parameter(4), name="jit_f.x")) != fingerprint(read(parameter(4)))
    assert origin_of("jvp(" * 100_000 + "a" + ")" * 100_000 + "/add").part is Pass.forward
    assert origin_of("transpose(jvp(a))/add").scopes == ("a",)
    assert process_time() - before < SECONDS


def test_work_of_nothing() -> None:
    found = read(instruction(99, "call.1", "call", shape(F32, 4), [], calls=[7]))
    assert work(found, found.by_name["call.1"]) == Work()
