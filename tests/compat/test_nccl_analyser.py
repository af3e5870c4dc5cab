"""NcclAnalyser as its users know it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from parity.cases import Ranks, parameters, ranks_of_jobs
from parity.comparing import compare
from rank_traces import collective

from tracelens_graph.compat import NcclAnalyser
from tracelens_graph.errors import TraceError
from tracelens_graph.loading.one import load_core
from tracelens_graph.tables.table import Table


def files(folder: Path, *ranks: list[dict[str, Any]]) -> list[Path]:
    """Files of the ranks, as TraceLens's examples name them."""
    found = [folder / f"rank{rank}_trace.json" for rank in range(len(ranks))]
    for path, events in zip(found, ranks, strict=True):
        path.write_text(json.dumps({"traceEvents": events}))
    return found


@pytest.mark.parametrize("job", parameters(ranks_of_jobs()))
def test_frames_are_tracelens_s(job: Ranks) -> None:
    paths = sorted(job.folder.with_name(job.name).glob("*.json"))
    analyser = NcclAnalyser(paths, len(paths), use_multiprocessing=True, max_workers=2)
    statistics = ["mean", "median", "min", "max"]
    frames = {
        "nccl_summary_implicit_sync": analyser.build_df_summary_nccl_implicit_sync_cat(agg_metrics=statistics),
        "nccl_summary_long": analyser.build_df_summary_long(),
        "nccl_summary_all2allv": analyser.build_df_summary_nccl_all2allv(agg_metrics=statistics),
        "nccl_all2allv_heatmap": analyser.build_df_all2allv_heatmap(),
        "nccl_long": analyser.build_df_long(),
        "nccl_implicit_sync": analyser.build_df_nccl_implicit_sync_cat(detailed=True),
        "nccl_all2allv": analyser.build_df_nccl_all2allv(detailed=True),
        "straggler_summary": analyser.build_df_straggler_summary(),
    }
    assert list(frames) == list(job.reference)
    for name, rows in job.reference.items():
        without_nodes = [{key: cell for key, cell in row.items() if not key.startswith("node_")} for row in rows]
        assert list(frames[name].columns) == list(without_nodes[0])
        found = compare(name, without_nodes, Table.from_pandas(frames[name], name), lambda *_: 1e-9)
        assert not found.differences


def test_what_is_not_detailed_has_no_columns_of_ranks(tmp_path: Path) -> None:
    ranks = [
        [collective(rank, 10), collective(50 + rank, 10, "all_to_allv", elements=2, split=[1, 1])] for rank in (0, 1)
    ]
    analyser = NcclAnalyser(files(tmp_path, *ranks), 2)
    short, long = (analyser.build_df_nccl_implicit_sync_cat(detailed=detailed) for detailed in (False, True))
    assert list(short.columns) == [name for name in long.columns if not name.startswith("rank_")]
    assert set(long.columns) - set(short.columns) == {
        f"rank_{rank}_{of}" for rank in (0, 1) for of in ("ts", "dur", "wait_time")
    }
    assert short["Process Group Ranks"].tolist() == ["[0, 1]"]
    assert not [name for name in analyser.build_df_nccl_all2allv().columns if name.startswith("rank_")]
    assert "comm_latency_std" in analyser.build_df_summary_nccl_implicit_sync_cat()


def test_ranks_are_places_in_the_list() -> None:
    said = [{"distributedInfo": {"rank": rank, "world_size": 8}, "traceEvents": [collective(9, 1)]} for rank in (5, 4)]
    assert NcclAnalyser(map(load_core, said)).build_df_long()["rank"].tolist() == [0, 1]
    assert NcclAnalyser(said, world_size=2).build_df_long()["rank"].tolist() == [0, 1]


def test_nothing_is_left_out(tmp_path: Path) -> None:
    """A file that is not a trace would make the next one's rank smaller."""
    paths = files(tmp_path, [collective(0, 10)], [collective(0, 10)], [collective(0, 10)])
    paths[1].write_text('{"some": "thing"}')
    with pytest.raises(TraceError, match="rank1_trace.json"):
        NcclAnalyser(paths, 3)
    with pytest.raises(TraceError, match="rank7.json"):
        NcclAnalyser([paths[0], tmp_path / "rank7.json"], 2)


def test_without_collectives(tmp_path: Path) -> None:
    analyser = NcclAnalyser(files(tmp_path, []), 1)
    frames = [
        analyser.build_df_long(), analyser.build_df_summary_long(), analyser.build_df_nccl_implicit_sync_cat(),
        analyser.build_df_summary_nccl_implicit_sync_cat(), analyser.build_df_nccl_all2allv(),
        analyser.build_df_summary_nccl_all2allv(), analyser.build_df_all2allv_heatmap(),
        analyser.build_df_straggler_summary(),
    ]  # fmt: skip
    assert all(isinstance(frame, pd.DataFrame) and frame.empty for frame in frames)
