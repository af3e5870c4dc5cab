"""How far `what_if` is off, over edits drawn at random of jobs drawn at random.

The jobs are those of the tests' simulation, which shares no code with the package, run once as recorded and once with
the edit made. An error is the difference between both lengths, as a share of that of the changed job.

    python benchmarks/edits.py            48 edits: 24 of kernels, 24 of bandwidths
    python benchmarks/edits.py --jobs 30  four edits of each job
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import tracelens_graph as tlg

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "jobs")]
from simulated_jobs import Cause, Job, simulated, write  # noqa: E402

KERNELS = ("gemm", "vectorized*", "multi_tensor", "memcpy")
SHAPES = (
    {"pipeline": 2}, {"pipeline": 4}, {"pipeline": 2, "virtual": 2, "layers": 1}, {"pipeline": 2, "tensor": 2}, {},
    {"style": "fsdp"}, {"style": "moe"}, {"style": "ring"}, {"tensor": 4}, {"tensor": 2, "style": "fsdp"},
)  # fmt: skip


def length_ns(job: Job) -> float:
    """From the first event of a simulated job to its last GPU end, by the simulation alone."""
    events = [one for rank in simulated(job) for one in rank.events]
    first = min(one["ts"] for one in events)
    return 1e3 * float(max(one["ts"] + one["dur"] for one in events if "device" in one["args"]) - first)


def drawn(rng: np.random.Generator, number: int) -> Job:
    """A job of four ranks on one host."""
    given = {"ranks": 4, "steps": 2, "layers": 2, "microbatches": int(rng.integers(1, 5))} | SHAPES[
        number % len(SHAPES)
    ]
    return Job(
        **given,
        sync=bool(rng.integers(2)),
        jitter=float(rng.choice([0.0, 0.01, 0.05])),
        gb_s=float(rng.choice([10, 20, 40, 80, 160])),
        kernel_us=float(rng.choice([60, 250, 600])),
        seed=number,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=12)
    jobs, rng = parser.parse_args().jobs, np.random.default_rng(0)
    errors: dict[str, list[float]] = {"scale": [], "bandwidth": []}
    outside = dict.fromkeys(errors, 0)
    for number in range(jobs):
        job = drawn(rng, number)
        with tempfile.TemporaryDirectory(prefix="tracelens_graph-bench-") as made:
            ranks = tlg.load_set(str(write(job, Path(made))))
            for edit, factor in [
                ("scale", factor) for factor in rng.choice([0.5, 0.7, 0.9, 1.3, 2.0], 2, replace=False).tolist()
            ] + [("bandwidth", factor) for factor in rng.choice([0.5, 1.5, 2.0, 4.0, 10.0], 2, replace=False).tolist()]:
                if edit == "scale":
                    slower = Cause("slower_kernels", tuple(range(job.ranks)), factor=factor)
                    truth, change = length_ns(replace(job, causes=(slower,))), dict.fromkeys(KERNELS, factor)
                else:
                    truth, change = length_ns(replace(job, gb_s=job.gb_s * factor)), {"all": factor}
                found = tlg.what_if(ranks, **{edit: change})
                error = 100 * (found.changed_ns - truth) / truth
                errors[edit].append(abs(error))
                is_in = found.least_ns * 0.998 <= truth <= found.most_ns * 1.002
                outside[edit] += not is_in
                print(
                    f"{edit:9} {factor:4} {error:+8.3f} %{'' if is_in else ' (not within the bounds)':24} {job}"[:150],
                    flush=True,
                )
    for edit, found in errors.items():
        print(
            f"{edit}: {len(found)} edits, mean error {np.mean(found):.3f} %, largest {max(found):.2f} %, "
            f"{outside[edit]} not within the bounds"
        )


if __name__ == "__main__":
    main()
