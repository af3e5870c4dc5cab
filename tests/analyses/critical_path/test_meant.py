"""Which collectives a change of bandwidth means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tracelens_graph.analyses.critical_path.meant import meant_by
from tracelens_graph.graph.collectives import Collective

ALL = Collective(
    key="", group="3", group_description="mesh_tp", ranks=(4, 5, 6, 7), group_size=4, kind="allreduce", sequence=1,
    index=0, dtype=None, in_elements=None, out_elements=None, in_split=None, out_split=None, source_rank=None,
    target_rank=None, rank=4, rows=(), uids=(), start_ns=0, end_ns=1, on_host=False,
)  # fmt: skip
SEND = replace(ALL, group="5", group_description=None, kind="send", ranks=(0, 2, 4, 6), source_rank=2, target_rank=4)
PLACES = {"host": {rank: rank // 4 for rank in range(8)}, "switch": {rank: rank // 3 for rank in range(8)}}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("all", "both"), ("mesh_tp", "all"), ("3", "all"), ("send", "send"), ("2->4", "send"), ("4->2", ""),
        ("2,4", "send"), ("4-7", "all"), ("4,5,6-7", "all"), ("4-6", ""), ("2", ""), ("rank4", "both"),
        ("rank2", "send"), ("rank7", "all"), ("host0", "send"), ("host1", "send"), ("host0->", "send"), ("->host0", ""),
        ("->host1", "send"), ("rank4->", ""), ("->rank4", "send"), ("host9", ""),
        ("switch0", "send"), ("switch1", "both"), ("switch2", "all"), ("->switch1", "send"),
    ],
)  # fmt: skip
def test_a_name_means(name: str, meant: str) -> None:
    is_meant = meant_by(name, PLACES)
    assert (is_meant(ALL), is_meant(SEND)) == (meant in ("all", "both"), meant in ("send", "both"))
