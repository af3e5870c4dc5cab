"""Small jobs to simulate, what must hold for the truth of any, and a second, plain reading of their Kineto JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tracelens_graph.simulate import RankTrace, Run

Event = dict[str, Any]
HOST = ("cpu_op", "python_function", "cuda_runtime", "cuda_driver")
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def span(event: Event) -> tuple[int, int]:
    start = ns(event["ts"])
    return start, start + ns(event["dur"])


def of(trace: dict[str, Any], *cats: str) -> dict[int, Event]:
    """Complete events of some categories by their position in the file."""
    return {i: e for i, e in enumerate(trace["traceEvents"]) if e["ph"] == "X" and e.get("cat") in cats}


def parents(events: dict[int, Event]) -> dict[int, int | None]:
    """The innermost enclosing event of each on its thread; a failed assertion if two cross."""
    threads: dict[tuple[Any, Any], list[tuple[int, int, int]]] = defaultdict(list)
    for uid, event in events.items():
        start, end = span(event)
        threads[event["pid"], event["tid"]].append((start, -end, uid))
    above: dict[int, int | None] = {}
    for rows in threads.values():
        stack: list[tuple[int, int]] = []
        for start, minus_end, uid in sorted(rows):
            while stack and stack[-1][0] <= start:
                stack.pop()
            assert not stack or -minus_end <= stack[-1][0], f"{uid} outlives {stack[-1][1]}"
            above[uid] = stack[-1][1] if stack else None
            stack.append((-minus_end, uid))
    return above


def chain(uid: int | None, above: dict[int, int | None]) -> list[int]:
    """The ancestors of an event, innermost first, itself left out."""
    found = []
    while uid is not None and (uid := above[uid]) is not None:
        found.append(uid)
    return found


def union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def length(spans: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in union(spans))


Json = dict[str, Any]
SMALL: Json = {"steps": 2, "layers": 1, "batch": 2, "tokens": 64, "width": 128, "heads": 4, "vocabulary": 512}
LOOP: Json = {**SMALL, "program": "loop", "layers": 2, "python_stacks": False, "memory": False}


def rows(columns: dict[str, list[Any]]) -> list[Json]:
    """The rows of a table of the truth."""
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def collectives(run: Run) -> list[Json]:
    """The collectives of a job, which the truth of every rank lists."""
    return run.ranks[0].truth["collectives"]


def members(collective: Json) -> Iterator[Json]:
    """One record per rank of a collective: what lists say of it, without the s of `seqs` and `transfers_ns`."""
    lists = (
        "ranks", "seqs", "kernels", "elements_in", "elements_out", "split_in", "split_out", "start_ns", "end_ns",
        "recorded_start_ns", "recorded_end_ns", "awaits", "waited_for", "wait_ns", "transfers_ns", "end_noise_ns",
    )  # fmt: skip
    for cells in zip(*(collective[name] for name in lists), strict=True):
        yield dict(zip(lists, cells, strict=True))


def check_collectives(run: Run) -> None:
    """Waits, transfers and noise add up, and nobody leaves before those have come that it needs."""
    found = collectives(run)
    assert len({one["key"] for one in found}) == len(found)
    assert {key for rank in run.ranks for key in rank.truth["gpu_events"]["collective"]} - {None} <= {
        one["key"] for one in found
    }
    for one in found:
        starts = dict(zip(one["ranks"], one["start_ns"], strict=True))
        assert one["last_rank"] == max(starts, key=lambda rank: starts[rank])
        assert one["skew_ns"] == max(starts.values()) - min(starts.values())
        for part in members(one):
            assert part["wait_ns"] + part["transfers_ns"] + part["end_noise_ns"] == part["end_ns"] - part["start_ns"]
            awaited = [starts[rank] for rank in part["awaits"] or one["ranks"]]
            assert part["wait_ns"] == max(awaited) - part["start_ns"] >= 0
            assert starts[part["waited_for"]] == max(awaited)
            assert part["transfers_ns"] > one["latency_ns"] - 1 > 0
        if one["is_barrier"]:
            assert min(one["end_ns"]) > max(one["start_ns"])
            assert len({end - noise for end, noise in zip(one["end_ns"], one["end_noise_ns"], strict=True)}) == 1


def check_causes(rank: RankTrace) -> None:
    """Work starts when the last of its causes allows it."""
    truth = rank.truth
    calls = dict(zip(*(truth["host_events"][name] for name in ("uid", "start_ns")), strict=True))
    table = {row["uid"]: row for row in rows(truth["gpu_events"])}
    for row in table.values():
        assert min(row["slack_ns"].values()) == 0 == row["slack_ns"][row["binding"]]
        start = row["start_ns"]
        if row["launch"] is not None and not truth["clocks"][rank.rank]["drift_ppm"]:
            assert start == calls[row["launch"]] + row["launch_latency_ns"] + row["slack_ns"]["launch"]
        if row["previous"] is not None:
            before = table[row["previous"]]
            assert before["stream"] == row["stream"]
            assert row["true_start_ns"] == before["true_end_ns"] + row["stream_gap_ns"] + row["slack_ns"]["stream"]
        ends = [table[uid]["true_end_ns"] for uid in row["awaited"]]
        if ends and "wait" in row["slack_ns"]:
            assert row["true_start_ns"] >= max(ends) + row["slack_ns"]["wait"]
        known = {"launch": [row["launch"]], "stream": [row["previous"]], "wait": row["awaited"]}
        assert row["binding_event"] is None or row["binding_event"] in known[row["binding"]]


def check_clocks(run: Run) -> None:
    """Traces show the times of their clocks."""
    for rank in run.ranks:
        clock = rank.truth["clocks"][rank.rank]

        def shown(time: int, clock: Json = clock) -> int:
            return time + clock["offset_ns"] + round((time - clock["at_ns"]) * clock["drift_ppm"] / 1e6)

        events = of(rank.trace, *GPU)
        for row in rows(rank.truth["gpu_events"]):
            assert span(events[row["uid"]]) == (shown(row["true_start_ns"]), shown(row["true_end_ns"]))
        for one in collectives(run):
            for part in members(one):
                if part["ranks"] == rank.rank and part["kernels"] is not None:
                    assert span(events[part["kernels"]]) == (part["recorded_start_ns"], part["recorded_end_ns"])
                    assert part["recorded_end_ns"] == shown(part["end_ns"])
