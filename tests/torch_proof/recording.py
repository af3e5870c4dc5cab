"""Recording of programs: the profiler's trace and the execution trace of one run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile


class Recording(NamedTuple):
    """Files of one run."""

    trace: Path
    execution_trace: Path


def record(step: Callable[[], object], folder: Path, name: str) -> Path:
    """The profiler's trace of a call, on the CPU."""
    trace = folder / f"{name}.json"
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        step()
    recorded.export_chrome_trace(str(trace))
    return trace


def record_both(step: Callable[[], object], folder: Path, name: str) -> Recording:
    """Both traces of a call."""
    found = Recording(folder / f"{name}.json", folder / f"{name}.execution-trace.json")
    observer = ExecutionTraceObserver()
    observer.register_callback(str(found.execution_trace))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer) as recorded:
        step()
    recorded.export_chrome_trace(str(found.trace))
    return found
