"""Reports of Nsight Systems: hand-made databases of several versions, damaged ones, and recorded ones."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nsys_reports import CALL, COPY, KERNEL, PID, RANGE, SECOND, TABLES, TEXTS, TID, Rows, report

import tracelens_graph as tlg
from corpus import needs_corpus
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.errors import DamagedTraceWarning, NotATraceError, TraceError
from tracelens_graph.loaders import reports
from tracelens_graph.loaders.ranges import range_event
from tracelens_graph.loading.fused import with_ranks_apart
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind


def test_a_report_becomes_the_graph_of_its_events(tmp_path: Path) -> None:
    g = tlg.load(report(tmp_path, TABLES, TEXTS))
    by_name = {data["name"]: (node, data) for node, data in g.nodes(data=True)}
    uid, kernel = by_name["void gemm<float>(int)"]
    assert (kernel["dur_ns"], kernel["stream"], kernel["device"], kernel["pid"]) == (500_001, 7, 0, 0)
    assert g.node(uid).args["grid"] == [4, 2, 1]
    assert by_name["Memcpy HtoD (Pageable -> Device)"][1]["bytes"] == 4096
    uid, op = by_name["aten::mm"]
    assert (op["sequence"], op["Input Dims"], op["pid"], op["tid"]) == (5, [[2, 3], [3, 4]], PID, TID)
    assert by_name["pthread_cond_wait"][1]["dur_ns"] == 800_000
    launch = by_name["cudaLaunchKernel"][0]
    assert launch in g[uid]
    assert by_name["void gemm<float>(int)"][0] in g[launch]
    assert by_name["ProfilerStep#3"][1]["kind"] == "Step"
    assert g.info.start_epoch_ns == 1_700_000_000_000_000_000 - 500 + 900_000
    assert g.info.left_out == {"category range without an end": 1}
    assert g.framework.profiler == "Nsight Systems"


def test_columns_that_a_version_lacks_are_not_missed(tmp_path: Path) -> None:
    needed = {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "shortName"}
    kernel = {key: value for key, value in KERNEL.items() if key in needed}
    copy = {key: value for key, value in COPY.items() if key not in ("srcKind", "dstKind")}
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel], "CUPTI_ACTIVITY_KIND_MEMCPY": [copy]}
    g = tlg.load(report(tmp_path, tables, TEXTS))
    assert sorted(data["name"] for _, data in g.nodes(data=True)) == ["Memcpy HtoD", "void gemm<float>(int)"]


@pytest.mark.parametrize("start", [None, -5, "abc", b"abc"])
def test_a_row_without_a_time_counts_as_lost(start: Any, tmp_path: Path) -> None:
    file = report(tmp_path, TABLES | {"CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL, KERNEL | {"start": start}]}, TEXTS)
    with pytest.warns(DamagedTraceWarning, match="entries lost: 1"):
        g = tlg.load(file)
    assert [data["dur_ns"] for _, data in g.nodes(data=True) if data["kind"] == "Kernel"] == [500_001]
    assert g.info.left_out["unreadable"] == 1


@pytest.mark.parametrize("column", ["start", "end", "streamId"])
def test_kernels_that_cannot_be_read_are_an_error_that_counts_them(column: str, tmp_path: Path) -> None:
    kernel = {key: value for key, value in KERNEL.items() if key != column}
    with pytest.raises(TraceError, match=f"CUPTI_ACTIVITY_KIND_KERNEL holds 2 kernels without {column}"):
        tlg.load(report(tmp_path, TABLES | {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel, kernel]}, TEXTS))


def test_kernels_in_a_view_are_an_error(tmp_path: Path) -> None:
    file = report(tmp_path, TABLES, TEXTS)
    with sqlite3.connect(file) as connection:
        connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO other")
        connection.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM other")
    connection.close()
    with pytest.raises(TraceError, match="is a view"):
        tlg.load(file)


def test_rows_that_cannot_be_read_count_as_lost(tmp_path: Path) -> None:
    copy = {key: value for key, value in COPY.items() if key != "streamId"}
    file = report(tmp_path, TABLES | {"CUPTI_ACTIVITY_KIND_MEMCPY": [copy, copy]}, TEXTS)
    with pytest.warns(DamagedTraceWarning, match="entries lost: 2"):
        tlg.load(file)


def test_processes_with_a_gpu_are_ranks_whose_launches_stay_apart(tmp_path: Path) -> None:
    second = {"globalPid": SECOND, "deviceId": 1, "end": 2_700_001}
    tables: dict[str, Rows] = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL | second, KERNEL],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [CALL, CALL | {"globalTid": SECOND | TID}],
        "NVTX_EVENTS": [RANGE, RANGE | {"globalTid": SECOND | TID, "text": "aten::add, op_id = 3"}],
    }
    file = report(tmp_path, tables, TEXTS)
    g = tlg.load(file)  # one graph of both
    assert _kernels_of_ops(g) == {"aten::mm": 0.500001, "aten::add": 0.7}
    ranks = tlg.load_set(file)
    assert [_kernels_of_ops(one.graph) for one in ranks] == [{"aten::mm": 0.500001}, {"aten::add": 0.7}]
    assert len({one.info.metadata["host"] for one in ranks}) == 1  # and so one clock
    for link in with_ranks_apart([str(file)]):
        assert_alike(load_core(link), as_text(link))


def test_synchronisations_are_of_the_device_of_their_context(tmp_path: Path) -> None:
    """CUPTI numbers devices in these rows as the process does, which sees only its own."""
    wait = {
        "start": 2_600_000, "end": 2_700_000, "deviceId": 0, "contextId": 2, "streamId": 7, "correlationId": 11,
        "globalPid": SECOND, "syncType": 3,
    }  # fmt: skip
    tables: dict[str, Rows] = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL, KERNEL | {"globalPid": SECOND, "deviceId": 1, "contextId": 2}],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [wait, wait | {"contextId": 9}],
    }
    g = tlg.load(report(tmp_path, tables, TEXTS))
    waits = g.columns.kind == Kind.SyncEvent
    assert sorted(g.columns.device[waits].tolist()) == [0, 1]


def _kernels_of_ops(g: tlg.Graph) -> dict[str, float]:
    """GPU time of each op, ms."""
    return dict(
        tlg.QUESTIONS["ops_summary"](g).to_pandas()[["name", "total_direct_kernel_time_ms"]].itertuples(index=False)
    )


@pytest.mark.parametrize(
    ("text", "category", "name"),
    [
        ("aten::mm, op_id = 34", "cpu_op", "aten::mm"),
        ("autograd::engine::f: MmBackward0, op_id = 1", "cpu_op", "autograd::engine::f: MmBackward0"),
        ("c10d::alltoall_base_, seq = 4", "cpu_op", "c10d::alltoall_base_"),
        ("aten::relu", "cpu_op", "aten::relu"),
        ("forward, first half", "user_annotation", "forward, first half"),
        ("ncclAllReduce", "user_annotation", "ncclAllReduce"),
        ("{'Module': 'model.layers.0', 'Inputs': [[1]]}", "python_function", "nn.Module: model.layers.0"),
        ("nn.Module: Linear_0", "python_function", "nn.Module: Linear_0"),
    ],
)  # fmt: skip
def test_ranges_are_known_by_their_text(text: str, category: str, name: str) -> None:
    found = range_event(text)
    assert found is not None
    assert (found["cat"], found["name"]) == (category, name)


def test_what_another_program_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="another program"):
        tlg.load(report(tmp_path, {"songs": [{"title": 1}]}, {1: "x"}))


def test_a_report_of_nothing_says_what_to_record(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="--trace=cuda,nvtx"):
        tlg.load(report(tmp_path, {"META_DATA_EXPORT": [{"name": "a", "value": "b"}]}, {1: "x"}))


def test_views_are_not_read(tmp_path: Path) -> None:
    file = report(tmp_path, {"META_DATA_EXPORT": [{"name": "a", "value": "b"}]}, {1: "x"})
    with sqlite3.connect(file) as connection:
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS 'end' FROM n"
        connection.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    connection.close()
    with pytest.raises(NotATraceError, match="without kernels"):
        tlg.load(file)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_a_report_cut_short_is_an_error_in_one_line(share: float, tmp_path: Path) -> None:
    kernels = [KERNEL | {"start": i * 1000, "end": i * 1000 + 500, "correlationId": i} for i in range(5000)]
    whole = report(tmp_path, {"CUPTI_ACTIVITY_KIND_KERNEL": kernels}, TEXTS).read_bytes()
    file = tmp_path / "cut.sqlite"
    file.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(TraceError, match=r"cut.sqlite: .*database") as caught:
        tlg.load(file)
    assert "\n" not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 255)), min_size=1, max_size=20))
def test_a_damaged_report_loads_or_is_an_error_of_ours(changes: list[tuple[int, int]]) -> None:
    with TemporaryDirectory() as folder:
        data = bytearray(report(Path(folder), TABLES, TEXTS).read_bytes())
        for at, byte in changes:
            data[100 + at % (len(data) - 100)] = byte
        with suppress(TraceError, DamagedTraceWarning):
            tlg.load(bytes(data))


def test_a_range_without_a_begin_is_counted_and_left_out(tmp_path: Path) -> None:
    g = tlg.load(report(tmp_path, {"NVTX_EVENTS": [RANGE, RANGE | {"start": None}]}, TEXTS))
    assert len(g.columns) == 1
    assert g.info.left_out == {"category range without an end": 1}


def test_generic_events_are_counted_and_missing_kernels_are_noted(tmp_path: Path) -> None:
    tables = {name: rows for name, rows in TABLES.items() if "KERNEL" not in name}
    generic = [{"rawTimestamp": 5, "timestamp": at, "typeId": 1, "data": "{}"} for at in (1_000, 2_000)]
    g = load_core(report(tmp_path, {**tables, "GENERIC_EVENTS": generic}, TEXTS))
    assert g.info.left_out["category generic event"] == 2
    found = {row["what"]: row["missing"] for row in inventory(g)["recording"].records()}
    assert found["kernels"] == "none"


def test_bytes_and_files_give_one_graph(tmp_path: Path) -> None:
    file = report(tmp_path, TABLES, TEXTS)
    assert tlg.load(file).trace_id == tlg.load(file.read_bytes()).trace_id


def as_text(file: Path | str) -> tlg.Graph:
    """The graph of the text that says what a report says, which is read where columns do not hold a row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reports, "collect_database", lambda *_: None)
        return load_core(file)


