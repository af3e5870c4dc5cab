"""Collectives of XLA's programs: hand-made profiles of several devices, hosts and processors with known answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from time import process_time
from typing import Any

import plain_xplane as plain
import pytest
from handmade_jax import BF16, F32, S32, computation, instruction, packed, program, shape, tuple_of
from plain_xplane import Plane, block, number

from corpus import CHECKOUT
from tracelens_graph.analyses.ranks.job import Job, rank_tables
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.hlo.collectives import collective_of
from tracelens_graph.loaders.xplane import collectives as module
from tracelens_graph.loaders.xplane.hlo import read_program
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.graph_file import read_graph, write_graph

US = 1_000_000
"""Picoseconds in a microsecond."""


def groups(*some: list[int]) -> bytes:
    """Replica groups as programs list them now."""
    return block(87, b"".join(block(1, packed(1, one)) for one in some))


def old_groups(*some: list[int]) -> bytes:
    return b"".join(block(49, packed(1, one)) for one in some)


def iota(rows: int, width: int, dims: list[int], order: list[int]) -> bytes:
    return block(87, block(2, number(1, rows) + number(2, width) + packed(3, dims) + packed(4, order)))


def pairs(*some: tuple[int, int]) -> bytes:
    return b"".join(block(52, (number(1, a) if a else b"") + (number(2, b) if b else b"")) for a, b in some)


def one_of(opcode: str, more: bytes, *operands: bytes, of: bytes | None = None, devices: bytes = b"") -> bytes:
    inputs = [instruction(10 + at, f"p{at}", "parameter", one) for at, one in enumerate(operands)]
    root = instruction(99, "it", opcode, of or operands[0], [10 + at for at in range(len(operands))], more=more)
    return program("jit_f", 1, computation(1, "main", 99, *inputs, root)) if not devices else block(
        1, block(1, "jit_f") + block(3, computation(1, "main", 99, *inputs, root)) + number(6, 1) + devices
    )  # fmt: skip


X, Y = shape(F32, 4, 8), shape(F32, 8, 8)

KNOWN: dict[str, tuple[bytes, tuple[Any, ...]]] = {
    "all-reduce": (
        one_of("all-reduce", groups([0, 1], [2, 3]), X),
        ("allreduce", "float32", 32, 32, ((0, 1), (2, 3))),
    ),
    "several operands": (
        one_of("all-reduce-start", groups([0, 1]), X, Y, of=tuple_of(X, Y)),
        ("allreduce", "float32", 96, 96, ((0, 1),)),
    ),
    "of two types": (
        one_of("all-reduce", groups([0, 1]), X, shape(BF16, 4, 8), of=tuple_of(X, shape(BF16, 4, 8))),
        ("allreduce", "uint8", 192, 192, ((0, 1),)),
    ),
    "old groups": (
        one_of("all-gather-start", old_groups([0, 2], [1, 3]), X, of=tuple_of(X, Y)),
        ("all_gather", "float32", 32, 64, ((0, 2), (1, 3))),
    ),
    "groups in short": (
        one_of("reduce-scatter", iota(2, 2, [2, 2], [1, 0]), Y, of=X),
        ("reduce_scatter", "float32", 64, 32, ((0, 2), (1, 3))),
    ),
    "groups in short that are damaged": (
        one_of("reduce-scatter", iota(2, 2, [3, 2], [1, 0]), Y, of=X),
        ("reduce_scatter", "float32", 64, 16, ()),
    ),
    "permutation": (
        one_of("collective-permute", pairs((0, 2), (2, 0), (1, 3)), shape(BF16, 4)),
        ("send_recv", "bfloat16", 4, 4, ((0, 2), (1, 3))),
    ),
    "no groups": (one_of("all-to-all", b"", X), ("all_to_all", "float32", 32, 32, ())),
    "broadcast": (
        one_of("collective-broadcast", groups([1, 0]), X),
        ("broadcast", "float32", 32, 32, ((1, 0),)),
    ),
    "ragged": (
        one_of("ragged-all-to-all", groups([0, 1]), X, Y, *[shape(S32, 2)] * 4),
        ("all_to_allv", None, None, None, ((0, 1),)),
    ),
}


@pytest.mark.parametrize("what", KNOWN)
def test_what_an_instruction_moves_and_between_whom(what: str) -> None:
    proto, expected = KNOWN[what]
    found = read_program(proto, 0, len(proto), 1)
    assert collective_of(found, found.by_name["it"], 4) == expected


def test_what_runs_on_its_own_is_found_in_its_body() -> None:
    body = computation(
        2, "async", 22, instruction(21, "q", "parameter", Y),
        instruction(22, "rs", "reduce-scatter", X, [21], more=groups([0, 1])),
    )  # fmt: skip
    proto = program(
        "jit_f", 1, body,
        computation(1, "main", 32, instruction(31, "p", "parameter", Y),
                    instruction(32, "start", "async-start", tuple_of(Y, X), [31], calls=[2])),
    )  # fmt: skip
    found = read_program(proto, 0, len(proto), 1)
    assert collective_of(found, found.by_name["start"], 4) == ("reduce_scatter", "float32", 64, 32, ((0, 1),))
    assert collective_of(found, found.by_name["p"], 4) is None


# --- devices of one host ----------------------------------------------------------------------------------------------


def gpu_profile(
    proto: bytes, parts: dict[int, list[tuple[int, int]]], *, of_jobs_devices: int = 0, start: int = 10**18
) -> bytes:
    """A profile in which devices ran the instruction `it` from and for so many us, each after 1 us of another kernel.

    Args:
        proto: the program.
        parts: device -> start and duration of each run.
        of_jobs_devices: how many devices are listed.
        start: absolute start, ns.
    """
    programs = Plane("/host:metadata")
    programs.program(3, "jit_f(3)", proto)
    host = Plane("/host:CPU")
    launches, planes, id = [], [], 0
    for device in range(max(of_jobs_devices, len(parts))):
        plane = Plane(f"/device:GPU:{device}")
        events = []
        for begin, length in parts.get(device, []):
            for name, at, took, hlo in (("fusion", begin - 2, 1, "&p0"), ("ncclDevKernel_X", begin, length, "&it")):
                id += 1
                launches.append((at, host.event("cudaLaunchKernel", (at - 1) * US, US // 2, correlation_id=id)))
                events.append(
                    plane.event(name, at * US, took * US, correlation_id=id, hlo_op=hlo, program_id=3)
                )  # fmt: skip
        plane.line(7, "Stream #7", 0, *events)
        planes.append(plane)
    launches.sort()
    host.line(1, "python", 0, *(event for _, event in launches))
    task = Plane("Task Environment")
    task.stats.append(task.stat("profile_start_time", start))
    return plain.written(programs, host, *planes, task)


ALL_REDUCE = one_of("all-reduce", groups([0, 1]), X)


def nodes(ranks: TraceSet) -> list[list[Collective]]:
    return [one.core.collectives.nodes for one in ranks]


def test_devices_of_a_host_are_ranks() -> None:
    core = load_core(gpu_profile(ALL_REDUCE, {0: [(100, 50), (300, 20)], 1: [(130, 20), (300, 20)]}))
    assert [node.kind for node in core.collectives.nodes] == ["allreduce"] * 4
    ranks = TraceSet.of(core).by_device()
    assert [(one.name, one.rank, one.core.info.world_size) for one in ranks] == [("device0", 0, 2), ("device1", 1, 2)]
    assert [[(n.ranks, n.sequence, n.in_bytes) for n in of] for of in nodes(ranks)] == [
        [((0, 1), 0, 128), ((0, 1), 1, 128)]
    ] * 2
    assert len({one.core.trace_id for one in ranks}) == 2
    for one in ranks:
        c = one.core.columns
        assert set(c.device[one.core.gpu_rows].tolist()) == {one.rank}
        assert len(one.core.gpu_rows) == 4
        assert all(c.parent[row] >= 0 and c.last[c.parent[row]] == row for row in one.core.gpu_rows.tolist())
        assert {one.core.names[c.name[c.owner[row]]] for row in one.core.gpu_rows.tolist()} == {"p0", "it"}


def test_waits_and_bandwidths_of_devices() -> None:
    """Device 1 comes 30 us late to the first, so that device 0 waits; the message is 128 bytes in 20 us."""
    core = load_core(gpu_profile(ALL_REDUCE, {0: [(100, 50), (300, 20)], 1: [(130, 20), (300, 20)]}))
    first = rank_tables(core)["rank_collectives"].records()[0]
    assert (first["kind"], first["ranks"], first["last_rank"]) == ("allreduce", 2, 1)
    assert first["start_skew_us"] == first["wait_us"] == pytest.approx(30)
    assert (first["latency_us"], first["message_bytes"]) == (pytest.approx(20), 128)
    assert first["busbw_gb_s"] == pytest.approx(128 / 20_000, rel=1e-2)


def test_without_numbered_runs_a_device_that_ran_more_has_no_numbers() -> None:
    core = load_core(gpu_profile(ALL_REDUCE, {0: [(100, 20)], 1: [(100, 20), (300, 20)]}))
    assert {node.sequence for node in core.collectives.nodes} == {None}
    job = Job(TraceSet.of(core).by_device())
    assert len(job.matched) == 1
    assert len(job.table("unmatched_collectives")) == 1


# --- several hosts ----------------------------------------------------------------------------------------------------


def test_hosts_of_a_job_share_its_ranks() -> None:
    """Two hosts of two devices; groups over hosts, as the program names them."""
    proto = one_of("all-reduce", groups([0, 2], [1, 3]), X)
    hosts = [
        load_core(gpu_profile(proto, {0: [(100, 50)], 1: [(110, 30)]}, start=10**18 + host * 40_000)) for host in (0, 1)
    ]
    assert all(node.ranks is None for core in hosts for node in core.collectives.nodes)
    ranks = TraceSet.of({"a": hosts[0], "b": hosts[1]}).by_device()
    assert [(one.name, one.rank) for one in ranks] == [
        ("a-device0", 0),
        ("a-device1", 1),
        ("b-device0", 2),
        ("b-device1", 3),
    ]
    assert [[n.ranks for n in of] for of in nodes(ranks)] == [[(0, 2)], [(1, 3)], [(0, 2)], [(1, 3)]]
    assert ranks.notes == ()
    assert len(Job(ranks).matched) == 2


def test_hosts_that_are_missing_are_said() -> None:
    proto = one_of("all-reduce", groups([0, 1, 2, 3]), X)
    ranks = TraceSet.of(load_core(gpu_profile(proto, {0: [(100, 50)], 1: [(110, 30)]}))).by_device()
    assert ranks.notes == ("ranks 2, 3 are missing: the job has 4",)


def test_a_device_assignment_tells_who_is_meant() -> None:
    """Place 0 of the program is device 1."""
    assignment = block(15, number(1, 1) + number(2, 2) + block(3, packed(1, [1])) + block(3, packed(1, [0])))
    proto = one_of("collective-permute", pairs((0, 0)), X, devices=assignment)
    core = load_core(gpu_profile(proto, {0: [(100, 50)], 1: [(110, 30)]}))
    assert sorted((node.ranks or (), core.columns.device[node.rows[0]]) for node in core.collectives.nodes) == [
        ((), 0), ((1,), 1),
    ]  # fmt: skip


# --- processors -------------------------------------------------------------------------------------------------------


def test_instructions_of_processors_are_collectives_on_the_host() -> None:
    programs, host = Plane("/host:metadata"), Plane("/host:CPU")
    programs.program(3, "jit_f(3)", ALL_REDUCE)
    for device in (0, 1):
        events = [
            host.event("it", (100 + 20 * device + 500 * run) * US, (60 - 20 * device) * US, hlo_op="&it", program_id=3,
                       device_ordinal=device, run_id=-7 + run)
            for run in range(2)
        ]  # fmt: skip
        host.line(1 + device, f"tf_XLAPjRtCpuClient/{device}", 0, *events)
    core = load_core(plain.written(programs, host))
    assert all(node.on_host for node in core.collectives.nodes)
    ranks = TraceSet.of(core).by_device()
    assert [[(n.ranks, n.sequence) for n in of] for of in nodes(ranks)] == [[((0, 1), 0), ((0, 1), 1)]] * 2
    assert len(Job(ranks).matched) == 2


def test_collectives_of_a_recording_meet_on_its_four_devices() -> None:
    """A mesh of two by two: five collectives of each pair, and one of all four, in each of three steps."""
    core = load_core(CHECKOUT / "examples/traces/four-devices-jax-cpu.xplane.pb.gz")
    ranks = TraceSet.of(core).by_device()
    assert [len(of) for of in nodes(ranks)] == [18] * 4
    job = Job(ranks)
    rows = job.table("rank_collectives").records()
    assert Counter((row["kind"], row["ranks"], row["message_bytes"]) for row in rows) == {
        ("allreduce", 2, 1024): 6,
        ("all_gather", 2, 2048): 6,
        ("reduce_scatter", 2, 2048): 6,
        ("send_recv", 2, 1024): 6,
        ("all_to_all", 2, 1024): 6,
        ("allreduce", 4, 4): 3,
    }
    assert {row["group"] for row in rows} == {"{0,1},{2,3}", "{0,2},{1,3}", "{0,1,2,3}"}
    assert Counter(row["step"] for row in rows) == {0: 11, 1: 11, 2: 11}
    assert not len(job.table("unmatched_collectives"))
    assert all(row["wait_us"] >= 0 for row in rows)


def many_at_once(count: int, proto: bytes, names: list[str]) -> bytes:
    """Instructions of a program, one after the other on one GPU, over and over."""
    programs, gpu = Plane("/host:metadata"), Plane("/device:GPU:0")
    programs.program(3, "jit_f(3)", proto)
    told = [{"hlo_op": f"&{name}", "program_id": 3} for name in names]
    kernels = [
        gpu.event("ncclDevKernel_AllReduce", i * US, US, correlation_id=1 + i, **told[i % len(told)])
        for i in range(count)
    ]
    gpu.line(1, "Stream #1", 0, *kernels)
    return plain.written(programs, gpu)


def test_executions_share_the_groups_of_their_instruction(tmp_path: Path) -> None:
    proto = one_of("all-reduce", iota(1, 1 << 17, [1 << 17], [0]), X)
    before = process_time()
    core = load_core(many_at_once(2000, proto, ["it"]))
    assert [one.group_size for one in core.collectives.nodes] == [1 << 17] * 2000
    write_graph(core, tmp_path / "saved.tlg")
    assert (tmp_path / "saved.tlg").stat().st_size < 3_000_000
    again = read_graph(tmp_path / "saved.tlg")
    assert [one.group_size for one in again.collectives.nodes] == [1 << 17] * 2000
    assert len({id(args["groups"]) for args in again.collective_args.values()}) == 1
    assert process_time() - before < 10


def test_groups_of_more_members_than_any_job_has_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_MEMBERS", 200)
    names = [f"ar.{i}" for i in range(6)]
    listed = [
        instruction(100 + i, name, "all-reduce", X, [1], more=iota(64 >> i, 1 << i, [64], [0]))
        for i, name in enumerate(names)
    ]
    proto = program("jit_f", 1, computation(1, "main", 1, instruction(1, "p", "parameter", X), *listed))
    core = load_core(many_at_once(12, proto, names))
    assert core.info.repairs == {
        "instructions about which their program says nothing sound, such as ar.4 of jit_f(3)": 2
    }
    assert len(core.collectives.nodes) == 8
