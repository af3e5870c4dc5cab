"""Traces and models written down as trees of calls, laid out in time one call after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core

FORWARD, BACKWARD = (1, 1), (1, 2)
"""(pid, tid) of the usual two threads."""


@dataclass(eq=False)
class Call:
    """A host event and what it calls; `uid` is set when a trace is made of it."""

    name: str
    cat: str = "cpu_op"
    calls: Sequence[Call] = ()
    args: dict[str, Any] = field(default_factory=dict)
    kernel: str = ""
    kernel_us: float = 1.0
    kernel_cat: str = "kernel"
    kernel_args: dict[str, Any] = field(default_factory=dict)
    uid: int = -1
    kernel_uid: int = -1
    start: float = 0.0


def op(name: str, *calls: Call, seq: int | None = None, fwd: int | None = None, **args: Any) -> Call:
    """An op with its sequence number and, of a backward op, the small number of its forward thread."""
    numbers = {"Sequence number": seq, "Fwd thread id": fwd}
    return Call(name, calls=calls, args={k: v for k, v in numbers.items() if v is not None} | args)


def run(name: str, *calls: Call, seq: int, fwd: int = 1) -> Call:
    """A backward op as the engine runs it: the node's op inside of `evaluate_function`."""
    inner = op(name, *calls, seq=seq, fwd=fwd)
    return op(f"autograd::engine::evaluate_function: {name}", inner, seq=seq, fwd=fwd)


def frame(name: str, *calls: Call) -> Call:
    """A Python frame."""
    return Call(name, "python_function", calls)


def annotation(name: str, *calls: Call) -> Call:
    """A range that the program marked."""
    return Call(name, "user_annotation", calls)


def module(name: str, *calls: Call) -> Call:
    """A call of a module."""
    return frame(f"nn.Module: {name}", *calls)


def launch(kernel: str = "kernel", us: float = 1.0, **kernel_args: Any) -> Call:
    """A call that launches a kernel of some microseconds."""
    return Call("cudaLaunchKernel", "cuda_runtime", kernel=kernel, kernel_us=us, kernel_args=kernel_args)


def fill(us: float = 1.0) -> Call:
    """A call that fills memory."""
    return Call("cudaMemsetAsync", "cuda_runtime", kernel="Memset (Device)", kernel_us=us, kernel_cat="gpu_memset")


def copy(kind: str, us: float = 1.0) -> Call:
    """A call that copies memory; the kind is as in `HtoD (Pageable -> Device)`."""
    return Call("cudaMemcpyAsync", "cuda_runtime", kernel=f"Memcpy {kind}", kernel_us=us, kernel_cat="gpu_memcpy")


class Layout:
    """Gives calls their times, one microsecond per beginning and end, and writes the events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.clock = 0

    def add(self, call: Call, thread: tuple[Any, Any]) -> None:
        pid, tid = thread
        call.uid, call.start, self.clock = len(self.events), float(self.clock), self.clock + 1
        event = {"ph": "X", "cat": call.cat, "name": call.name, "pid": pid, "tid": tid, "ts": call.start, "dur": 0.0}
        self.events.append(event | {"args": dict(call.args)})
        for inner in call.calls:
            self.add(inner, thread)
        self.events[call.uid]["dur"] = self.clock - call.start
        self.clock += 1
        if call.kernel:
            call.kernel_uid = len(self.events)
            self.events[call.uid]["args"]["correlation"] = call.uid + 1
            args = {"device": 0, "stream": 7, "correlation": call.uid + 1, **call.kernel_args}
            gpu = {"ph": "X", "cat": call.kernel_cat, "name": call.kernel, "pid": 0, "tid": 7}
            self.events.append(gpu | {"ts": float(self.clock), "dur": call.kernel_us, "args": args})


def trace(
    threads: Iterable[tuple[tuple[Any, Any], Sequence[Call]]], arrows: Iterable[tuple[Call, Call]] = ()
) -> dict[str, Any]:
    """Parsed JSON of calls on threads, one thread after the other; arrows lead from forward to backward ops."""
    layout, thread_of = Layout(), {}
    for thread, calls in threads:
        for call in calls:
            first = len(layout.events)
            layout.add(call, thread)
            thread_of.update(dict.fromkeys(range(first, len(layout.events)), thread))
    for number, ends in enumerate(arrows, 1):
        for phase, call in zip("sf", ends, strict=True):
            pid, tid = thread_of[call.uid]
            layout.events.append({"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": pid,
                                  "tid": tid, "ts": call.start})  # fmt: skip
    return {"schemaVersion": 1, "traceEvents": layout.events}


def load(threads: Mapping[tuple[Any, Any], Sequence[Call]], arrows: Iterable[tuple[Call, Call]] = ()) -> Core:
    """The graph of calls on threads."""
    return load_core(trace(threads.items(), arrows))


def uid_pairs(core: Core) -> set[tuple[int, int]]:
    """Uids of forward ops and their backward ops."""
    uid, found = core.columns.uid, core.autograd
    return set(zip(uid[found.forward].tolist(), uid[found.backward].tolist(), strict=True))


LAYER = ("native_layer_norm", "mm", "softmax", "mm", "add")


def call_of(name: str, *calls: Call, size: int = 8, us: float = 1.0) -> Call:
    """An op that launches a kernel of its name, or calls others."""
    return op(f"aten::{name}", *(calls or (launch(name, us),)), **{"Input Dims": [[size, size]]})


def layer(number: int, name: str = "nn.Module: Layer", forward: str = "model.py(7): forward") -> Call:
    """A layer of five ops."""
    return frame(f"{name}_{number}", frame(forward, *(call_of(op) for op in LAYER)))


def model(layers: int, rename: str = "") -> list[Call]:
    """A model of equal layers, with other names of its modules, of its frames, or of all of them."""
    name = "nn.Module: Stage" if rename in ("module", "all") else "nn.Module: Layer"
    forward = "other.py(3): run" if rename in ("frame", "all") else "model.py(7): forward"
    root = "Other_0" if rename in ("module", "all") else "Net_0"
    return [module(root, *(layer(k, name, forward) for k in range(layers)))]
