"""Traces made by hypothesis: every kind of event, links that may lead nowhere, odd names and threads."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SHAPES = st.lists(st.lists(st.integers(0, 4096), max_size=3), max_size=3)
CATEGORIES = (
    "python_function", "cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset", "user_annotation",
    "gpu_user_annotation", "cuda_sync", "overhead", "nobody_knows",
)  # fmt: skip
NUMBERS = ("External id", "correlation", "stream", "device", "bytes", "Sequence number", "Fwd thread id")
COLLECTIVE = {"Collective name": "allreduce", "Process Group Name": "0", "In msg nelems": 8, "dtype": "Float"}


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """A complete event."""
    args: dict[str, Any] = draw(st.dictionaries(st.sampled_from(NUMBERS), st.integers(0, 5), max_size=4))
    args |= draw(st.sampled_from([{}, {}, COLLECTIVE]))
    if draw(st.booleans()):
        args |= {"Input Dims": draw(SHAPES), "Input type": draw(st.lists(TEXT, max_size=2)), "note": draw(TEXT)}
    return {
        "ph": "X",
        "cat": draw(st.sampled_from(CATEGORIES)),
        "name": draw(st.sampled_from(["aten::mm", "nn.Module: A_0", "ProfilerStep#1"]) | TEXT),
        "pid": draw(st.sampled_from([0, 1, "Spans"])),
        "tid": draw(st.sampled_from([1, 2, "worker"])),
        "ts": 1_700_000_000_000 + draw(st.integers(0, 60)) / 1000,
        "dur": draw(st.integers(0, 60)) / 1000,
        "args": args,
    }


@st.composite
def arrows(draw: st.DrawFn) -> dict[str, Any]:
    """One end of an arrow from a forward to a backward op."""
    return {
        "ph": draw(st.sampled_from("sf")), "cat": "fwdbwd", "name": "fwdbwd", "id": draw(st.integers(1, 4)),
        "pid": 0, "tid": draw(st.integers(1, 2)), "ts": 1_700_000_000_000 + draw(st.integers(0, 60)) / 1000,
    }  # fmt: skip


def traces() -> st.SearchStrategy[dict[str, Any]]:
    """Whole traces as parsed JSON."""
    return st.fixed_dictionaries(
        {
            "schemaVersion": st.just(1),
            "distributedInfo": st.fixed_dictionaries({"rank": st.integers(0, 7)}),
            "traceEvents": st.lists(events() | arrows(), max_size=40),
        }
    )
