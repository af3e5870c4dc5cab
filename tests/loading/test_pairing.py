"""Execution traces of a folder find the traces of their ranks, and only these."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from linked_pairs import Call, calls, execution_trace, kineto

import tracelens_graph as tlg
from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.ranks import COLUMNS
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.errors import IncompleteSetWarning
from tracelens_graph.loading.files import trace_files
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core
from tracelens_graph.loading.pairing import paired

PROGRAM = calls([f"op{place}" for place in range(30)])


def written(folder: Path, **documents: Any) -> list[str]:
    """Files of a folder, made if it is not there; `__` in a name stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name.replace('__', '.')}.json" for name in documents]
    for path, document in zip(paths, documents.values(), strict=True):
        path.write_text(json.dumps(document))
    return [str(path) for path in paths]


def named(found: Any) -> dict[str, str]:
    return {Path(trace).name: Path(et).name for trace, et in found.of_trace.items()}


def test_one_of_each_is_a_pair(tmp_path: Path) -> None:
    files = written(tmp_path, a=kineto(PROGRAM, pid=1), b=execution_trace(PROGRAM, pid=2))
    found = paired(files)
    assert (found.traces, named(found), found.notes) == (files[:1], {"a.json": "b.json"}, [])


def test_ranks_are_told_by_process_before_names(tmp_path: Path) -> None:
    traces = {f"rank{rank}": kineto(PROGRAM, pid=500 + rank) for rank in range(3)}
    ets = {f"et_rank{2 - rank}": execution_trace(PROGRAM, pid=500 + rank) for rank in range(3)}
    found = paired(written(tmp_path, **traces, **ets))
    assert named(found) == {f"rank{rank}.json": f"et_rank{2 - rank}.json" for rank in range(3)}


def test_ranks_are_told_by_names_where_processes_differ(tmp_path: Path) -> None:
    traces = {f"run_rank{rank}": kineto(PROGRAM, pid=500 + rank) for rank in range(3)}
    ets = {f"et_rank{rank}": execution_trace(PROGRAM, pid=700) for rank in (2, 0)}
    found = paired(written(tmp_path, **traces, **ets))
    assert named(found) == {"run_rank0.json": "et_rank0.json", "run_rank2.json": "et_rank2.json"}


def test_ranks_are_told_by_metadata(tmp_path: Path) -> None:
    of_rank = [{"distributedInfo": {"rank": rank, "world_size": 2}} for rank in range(2)]
    traces = {name: kineto(PROGRAM, pid=9, **job) for name, job in zip(("x", "y"), of_rank, strict=True)}
    ets = {f"et_rank{rank}": execution_trace(PROGRAM, pid=700) for rank in range(2)}
    assert named(paired(written(tmp_path, **traces, **ets))) == {"x.json": "et_rank0.json", "y.json": "et_rank1.json"}


def test_what_belongs_to_no_trace_is_said(tmp_path: Path) -> None:
    traces = {f"rank{rank}": kineto(PROGRAM, pid=500 + rank) for rank in range(2)}
    ets = {f"et_rank{rank}": execution_trace(PROGRAM, pid=500 + rank) for rank in range(3)}
    found = paired(written(tmp_path, **traces, **ets))
    assert len(found.of_trace) == 2
    assert found.notes == ["execution traces that belong to no trace: et_rank2.json"]


def test_a_set_is_linked(tmp_path: Path) -> None:
    traces = {f"rank{rank}": kineto(PROGRAM, pid=500 + rank) for rank in range(2)}
    ets = {f"rank{rank}__et": execution_trace(PROGRAM, pid=500 + rank) for rank in range(2)}
    files = written(tmp_path, **traces, **ets)
    for processes in (1, 2):
        found = load_core_set(files, processes=processes)
        assert [one.name for one in found] == ["rank0", "rank1"]
        assert found.linked == (
            "linked 2 traces with their execution traces: 100.0 % of the names are equal (Record function id = rf_id)"
        )
        for one in found:
            assert one.core.link is not None
            assert (one.core.link.row_of_node >= 0).sum() == len(PROGRAM)
            assert one.core.link.execution.names == load_core(files[2]).link.execution.names  # type: ignore[union-attr]


def test_a_pair_that_does_not_fit_is_loaded_without_link(tmp_path: Path) -> None:
    other = [Call(one.number, one.thread, f"x{one.number}") for one in PROGRAM]
    written(tmp_path, rank0=kineto(PROGRAM), rank1=kineto(PROGRAM, pid=501), et_rank0=execution_trace(other))
    said = r"rank0\.json and .*et_rank0\.json: not from one run.*loaded without"
    with pytest.warns(IncompleteSetWarning, match=said):
        found = tlg.load_set(tmp_path)
    assert [one.core.link for one in found] == [None, None]
    assert found.linked == ""


def test_lean_graphs_take_arguments_but_no_link(tmp_path: Path) -> None:
    made = [*PROGRAM, Call(31, 1, "record_param_comms")]
    et = execution_trace(made)
    values = [3, ["0", "default_pg"], 0, "allreduce", [], [], 0, 1, 4]
    types = ["Int", "Tuple[String,String]", "Int", "String", "GenericList[]", "GenericList[]", "Int", "Int", "Int"]
    et["nodes"][0]["inputs"] = {"values": values, "shapes": [[]] * 9, "types": types, "strides": [[]] * 9}
    files = written(tmp_path, a=kineto(made), b=kineto(PROGRAM, pid=7), a__et=et)
    found = load_core_set(files, columns=["thread"])
    lean = found[0].core
    assert lean.link is None
    (told,) = lean.collective_args.values()
    assert (told["kind"], told["group_size"]) == ("allreduce", 4)


def test_folders_beside_each_other(tmp_path: Path) -> None:
    ets = written(tmp_path / "execution-trace", rank0=execution_trace(PROGRAM), rank1=execution_trace(PROGRAM, pid=501))
    traces = written(tmp_path / "kineto", rank0=kineto(PROGRAM), rank1=kineto(PROGRAM, pid=501))
    assert trace_files([str(tmp_path)]) == [*ets, *traces]
    assert sorted(paired([*ets, *traces]).of_trace.items()) == sorted(zip(traces, ets, strict=True))


@needs_corpus
@pytest.mark.parametrize("lean", [False, True])
def test_real_ranks_have_bandwidths(lean: bool) -> None:
    assert CORPUS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tlg.load_set(CORPUS / "dlrm-8-ranks", columns=COLUMNS if lean else None)
    assert found.linked.startswith("linked 8 traces with their execution traces: 99.8 to 100.0 % of the names")
    table = Job(found, None, True, None).table("rank_collectives")
    told = sorted(zip(table["kind"], table["message_bytes"], table["busbw_gb_s"], strict=True))
    assert [(kind, size) for kind, size, _ in told] == [
        ("all_to_all", 192),
        ("all_to_allv", 1536),
        ("all_to_allv", 24576),
        ("all_to_allv", 24576),
        ("all_to_allv", 53248),
        ("allreduce", 448),
        ("allreduce", 907840),
        ("allreduce", 1576964),
    ]
    assert all(speed > 0 for *_, speed in told)
    # 2 (n - 1) / n of 1,576,964 bytes in 86 us, on eight ranks
    assert told[-1][2] == pytest.approx(1576964 / 86e3 * 1.75)
