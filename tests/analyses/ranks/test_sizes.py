"""Message sizes, factors and bandwidths, against numbers worked out by hand."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.ranks.sizes import (
    RULES,
    Messages,
    bus_factors,
    gb_per_s,
    message_bytes,
    rule_of,
)
from tracelens_graph.graph.collective_kinds import KIND_NAMES, UNKNOWN
from tracelens_graph.graph.collectives import Collective

MIB = 2**20


def collective(kind: str, elements: tuple[int | None, int | None], size: int | None = 8, **more: Any) -> Collective:
    plain: dict[str, Any] = {
        "key": "coll:0:-:1", "group": "0", "group_description": None, "ranks": None, "group_size": size, "kind": kind,
        "sequence": 1, "index": 0, "dtype": "Float", "in_elements": elements[0], "out_elements": elements[1],
        "in_split": None, "out_split": None, "source_rank": None, "target_rank": None, "rank": 0, "rows": (0,),
        "uids": (0,), "start_ns": 0, "end_ns": 1000,
    }  # fmt: skip
    return Collective(**plain | more)


@pytest.mark.parametrize(
    ("kind", "into", "out", "message", "algorithm", "bus"),
    [
        # 8 ranks, 100 us. 64 MiB: 67,108,864 B / 100,000 ns = 671.08864 GB/s.
        ("allreduce", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864 * 2 * 7 / 8),
        ("allreduce_coalesced", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 1174.40512),
        ("_allgather_base", 8 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("allgather_into_tensor_coalesced", 8 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("_reduce_scatter_base", 64 * MIB, 8 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("reduce_scatter_tensor_coalesced", 64 * MIB, 8 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("all_to_all", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("all_to_allv", 16 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("gather", 8 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("scatter", 64 * MIB, 8 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("broadcast", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("_broadcast_oop", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("reduce", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("send", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("recv", nan, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("recvAnySource", nan, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("send_recv", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        # What is not known stays so: the other side of a reduce-scatter is another size.
        ("_reduce_scatter_base", nan, 8 * MIB, nan, nan, nan),
        ("_allgather_base", 8 * MIB, nan, nan, nan, nan),
        ("barrier", 4, 4, nan, nan, nan),
        (UNKNOWN, 4, 4, nan, nan, nan),
    ],
)
def test_by_hand(kind: str, into: float, out: float, message: float, algorithm: float, bus: float) -> None:
    ns = np.array([100_000])
    size = message_bytes([kind], np.array([into]), np.array([out]))
    found = size, gb_per_s(size, ns), gb_per_s(size, ns) * bus_factors([kind], np.array([8]))
    assert [one[0] for one in found] == pytest.approx([message, algorithm, bus], nan_ok=True)


def test_of_collectives_as_recorded() -> None:
    nodes = [
        collective("allreduce", (250_000, 250_000), 4),  # 1 MB of floats
        collective("_allgather_base", (500, 1000), 2, dtype="BFloat16"),
        collective("_allgather_base", (512, 4096), 8, dtype="Float8_e4m3fn"),
        collective("allreduce", (512, 512), 2, dtype="Float4_e2m1fn_x2"),
        collective("allreduce", (512, 512), None, ranks=(3, 5)),
        collective("allreduce", (512, 512), None),
        collective("allreduce", (512, 512), 2, dtype="Quaternion"),
        collective("allreduce", (None, None), 2),
        collective("allreduce", (512, 512), 1),
    ]
    found = Messages.of(nodes)
    np.testing.assert_array_equal(found.size, [1e6, 2000, 4096, 512, 2048, 2048, nan, nan, 2048])
    np.testing.assert_allclose(found.factor, [1.5, 0.5, 7 / 8, 1, 1, nan, 1, 1, 0])
    # 1 MB in 10 us are 100 GB/s.
    ns = np.full(len(nodes), 10_000)
    assert found.algorithm_bandwidth(ns)[0] == 100
    assert found.bus_bandwidth(ns)[0] == 150
    assert np.isnan(found.algorithm_bandwidth(np.zeros(len(nodes)))).all()


def test_nothing_is_known_of_no_collective() -> None:
    assert [len(column) for column in Messages.of([])] == [0, 0, 0, 0]


def test_every_kind_has_a_rule_but_the_barrier() -> None:
    kinds = set(KIND_NAMES.values())
    assert kinds - RULES.keys() == {"barrier"}
    assert kinds >= RULES.keys()
    assert {kind for kind in kinds if rule_of(kind) is RULES.get(kind)} == kinds


@given(st.sampled_from(sorted(RULES)), st.integers(1, 10**12), st.integers(2, 4096))
def test_bus_bandwidth_lies_between_half_and_twice_the_algorithm_bandwidth(kind: str, size: int, ranks: int) -> None:
    [factor] = bus_factors([kind], np.array([ranks]))
    assert 0.5 <= factor < 2
    assert message_bytes([kind], np.array([size]), np.array([size])) == [size]
