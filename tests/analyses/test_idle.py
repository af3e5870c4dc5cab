"""Causes of idle GPU time: known answers, the rules applied instant by instant, sums; of JAX, and gaps as nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plain_xplane as plain
import pytest
from handmade import gpu, span
from handmade_jax import mlp
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces
from plain_xplane import Plane
from profiles import examples

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.diagnosis.causes import causes_of
from tracelens_graph.analyses.diagnosis.finding import ADVICE
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.idle import idle
from tracelens_graph.analyses.idle.blame import culprit
from tracelens_graph.analyses.idle.host_states import (
    ABSENT,
    COMPILATION,
    COPY_TO_DEVICE,
    DATA_LOADER,
    LAUNCH,
    PROFILER,
    SYNCHRONIZATION,
    row_states,
)
from tracelens_graph.analyses.idle.idle import Cause, idle_parts
from tracelens_graph.analyses.idle.idle_causes import idle_causes
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.frameworks import XLA
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.schema import Flag, Kind

Events = list[dict[str, Any]]


def call(ts: float, dur: float, correlation: int, name: str = "cudaLaunchKernel", **where: Any) -> dict[str, Any]:
    return span("cuda_runtime", name, ts, dur, **where, correlation=correlation)


def frame(name: str, ts: float, dur: float, **where: Any) -> dict[str, Any]:
    return span("python_function", name, ts, dur, **where)


def op(name: str, ts: float, dur: float, **where: Any) -> dict[str, Any]:
    return span("cpu_op", name, ts, dur, **where)


def causes_us(g: Core | Window) -> dict[str, float]:
    table = idle_causes(g)
    return {cause: round(1000 * ms, 3) for cause, ms in zip(table["cause"], np.asarray(table["idle_ms"]), strict=True)}


FIRST = [call(0, 2, 1), gpu(5, 95, 1)]
"""A kernel that ends at 100 us, launched at 0."""


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [frame("train.py(3): step", 0, 300), op("aten::mm", 180, 30), call(190, 10, 2), gpu(215, 5, 2)],
            # 100-180 in Python, 180-190 in the op, 190-200 in the call, 200-215 on the way
            {"python": 80, "launches": 35}, id="python and launch",
        ),
        pytest.param([call(40, 5, 2), gpu(103, 5, 2)], {"queued": 3}, id="queued"),
        pytest.param([call(90, 15, 2), gpu(107, 5, 2)], {"launches": 7}, id="still in the launch call"),
        pytest.param([call(40, 5, 2), gpu(350, 5, 2)], {"unknown_late_start": 250}, id="launched long before"),
        pytest.param([call(110, 5, 2), gpu(450, 5, 2)],
                     {"launches": 5, "unknown_not_recorded": 10, "unknown_late_start": 335}, id="long on its way"),
        pytest.param([gpu(160, 5, 99)], {"unknown_no_launch": 60}, id="no launch in the trace"),
        pytest.param([call(150, 5, 2), gpu(160, 5, 2)], {"unknown_not_recorded": 50, "launches": 10}, id="no stacks"),
        pytest.param(
            [frame("train.py(3): step", 0, 900), frame("torch/utils/data/dataloader.py(733): __next__", 120, 500),
             frame("multiprocessing/queues.py(113): get", 130, 400), op("aten::stack", 540, 20), call(700, 5, 2),
             gpu(710, 5, 2)],
            {"data_loader": 500, "python": 100, "launches": 10}, id="data loader",
        ),
        pytest.param(
            [span("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 120, 500),
             call(700, 5, 2), gpu(710, 5, 2)],
            {"data_loader": 500, "unknown_not_recorded": 100, "launches": 10}, id="data loader without stacks",
        ),
        pytest.param(
            [frame("train.py(3): step", 0, 900), op("aten::item", 10, 95), call(60, 41, 9, "cudaStreamSynchronize"),
             call(150, 5, 2), gpu(160, 5, 2)],
            # The call kept the host for 41 us: so much of the gap is its fault, and the other 9 us before the launch
            # would have been idle without it.
            {"synchronization": 41, "python": 9, "launches": 10}, id="a wait of 41 us",
        ),
        pytest.param(
            [frame("train.py(3): step", 0, 900), call(120, 20, 9, "cudaDeviceSynchronize"), call(150, 5, 2),
             gpu(160, 5, 2)],
            {"synchronization": 20, "python": 30, "launches": 10}, id="a call that waits for nothing",
        ),
        pytest.param(
            [frame("train.py(3): step", 0, 900), call(20, 81, 9, "cudaDeviceSynchronize"),
             frame("torch/utils/data/dataloader.py(733): __next__", 110, 20), call(150, 5, 2), gpu(160, 5, 2)],
            {"synchronization": 30, "data_loader": 20, "launches": 10}, id="a wait, then the data loader",
        ),
        pytest.param(
            [frame("train.py(3): step", 0, 900), op("aten::copy_", 110, 40), call(112, 30, 2, "cudaMemcpyAsync"),
             gpu(125, 10, 2, "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy")],
            {"python": 10, "launches": 2, "host_to_device_copy": 13}, id="a copy that waits",
        ),
        pytest.param(
            [frame("train.py(3): step", 0, 900), call(110, 50, 9, "cudaMalloc"), call(170, 5, 2), gpu(180, 5, 2)],
            {"python": 20, "allocation": 50, "launches": 10}, id="allocation",
        ),
        pytest.param(
            [frame("torch/profiler/profiler.py(821): step", 90, 50), frame("tracing.py(1): save", 95, 20),
             call(170, 5, 2), gpu(180, 5, 2)],
            {"profiler": 40, "unknown_not_recorded": 30, "launches": 10}, id="the profiler itself",
        ),
        pytest.param(
            # Autograd's thread launches next; until it comes in, at 160, the main thread is looked at.
            [frame("train.py(9): log", 0, 130), frame("<built-in method run_backward of ...>", 140, 90),
             op("MmBackward0", 160, 40, tid=200), call(180, 5, 2, tid=200), gpu(190, 5, 2)],
            {"python": 30, "unknown_not_recorded": 30, "launches": 30}, id="from thread to thread",
        ),
        pytest.param(
            # The main thread launches next; while it waits in run_backward, autograd's thread is looked at.
            [frame("<built-in method run_backward of ...>", 0, 140), call(1, 2, 8, tid=200), gpu(100, 10, 8),
             op("MmBackward0", 1, 124, tid=200), frame("train.py(9): step", 140, 90), call(180, 5, 2), gpu(190, 5, 2)],
            {"launches": 15 + 10, "unknown_not_recorded": 15, "python": 40}, id="back to the main thread",
        ),
    ],
)  # fmt: skip
def test_known_answers(events: Events, expected: dict[str, float]) -> None:
    assert causes_us(load_core([*FIRST, *events])) == expected


def test_a_cause_is_due_to_the_call_that_holds_most_of_all_its_gaps() -> None:
    """The longest gap is due to another function than all of them together are."""
    core = load_core([
        *FIRST, frame("train.py(3): step", 0, 900), frame("train.py(4): log", 105, 60), call(180, 5, 2),
        gpu(190, 10, 2), *(event for n in range(4) for event in (
            frame("train.py(5): other", 202 + 100 * n, 50), call(270 + 100 * n, 5, 3 + n),
            gpu(280 + 100 * n, 20, 3 + n),
        )),
    ])  # fmt: skip
    row = next(row for row in idle_causes(core).records() if row["cause"] == "python")
    python = next(one for one in causes_of(core.everything, ()) if one.topic == "python")
    assert (row["because"], row["because_ms"]) == ("train.py(5): other", pytest.approx(0.2))
    assert (row["because"], row["because_ms"]) == (python.evidence["because"], python.evidence["because_ms"])


def test_the_table_names_the_longest_example() -> None:
    core = load_core([
        *FIRST, frame("train.py(3): step", 0, 900), frame("train.py(4): log", 105, 60), call(180, 5, 2),
        gpu(190, 10, 2), frame("train.py(5): other", 205, 10), call(220, 5, 3), gpu(230, 5, 3),
    ])  # fmt: skip
    row = next(row for row in idle_causes(core).records() if row["cause"] == "python")
    assert (row["gaps"], row["idle_ms"], row["longest_ms"], row["gap_start_ms"]) == (2, 0.1, 0.08, 0.1)
    assert (row["because"], core.node(row["because_uid"]).start_ns) == ("train.py(4): log", 105_000)
    assert core.node(row["ends_with_uid"]).start_ns == 190_000
    assert row["percent_of_idle"] == pytest.approx(100 * 100 / 120)
    assert row["percent_of_total"] == pytest.approx(100 * 100 / 230)


def test_gpu_work_outside_of_a_window_is_no_idleness_of_the_host() -> None:
    steps = [span("user_annotation", f"ProfilerStep#{n}", 100 * n, 90) for n in (1, 2)]
    core = load_core([
        *steps, call(110, 2, 1), gpu(115, 5, 1), call(150, 2, 2), gpu(155, 100, 2), call(210, 2, 3), gpu(130, 10, 3),
    ])  # fmt: skip
    window = core.window(step=1)
    # 120-155 but for the kernel of the other step at 130-140
    assert causes_us(window) == {"outside": 10, "unknown_not_recorded": 20, "launches": 5}
    assert "step 1" in idle_causes(window).title


def test_several_devices_are_taken_one_by_one() -> None:
    core = load_core([
        call(0, 2, 1), gpu(5, 95, 1), call(10, 2, 2), gpu(15, 10, 2, device=1), call(50, 5, 3),
        gpu(55, 45, 3, device=1), call(60, 2, 4), gpu(101, 5, 4),
    ])  # fmt: skip
    assert causes_us(core) == {"unknown_not_recorded": 25, "launches": 5, "queued": 1}
    assert idle_parts(core).total_ns == 101_000 + 85_000


@pytest.mark.parametrize(
    ("events", "note"),
    [
        ([op("aten::add", 0, 5)], "the trace has no GPU events"),
        ([gpu(0, 5, 1), gpu(5, 5, 2)], "the GPU was never idle"),
        ([], "the trace has no GPU events"),
    ],
)
def test_nothing_to_explain(events: Events, note: str) -> None:
    table = idle_causes(load_core(events))
    assert len(table) == 0
    assert note in table.notes


# -- the rules once more, instant by instant ------------------------------------------------------------------

HOST = st.tuples(
    st.sampled_from([
        ("cpu_op", "aten::mm"), ("cpu_op", "aten::mm"), ("cpu_op", "## data_load ##"),
        ("python_function", "train.py(1): f"), ("python_function", "nn.Module: A_0"),
        ("python_function", "torch/utils/data/dataloader.py(7): __next__"),
        ("python_function", "torch/profiler/profiler.py(1): step"),
        ("python_function", "<built-in method run_backward>"),
        ("cuda_runtime", "cudaStreamSynchronize"), ("cuda_runtime", "cudaMalloc"),
        ("user_annotation", "enumerate(DataLoader)#X.__next__"),
    ]),
    st.integers(1, 2), st.integers(0, 16).map(lambda n: 5 * n), st.integers(0, 10).map(lambda n: 5 * n),
)  # fmt: skip
DEVICE = st.sampled_from([0, 0, 0, 1])
LAUNCHES = st.tuples(
    st.sampled_from([
        ("kernel", "gemm"), ("kernel", "gemm"), ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"),
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)"),
    ]),
    st.integers(1, 2), st.integers(0, 80), st.integers(0, 12), st.integers(-2, 40), st.integers(0, 9),
)  # fmt: skip


@st.composite
def busy_traces(draw: st.DrawFn) -> Events:
    """Traces in which much happens in little time, in nanoseconds; an event in seven has no launch."""
    events = []
    for (cat, name), thread, start, dur in draw(st.lists(HOST, max_size=20)):
        events.append(span(cat, name, start / 1000, dur / 1000, 1, thread))
    for number, ((cat, name), thread, start, dur, delay, length) in enumerate(draw(st.lists(LAUNCHES, max_size=5))):
        events.append(gpu(max(start + delay, 0) / 1000, length / 1000, number, name, cat, device=draw(DEVICE)))
        if draw(st.integers(0, 6)):
            events.append(
                span("cuda_runtime", "cudaLaunchKernel", start / 1000, dur / 1000, 1, thread, correlation=number)
            )
    return events


def state_at(core: Core, state: np.ndarray, thread: int, at: int) -> int:
    """The state of a thread at an instant."""
    c = core.columns

    def holds(row: int) -> bool:
        return bool(c.start_ns[row] <= at < c.end_ns[row])

    on_thread = np.flatnonzero(c.thread == thread).tolist()
    marks = [row for row in on_thread if holds(row)]
    if any(
        state[row] == DATA_LOADER or (c.kind[row] == Kind.Annotation and "DataLoader" in core.names[c.name[row]])
        for row in marks
    ):
        return DATA_LOADER
    if any(state[row] == PROFILER for row in marks):
        return PROFILER
    calls = [row for row in marks if c.kind[row] <= Kind.RuntimeCall]
    calls = [row for row in calls if all(holds(above.row) for above in core.node(int(c.uid[row])).ancestors)]
    return int(state[max(calls)]) if calls else ABSENT


def waiting_call(core: Core, state: np.ndarray, thread: int, at: int) -> int:
    """The last waiting call of a thread that began by an instant, if it has not ended then."""
    c = core.columns
    rows = np.flatnonzero((c.thread == thread) & np.isin(state, (SYNCHRONIZATION, COPY_TO_DEVICE)))
    rows = rows[c.start_ns[rows] <= at]
    return int(rows[-1]) if len(rows) and c.end_ns[rows[-1]] > at else -1


CAUSE_OF = {state: cause for cause, state in idle.OF_STATE.items()} | {ABSENT: Cause.unknown_not_recorded}


def by_instants(w: Window) -> np.ndarray:
    """Idle nanoseconds by cause, told for every single one."""
    core, c = w.core, w.core.columns
    state = row_states(core)
    found = np.zeros(len(Cause), np.int64)
    for device in set(c.device[w.gpu_rows].tolist()):
        rows = [row for row in w.gpu_rows.tolist() if c.device[row] == device]
        rows.sort(key=lambda row: (c.start_ns[row], row))
        others = [row for row in core.gpu_rows.tolist() if c.device[row] == device and row not in rows]
        lead = {SYNCHRONIZATION: 0, COPY_TO_DEVICE: 0}
        for i, row in enumerate(rows[1:], 1):
            begin, end = max(int(c.end_ns[r]) for r in rows[:i]), int(c.start_ns[row])
            if end <= begin:
                continue
            hidden = [any(c.start_ns[r] <= t < c.end_ns[r] for r in others) for t in range(begin, end)]
            found[Cause.outside] += sum(hidden)
            shown = [t for t, out in zip(range(begin, end), hidden, strict=True) if not out]
            call, before = int(c.parent[row]), int(c.parent[rows[i - 1]])
            if call < 0:
                found[Cause.unknown_no_launch] += len(shown)
                continue
            own = int(c.thread[call])
            other = int(c.thread[before]) if before >= 0 else own
            launched = min(max(int(c.start_ns[call]), begin), end)
            returned = min(max(int(c.end_ns[call]), launched), end)
            there = next((t for t in shown if other == own or state_at(core, state, own, t) != ABSENT), end)
            at_work = own if there in (begin, *shown[:1]) else other
            wait = waiting_call(core, state, at_work, begin)
            free = begin
            if wait >= 0:
                lost = lead[int(state[wait])] + int(c.dur_ns[wait])
                free = min(begin + lost, launched)
                lead[int(state[wait])] = max(0, lost - (launched - begin))
            queued = c.end_ns[call] <= begin
            longest = idle.LONGEST_BETWEEN_NS if queued else idle.LONGEST_START_NS
            late = sum(t >= returned for t in shown) > longest
            for t in shown:
                if t >= returned:
                    cause = Cause.unknown_late_start if late else Cause.queued if queued else Cause.launches
                elif t >= launched:
                    cause = Cause.host_to_device_copy if state[call] == COPY_TO_DEVICE else Cause.launches
                elif t < free:
                    now = state_at(core, state, at_work, t)
                    cause = CAUSE_OF[now if now in (DATA_LOADER, PROFILER) else int(state[wait])]
                else:
                    cause = CAUSE_OF[state_at(core, state, own if t >= there else other, t)]
                found[cause] += 1
    return found


@examples(500)
@given(busy_traces(), st.booleans())
def test_equals_the_rules_applied_instant_by_instant(events: Events, narrowed: bool) -> None:
    core = load_core(events)
    window = core.window(before_ns=60) if narrowed and len(core.columns) else core.everything
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(idle, "LONGEST_START_NS", 20)
        parts = idle_parts(window).parts
        assert dict(zip(Cause, parts.sum(axis=1).tolist(), strict=True)) == dict(
            zip(Cause, by_instants(window).tolist(), strict=True)
        )


@examples(300)
@given(busy_traces())
def test_what_a_part_is_due_to_lies_in_its_gap_and_explains_no_more(events: Events) -> None:
    core = load_core(events)
    found, c = idle_parts(core), core.columns
    for cause, gap in zip(*(part.tolist() for part in np.nonzero(found.parts)), strict=True):
        row, ns = culprit(core, found, gap, Cause(cause))
        if row < 0:
            assert ns == 0
            continue
        begin, end = max(c.start_ns[row], found.start[gap]), min(c.start_ns[row] + c.dur_ns[row], found.end[gap])
        assert begin < end
        assert 0 < ns <= found.parts[cause, gap]


def check_sums(w: Window) -> None:
    """Every part is a time, every gap is explained wholly, and all gaps are the idle time of the timeline."""
    found = idle_parts(w)
    assert (found.parts >= 0).all()
    assert (found.parts.sum(axis=0) == found.end - found.start).all()
    if len(np.unique(w.core.columns.device[w.gpu_rows])) == 1:
        timeline = gpu_timeline(w)
        times = dict(zip(timeline["type"], np.asarray(timeline["time ms"]).tolist(), strict=True))
        assert round(times["idle_time"] * 1e6) == found.parts.sum()
        assert round(times["total_time"] * 1e6) == found.total_ns
    shares = np.asarray(idle_causes(w)["percent_of_idle"], float)
    assert not len(shares) or shares.sum() == pytest.approx(100)


@given(traces())
def test_sums_on_made_traces(trace: dict[str, Any]) -> None:
    check_sums(load_core(trace).everything)


@parametrize("path", chosen_traces())
def test_sums_on_real_traces(path: Path) -> None:
    core = loaded(path)
    check_sums(core.everything)
    for step in core.steps():
        check_sums(core.window(step=int(step.name.rpartition("#")[2])))


def test_the_corpus_has_calls_that_outlive_their_callers() -> None:
    """So that the tests above are about them too."""
    crossing = load_core([op("a", 0, 10), op("b", 8, 30), *FIRST])
    assert (crossing.columns.flags & Flag.outlives_parent.value).any()
    assert (row_states(crossing) == LAUNCH).sum() == 3


US = 1_000_000

NAMES = {
    "backend_compile_and_load": COMPILATION,
    "PjRtCpuClient::Compile": COMPILATION,
    "Wait for donation holds": SYNCHRONIZATION,
    "PjRtBuffer::BlockHostUntilReady": SYNCHRONIZATION,
    "PjRtFuture::Await": SYNCHRONIZATION,
    "np.asarray(jax.Array)": SYNCHRONIZATION,
    "PjRtStreamExecutorClient::BufferFromHostBuffer": COPY_TO_DEVICE,
    "PjitFunction(f)": LAUNCH,
    "$api.py:3105 block_until_ready": SYNCHRONIZATION,
    "$pxla.py:1499 _cached_compilation": COMPILATION,
}


def profile(between: str, on_pool: bool) -> Core:
    """Two kernels with a gap of 800 us, in which Python is in one call for 700 us, and a pool or itself launches."""
    programs, host, device = Plane("/host:metadata"), Plane("/host:CPU"), Plane("/device:GPU:0")
    programs.program(3, "jit_f(3)", mlp())
    device.line(
        7, "Stream #7", 0,
        device.event("gemm", 110 * US, 90 * US, correlation_id=1, hlo_op="&dot.3", program_id=3),
        device.event("gemm", 1000 * US, 100 * US, correlation_id=2, hlo_op="&dot.5", program_id=3),
    )  # fmt: skip
    launches = [host.event("cudaLaunchKernel", at * US, 5 * US, correlation_id=id) for id, at in ((1, 100), (2, 990))]
    middle = host.event(between, 250 * US, 700 * US)
    host.line(1, "python", 0, host.event("$main.py:1 train", 50 * US, 1100 * US), *([middle] if on_pool else
              [launches[0], middle, launches[1]]))  # fmt: skip
    if on_pool:
        host.line(2, "tf_pjrt_thread_pool/1", 0, *launches)
    return load_core(plain.written(programs, host, device))


@pytest.mark.parametrize("name", NAMES)
def test_states_of_calls_of_jax(name: str) -> None:
    core = profile(name, on_pool=False)
    row = next(at for at in range(len(core.columns)) if core.columns.dur_ns[at] == 700_000)
    assert row_states(core)[row] == NAMES[name]


@pytest.mark.parametrize("on_pool", [False, True])
@pytest.mark.parametrize(
    ("between", "cause"),
    [("backend_compile_and_load", "compilation"), ("$api.py:1 block_until_ready", "synchronization"),
     ("PjRtStreamExecutorClient::BufferFromHostBuffer", "host_to_device_copy"), ("$data.py:3 next_batch", "python")],
)  # fmt: skip
def test_a_gap_is_due_to_what_python_did_also_where_a_pool_launches(between: str, cause: str, on_pool: bool) -> None:
    core = profile(between, on_pool)
    found = {row["cause"]: row for row in idle_causes(core).records()}
    assert found[cause]["idle_ms"] >= 0.7
    assert sum(row["idle_ms"] for row in found.values()) == pytest.approx(0.8)
    assert found[cause]["because"] == core.names[core.columns.name[core.row(found[cause]["because_uid"])]]
    assert "unknown_not_recorded" not in found


def test_suggestions_for_jax_are_known_and_no_words_of_pytorch() -> None:
    assert set(XLA.advice) | set(XLA.advice.values()) <= ADVICE.keys()
    assert not any("torch" in ADVICE[name] or "with_stack" in ADVICE[name] for name in XLA.advice.values())


@pytest.mark.parametrize("name", ["conv-legacy", "te-fused-attention"])
def test_verdicts_of_profiles_of_jax_speak_of_jax(corpus: Path, name: str) -> None:
    found = verdict(load_core(corpus / f"tracelens/jax/{name}.xplane.pb"))
    text = " ".join(part for one in found for part in (one.text, *one.suggestions))
    assert not any(word in text for word in ("torch", "with_stack", "DataLoader", ".item()", "not recorded"))
    assert found[0].evidence["kind"] == {"conv-legacy": "too_little", "te-fused-attention": "compute.attention"}[name]


def work_on(name: str, ts: float, dur: float, stream: int, correlation: int) -> dict[str, Any]:
    return span("kernel", name, ts, dur, 0, stream, device=0, stream=stream, correlation=correlation)


def overlapping() -> Core:
    """All-reduce runs on when a short copy beside it is over; what follows is launched late, then early."""
    return load_core([
        call(0, 5, 1), call(10, 5, 2),
        work_on("all_reduce", 20, 80, 8, 1),  # until 100
        work_on("copy", 40, 10, 7, 2),
        span("python_function", "train.py(3): step", 90, 60),
        span("cpu_op", "aten::mm", 130, 20),
        call(140, 5, 3), call(146, 2, 4),
        work_on("mm", 150, 10, 7, 3),
        work_on("add", 163, 2, 7, 4),
    ])  # fmt: skip


def test_a_gap_lies_between_what_ended_last_and_what_starts_next() -> None:
    g = TraceGraph(overlapping())
    gaps = {key: data for key, data in g.full.nodes(data=True) if data.get("kind") == "Gap"}
    assert [(data["number"], data["dur_ns"], data["cause"]) for data in gaps.values()] == [
        (1, 50_000, "python"), (2, 3_000, "queued"),
    ]  # fmt: skip
    for gap, (before, after, causes) in zip(
        gaps,
        [("all_reduce", "mm", {"train.py(3): step", "aten::mm", "cudaLaunchKernel"}), ("mm", "add", set())],
        strict=True,
    ):
        into = {edge: g.full.nodes[one]["name"] for one, _, edge in g.full.in_edges(gap, keys=True)}
        assert into == {"BEFORE": before, "AFTER": after}
        assert {g.full.nodes[one]["name"] for _, one in g.full.out_edges(gap)} == causes


@given(traces())
def test_gaps_begin_where_an_event_ends(trace: dict[str, Any]) -> None:
    core = load_core(trace)
    idle, c = idle_parts(core), core.columns
    assert c.end_ns[idle.ended].tolist() == idle.start.tolist()
    assert c.start_ns[idle.row].tolist() == idle.end.tolist()
    assert c.device[idle.ended].tolist() == c.device[idle.row].tolist()