def assert_alike(one: tlg.Graph, other: tlg.Graph) -> None:
    assert (one.names, one.threads, one.info) == (other.names, other.threads, other.info)
    for name, column in one.columns.__dict__.items():
        if isinstance(column, np.ndarray):
            assert np.array_equal(column, getattr(other.columns, name)), name
    uids = one.columns.uid.tolist()
    assert one.details.events(uids) == other.details.events(uids)


def test_columns_hold_what_the_text_says(tmp_path: Path) -> None:
    assert_alike(load_core(file := report(tmp_path, TABLES, TEXTS)), as_text(file))


@pytest.mark.parametrize(
    "odd", [{"start": None}, {"end": 1}, {"end": 2**62}, {"shortName": 99, "demangledName": 99}, {"streamId": "x"}]
)
def test_rows_that_columns_do_not_hold_are_read_from_the_text(odd: dict[str, Any], tmp_path: Path) -> None:
    file = report(tmp_path, {**TABLES, "CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL, KERNEL | odd]}, TEXTS)
    assert_alike(load_core(file), as_text(file))


@needs_corpus
def test_columns_of_recorded_reports_hold_what_the_text_says(pair: list[Path]) -> None:
    assert_alike(load_core(pair[0]), as_text(pair[0]))


@pytest.fixture
def pair(corpus: Path) -> list[Path]:
    folder = corpus / "external/nsys"
    return [folder / f"mfu_2gpu_{which}.sqlite" for which in ("before", "after")]


@needs_corpus
def test_recorded_reports_have_the_figures_that_their_owner_published(pair: list[Path]) -> None:
    published = {"gpu": (535.20, 488.84), "exposed": (25.40, 33.74), "span": (598.52, 598.46)}
    found: dict[str, list[float]] = {key: [] for key in published}
    for file in pair:
        graphs = [one.graph for one in tlg.load_set(file)]
        kernels = [g.columns.kind == Kind.Kernel for g in graphs]
        both = list(zip(graphs, kernels, strict=True))
        found["gpu"].append(sum(int(g.columns.dur_ns[k].sum()) for g, k in both) / 1e6)
        timelines = [tlg.QUESTIONS["gpu_timeline"](g).to_pandas().set_index("type") for g in graphs]
        found["exposed"].append(sum(one["time ms"]["exposed_comm_time"] for one in timelines))
        # Its spans are those of kernels: "after" ends with copies of 0.03 ms each.
        spans = [int(g.columns.end_ns[k].max() - g.columns.start_ns[k].min()) for g, k in both]
        found["span"].append(sum(spans) / 1e6)
    for key, figures in published.items():
        assert found[key] == pytest.approx(figures, abs=0.01), key


@needs_corpus
def test_recorded_waits_for_the_gpu_are_on_the_path(pair: list[Path]) -> None:
    """Each block of the model waits for a copy; on one GPU its clock shows the copy's end after the wait."""
    for file in pair:
        path = tlg.critical_path(tlg.load_set(file)).classes().to_pandas().set_index("class")
        assert path.time_ms["host"] < path.time_ms["computation"]
        assert path.time_ms["computation"] > 0.5 * path.time_ms.sum()


@needs_corpus
def test_without_the_host_both_recordings_take_as_long_for_equal_work(pair: list[Path]) -> None:
    """What the one would take without its host's time, for the work of the other, is what the other would take."""
    length, work = [], []
    for file in pair:
        ranks = tlg.load_set(file)
        length.append(tlg.what_if(ranks, remove="*").changed_ns)
        timelines = [tlg.QUESTIONS["gpu_timeline"](one.graph).to_pandas().set_index("type") for one in ranks]
        work.append(sum(one["time ms"]["computation_time"] for one in timelines))
    assert length[0] * work[1] / work[0] == pytest.approx(length[1], rel=0.02)
