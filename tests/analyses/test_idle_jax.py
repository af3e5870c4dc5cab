"""What the host of a profile of JAX waits for, and why its GPU is idle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plain_xplane as plain
import pytest
from made_hlo import mlp
from plain_xplane import Plane

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.alignment.tables import _Side
from tracelens_graph.analyses.diagnosis.finding import ADVICE
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.idle.host_states import COMPILATION, COPY_TO_DEVICE, LAUNCH, SYNCHRONIZATION, row_states
from tracelens_graph.analyses.idle.idle import idle_causes
from tracelens_graph.frameworks import XLA
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.views import view

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


@parametrize("path", xplane_files())
def test_what_it_is_due_to_can_be_looked_at_on_a_narrow_terminal(path: Path) -> None:
    table = view(idle_causes(loaded(path)))
    shown = table.text(80)
    uid = next(uid for uid in table["because uid"] if uid is not None and uid >= 0)
    assert str(uid) in shown.split()


@parametrize("path", [path for path in xplane_files() if path.name.startswith("conv-")])
def test_functions_of_python_that_wait_count_once(path: Path) -> None:
    """Ten calls of `block_until_ready`, each of which calls `try_to_block`."""
    core = loaded(path)
    assert _Side(core.everything).waits() == 10
    (first, *_) = np.flatnonzero([name.endswith("): block_until_ready") for name in core.names])
    begun = np.sort(core.columns.start_ns[core.columns.name == first])
    assert _Side(core.window(before_ns=int(begun[4]))).waits() == 4
