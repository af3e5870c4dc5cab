"""What a job of thousands of ranks costs: CPU time for each rank, and memory of the process that asks.

Ranks are simulated: tensor parallel groups of eight neighbours, data parallel groups across them, and one rank whose
kernels are slower. Their traces are small, so that ten thousand fit on a disk and two cores read them in minutes. What
a rank of 40,000 events leaves and costs is measured beside that, on a few of them.

    python benchmarks/many_ranks.py                   512 and 10,000 small ranks, 16 large ones
    python benchmarks/many_ranks.py --ranks 512       as many as you like

`beside` is CPU time of the tables of the screen, `path` of the critical path; kB are what the process that asks has at
most, beyond what it begins with.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from measure import printed

NEIGHBOURS = 8
SLOW = 5
MB = 1e6

ASKED = """
import json, resource, sys, time
from pathlib import Path
from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.critical_path.rank_answers import kept_rank
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.rank_collectives import ReadRank
from tracelens_graph.loading.many import load_core_set

folder, scheduler = json.loads(sys.argv[1])
def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def used():
    return [sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
files = sorted(map(str, Path(folder).iterdir()))
load_core_set(files[:1])  # imports
before, started, least = used(), time.perf_counter(), peak()
reads = ReadRank()
traces = load_core_set(files, leaves=reads, keeps=kept_rank, scheduler=scheduler)
read = used()
job = Job(reads.parts_of(traces), None, True, traces)
late = job.lateness
tables = job.tables()
done, seconds, screen = used(), time.perf_counter() - started, peak()
path = critical_path(traces)
print(json.dumps({
    "path_s": sum(used()) - sum(done), "path_peak": peak(), "segments": len(path), "least": least,
    "s": seconds, "client_read_s": read[0] - before[0], "workers_s": read[1] - before[1],
    "asked_s": done[0] - read[0], "peak": screen,
    "late": late and late.late, "collectives": len(job.matched), "late_ranks": len(tables["late_ranks"]),
}))
"""


def written(folder: Path, ranks: int, steps: int = 3, layers: int = 2, ops: int = 2, slower: float = 1.5) -> None:
    """Write the traces of a job in which rank `SLOW` computes slower.

    Args:
        folder: where to.
        ranks: how many, a multiple of `NEIGHBOURS`.
        steps, layers: each layer ends with an all-reduce of neighbours, each step with one across them.
        ops: ops of a layer, each with a launch and a kernel.
        slower: how much longer kernels of the slow rank take.
    """
    rng = np.random.default_rng(0)
    rank = np.arange(ranks)
    groups = (rank // NEIGHBOURS, rank % NEIGHBOURS)
    factor = np.where(rank == SLOW, slower, 1.0)
    now = rng.uniform(0, 20, ranks)
    begins, work, collectives = [], [], []
    for _ in range(steps):
        begins.append(now.copy())
        for layer in range(layers + 1):
            took = factor * rng.uniform(99, 101, ranks)
            work.append((now.copy(), took))
            came = now + took
            own = groups[layer == layers]
            last = np.zeros(own.max() + 1)
            np.maximum.at(last, own, came)
            now = last[own] + 40 + rng.uniform(0, 2, ranks)
            collectives.append((came, now - came, layer == layers))
    begins.append(now)
    for one in range(ranks):
        events = list(_events(one, ranks, ops, layers + 1, begins, work, collectives))
        text = json.dumps({"distributedInfo": {"rank": one, "world_size": ranks, "backend": "nccl"}})
        (folder / f"rank{one}.json").write_text(f'{text[:-1]}, "traceEvents": [{",".join(events)}]}}')


def _events(
    rank: int, ranks: int, ops: int, per_step: int, begins: list, work: list, collectives: list
) -> Iterator[str]:
    number = 0
    for step, (begin, end) in enumerate(pairwise(begins)):
        yield _event("user_annotation", f"ProfilerStep#{step}", 1, begin[rank], end[rank] - begin[rank])
    for at, ((start, took), (came, lasts, is_across)) in enumerate(zip(work, collectives, strict=True)):
        each = took[rank] / ops
        for op in range(ops):
            number += 1
            launched = start[rank] + 0.4 * op * each
            yield _event("cpu_op", "aten::mm", 1, launched, 0.3 * each)
            yield _event("cuda_runtime", "cudaLaunchKernel", 1, launched + 0.1 * each, 0.1 * each, correlation=number)
            moment = start[rank] + op * each + 0.05 * each
            yield _event("kernel", "gemm", 7, moment, 0.9 * each, correlation=number, stream=7, device=0)
        number += 1
        group = 1 + rank % NEIGHBOURS if is_across else 100 + rank // NEIGHBOURS
        first, size = rank - rank % NEIGHBOURS, ranks // NEIGHBOURS if is_across else NEIGHBOURS
        # The profiler writes no more than thirty ranks of a group.
        listed = "[...]" if is_across else str(list(range(first, first + NEIGHBOURS)))
        launched = start[rank] + 0.9 * took[rank]
        yield _event("cpu_op", "record_param_comms", 1, launched, 2)
        yield _event("cuda_runtime", "cudaLaunchKernel", 1, launched + 0.5, 1, correlation=number)
        args = {
            "correlation": number, "stream": 20, "device": 0, "Collective name": "allreduce", "dtype": "Float",
            "In msg nelems": 1048576, "Out msg nelems": 1048576, "Group size": size,
            "Process Group Name": str(group), "Process Group Ranks": listed, "Seq": at // per_step * per_step + at,
        }  # fmt: skip
        yield _event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", 20, came[rank], lasts[rank], **args)
        until = came[rank] + lasts[rank]
        yield _event("cuda_runtime", "cudaDeviceSynchronize", 1, launched + 3, until - launched - 3)


def _event(category: str, name: str, thread: int, start: float, length: float, **args: object) -> str:
    more = f', "args": {json.dumps(args)}' if args else ""
    return (
        f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 0, "tid": {thread}, '
        f'"ts": {start + 1000:.3f}, "dur": {max(length, 0.001):.3f}{more}}}'
    )


def large(ranks: int = 16) -> None:
    """What ranks of 40,000 events cost and leave."""
    from tracelens_graph.analyses.ranks.rank_collectives import ReadRank
    from tracelens_graph.loading.one import load_core

    with tempfile.TemporaryDirectory(prefix="tracelens_graph-bench-") as made:
        written(Path(made), ranks, steps=10, layers=49, ops=26)
        files = sorted(map(str, Path(made).iterdir()))
        load_core(files[0], processes=1)
        read_s = left_s = 0.0
        for file in files:
            started = time.process_time()
            core = load_core(file, processes=1)
            read = time.process_time()
            left = ReadRank()(core)
            read_s, left_s = read_s + read - started, left_s + time.process_time() - read
        print(
            f"{len(core.columns):,} events, {len(left[0].held):,} collectives: read {read_s / ranks:.3f} s, reduced "
            f"in {left_s / ranks:.3f} s to {len(pickle.dumps(left)) / 1e3:.0f} kB of {core.columns.nbytes / MB:.1f} MB"
        )
        row(made, ranks)


def row(folder: str, ranks: int) -> None:
    """A line of the table."""
    call = json.dumps([folder, None])
    found = printed(ASKED, call)
    beside = 1e3 * (found["client_read_s"] + found["asked_s"]) / ranks
    print(
        f"{ranks:6,}  {found['s']:7.1f}  {1e3 * found['workers_s'] / ranks:9.1f} ms  {beside:7.1f} ms  "
        f"{(found['peak'] - found['least']) / ranks / 1e3:9.0f}  {1e3 * found['path_s'] / ranks:7.1f} ms  "
        f"{(found['path_peak'] - found['least']) / ranks / 1e3:9.0f}  {found['collectives']:9,}  {found['late']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[512, 10_000], help="numbers of small ranks")
    parser.add_argument("--large", type=int, default=16, help="ranks of 40,000 events; 0 for none")
    options = parser.parse_args()
    print(" ranks        s   a rank read    beside  kB a rank     path  kB a rank  collectives  late")
    if options.large:
        large(options.large)
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory(prefix="tracelens_graph-bench-") as made:
            written(Path(made), ranks)
            row(made, ranks)


if __name__ == "__main__":
    main()
