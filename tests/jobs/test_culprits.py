"""The first screen of each planted job names every culprit and no healthy rank; so do JSON, the page and Python."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted import PLANTED
from simulated_jobs import Cause, Job, simulated, write
from typer.testing import CliRunner

import tracelens_graph as tlg
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.cli.app import app

_LATE = Cause("python", (1,), us=2500)


def ranks(*arguments: object) -> str:
    """What `ranks` prints."""
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["ranks", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def named_in(text: str) -> set[int]:
    """Ranks that a text names by numbers: `rank 3`, `ranks 4-7 and 9`."""
    found: set[int] = set()
    for numbers in re.findall(r"\branks? ((?:\d+(?:-\d+)?(?:, | and )?)+)", text):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
            found.update(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.IncompleteSetWarning")
@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.DamagedTraceWarning")
@pytest.mark.parametrize("name", PLANTED)
def test_every_culprit_is_named_and_no_healthy_rank(name: str, tmp_path: Path) -> None:
    planted = PLANTED[name]
    screen = ranks(write(planted.job, tmp_path / name))
    late = [line for line in screen.splitlines() if line.startswith("late: ")]
    who = [line.partition(", by ")[0] for line in late]
    assert named_in("; ".join(who)) == set(planted.ranks), screen
    assert len(late) == len({one.partition(" in step")[0] for one in who}), screen  # one line for the same ranks
    assert all(word in screen.partition("Times of a step")[0].lower() for word in planted.words), screen
    assert screen.count("as it comes from another run") == len(planted.job.foreign), screen


def test_one_mechanism_for_all_forms(tmp_path: Path) -> None:
    folder = write(PLANTED["two_culprits"].job, tmp_path / "job")
    late = [line for line in ranks(folder).splitlines() if line.startswith("late: ")]
    assert len(late) == 2
    found = json.loads(ranks(folder, "-f", "json"))
    assert found["late"] == late
    rows = tlg.rank_tables(tlg.load_set(folder))["culprits"].records()
    assert [row["ranks"] for row in rows] == ["[2]", "[5]"]
    assert [row["reason"] for row in rows] == ["data_loader", "python"]
    assert [row["step_ms"] for row in rows] == pytest.approx([3.0, 2.5], rel=0.02)
    ranks(folder, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(line.partition(":")[2].partition("(")[0].strip() in page for line in late)


def without_end(path: Path) -> None:
    """Write a file as the profiler does, facts last, and cut away its end."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    last = {key: trace.pop(key) for key in ("baseTimeNanoseconds",)}
    events = trace.pop("traceEvents")
    events.sort(key=lambda one: one["ts"])
    text = json.dumps(trace | {"traceEvents": events} | last)
    path.write_bytes(gzip.compress(text[: len(text) * 3 // 5].encode()))


@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.DamagedTraceWarning")
def test_the_late_rank_is_named_where_the_end_of_its_file_is_missing(tmp_path: Path) -> None:
    folder = write(PLANTED["python"].job, tmp_path / "job")
    without_end(folder / "rank6.json.gz")
    screen = ranks(folder)
    assert "late: rank 6" in screen
    assert "another run" not in screen
    assert "2 hosts" not in screen
    offsets = [one.offset_ns for one in tlg.load_set(folder)]
    assert max(offsets) - min(offsets) < 10**9


@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.IncompleteSetWarning")
def test_a_slowdown_by_missing_ranks_says_so(tmp_path: Path) -> None:
    job = Job(causes=(Cause("python", (6,), us=6000, steps=(2,)),))
    line = next(line for line in ranks(write(job, tmp_path / "all")).splitlines() if line.startswith("slowdown"))
    assert "missing" not in line
    screen = ranks(write(replace(job, missing=(6,)), tmp_path / "some"))
    line = next(line for line in screen.splitlines() if line.startswith("slowdown"))
    assert "ranks that are missing" in line


@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.IncompleteSetWarning")
def test_the_slowdown_without_a_file_is_that_of_the_job(tmp_path: Path) -> None:
    job, found = PLANTED["missing_stage"].job, []
    for name, missing in (("all", ()), ("some", job.missing)):
        screen = ranks(write(replace(job, missing=missing), tmp_path / name))
        line = next(line for line in screen.splitlines() if line.startswith("slowdown"))
        assert "rank6 alone" in line
        found.append(float(re.findall(r"slowdown: ([\d.]+) times", line)[0]))
    assert found[0] > 1.1
    assert found[1] == pytest.approx(found[0], rel=0.02)


def test_a_file_of_the_same_program_of_another_run_is_left_out(tmp_path: Path) -> None:
    """Its collectives have the same numbers, but it leaves them when no other rank of its host does."""
    job = Job(causes=(_LATE,))
    folder = write(job, tmp_path / "job")
    other = write(replace(job, seed=77, causes=()), tmp_path / "other")
    (folder / "rank4.json.gz").write_bytes((other / "rank4.json.gz").read_bytes())
    screen = ranks(folder)
    assert "rank4 is left out, as it comes from another run" in screen
    late = [line.partition(", by ")[0] for line in screen.splitlines() if line.startswith("late: ")]
    assert late == ["late: rank 1"], screen


@pytest.mark.parametrize("name", ["healthy_pipeline_of_hosts", "rank_in_pipeline_of_hosts"])
def test_transfers_show_how_far_clocks_are_apart(name: str, tmp_path: Path) -> None:
    """Where stages are hosts, nothing but transfers goes between these."""
    causes = () if name.startswith("healthy") else (Cause("slower_kernels", (9,), factor=1.7),)
    clocks = (0, 7_300, -12_000, 21_000)
    job = Job(ranks=16, per_host=4, pipeline=4, tensor=2, clocks_us=clocks, causes=causes)
    found = MatchedCollectives(tlg.load_set(write(job, tmp_path / "job")))
    assert found.unknown_clocks == 0
    ahead = found.clocks.offset_ns / 1e3
    assert np.abs(ahead - ahead[0] - np.array(clocks)).max() < 200
    line = next(line for line in ranks(tmp_path / "job").splitlines() if line.startswith("slowdown"))
    assert "rank9 alone" in line if causes else "1.0" in line.partition(" times")[0]
    assert "uneven stages" not in line


def with_kernels(path: Path) -> None:
    """Add a kernel to each step of a file."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    steps = [one for one in trace["traceEvents"] if one["name"].startswith("ProfilerStep")]
    for at, step in enumerate(steps, 90_000):
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": step["pid"], "tid": step["tid"],
                "ts": step["ts"] + 1, "dur": 2, "args": {"correlation": at}}  # fmt: skip
        kernel = {"ph": "X", "cat": "kernel", "name": "gelu", "pid": 0, "tid": 7, "ts": step["ts"] + 5, "dur": 9,
                  "args": {"correlation": at, "device": 0, "stream": 7}}  # fmt: skip
        trace["traceEvents"] += [call, kernel]
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))


def test_collectives_on_the_host_are_of_steps_beside_kernels(tmp_path: Path) -> None:
    folder = write(PLANTED["gloo"].job, tmp_path / "job")
    for path in folder.iterdir():
        with_kernels(path)
    late = [line for line in ranks(folder).splitlines() if line.startswith("late: ")]
    assert len(late) == 1
    assert late[0].startswith("late: rank 2, by ")
    assert " a step, " in late[0]


@pytest.mark.parametrize(
    ("name", "saves"),
    [("loader", "14.9 ms"), ("fsdp", "5.65 ms"), ("rank_in_pipeline", "790 us"), ("more_work", "4.38 ms")],
)
def test_a_repair_saves_what_a_replay_says(name: str, saves: str, tmp_path: Path) -> None:
    assert f"saves {saves} (" in ranks(write(PLANTED[name].job, tmp_path))


@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.IncompleteSetWarning")
def test_a_step_that_a_rank_lacks_is_judged_by_the_others(tmp_path: Path) -> None:
    folder = write(PLANTED["begins_late"].job, tmp_path / "job")
    screen = ranks(folder, "--step", 4)
    assert "late: rank 3, by 2.9" in screen
    assert "nothing of rank 6 in step 4, or no file" in screen
    failed = CliRunner().invoke(app, ["ranks", str(folder), "--step", "70"])
    assert failed.exit_code
    assert "no step 70; steps in it: 3-7" in failed.output


def test_a_cost_in_a_step_is_a_share_of_that_step(tmp_path: Path) -> None:
    folder = write(Job(ranks=4, steps=4, causes=(Cause("python", (2,), us=4000, steps=(2,)),)), tmp_path)
    screens = ranks(folder, "--step", 5), ranks(folder, "--step", 5, "--what-if", "repair=2")
    patterns = r"late: rank 2, by [\d.]+ ms \(([\d.]+) % of step 5\)", r"saves [\d.]+ ms, ([\d.]+) %"
    late, saved = (
        float(re.findall(pattern, " ".join(screen.split()))[0])
        for pattern, screen in zip(patterns, screens, strict=True)
    )
    assert late == pytest.approx(saved, abs=0.5)


def test_what_a_culprit_costs_is_what_a_replay_says(tmp_path: Path) -> None:
    """A delay counts in every transfer that it delays, and only a replay shows what it costs in all."""
    late = [
        line for line in ranks(write(PLANTED["rank_in_pipeline"].job, tmp_path)).splitlines() if line[:5] == "late:"
    ]
    assert len(late) == 1
    assert float(re.findall(r"([\d.]+) % of the recording", late[0])[0]) < 1.0


@pytest.mark.parametrize(("factor", "true_us"), [(1.03, 289), (1.04, 406), (1.06, 639)])
def test_what_a_rank_costs_that_is_a_little_slower(factor: float, true_us: int, tmp_path: Path) -> None:
    """Truth is the same job simulated without it; kernels of one name differ by more than the factor."""
    late = ranks(write(Job(steps=3, causes=(Cause("slower_kernels", (4,), factor=factor),)), tmp_path))
    (found,) = re.findall(r"late: rank 4, by [\d.]+ us a step, ([\d.]+) us", late)
    assert float(found) == pytest.approx(true_us, abs=10)


def _length_ms(job: Job) -> float:
    return (
        max(one["ts"] + one["dur"] for rank in simulated(job) for one in rank.events if "device" in one["args"]) / 1e3
    )


_IN_MS = {"us": 1e-3, "ms": 1.0}


@pytest.mark.parametrize(
    "name", ["one_step_of_few_kernels", "host_of_few_kernels", "half_of_ranks", "half_of_ranks_in_a_step"]
)
def test_what_slower_kernels_cost_is_what_the_job_takes_less_without(name: str, tmp_path: Path) -> None:
    job = PLANTED[name].job
    truth = _length_ms(job) - _length_ms(replace(job, causes=()))
    screen = ranks(write(job, tmp_path))
    (late,) = (line for line in screen.splitlines() if line.startswith("late: "))
    by, unit = re.findall(r"([\d.]+) (ms|us) \(", late)[0]
    assert float(by) * _IN_MS[unit] == pytest.approx(truth, rel=0.03), screen
    saved, unit = re.findall(r"saves ([\d.]+) (ms|us) \(", screen)[0]
    assert float(saved) * _IN_MS[unit] == pytest.approx(truth, rel=0.03), screen
    assert "once no other rank is late" not in screen


_IN_STAGES = {"slow_rank_in_two_steps": ((2,), {"factor": 1.5, "steps": (1, 4)}, ()),
              "slow_rank_behind_a_slow_link": ((3,), {"factor": 1.2}, (((1, 2), 0.05),)),
              "slow_stages_in_turn": ((0, 1, 2, 3), {"factor": 1.5, "moves": True}, ())}  # fmt: skip


@pytest.mark.parametrize("name", _IN_STAGES)
def test_what_ranks_of_a_pipeline_cost_is_what_the_job_takes_less_without(name: str, tmp_path: Path) -> None:
    """A cause counts in its steps alone, and what hides behind a slow link as if that were mended."""
    slow, more, links = _IN_STAGES[name]
    job = Job(ranks=4, pipeline=4, steps=8, seed=17, slow=links, causes=(Cause("slower_kernels", slow, **more),))
    whole = replace(job, slow=())
    truth = _length_ms(whole) - _length_ms(replace(whole, causes=()))
    screen = ranks(write(job, tmp_path))
    late = [line for line in screen.splitlines() if line.startswith("late: ")]
    assert len(late) == 1, screen
    assert named_in(late[0].partition(", by ")[0]) >= set(slow), screen
    assert float(re.findall(r"([\d.]+) ms \(", late[0])[0]) == pytest.approx(truth, rel=0.03), screen
    assert ("once slow links are mended" in late[0]) == bool(links)
    assert (" in steps 4 and 7, by" in late[0]) == ("steps" in more)
    (factor,) = re.findall(r"all kernels ([\d.]+)x", late[0])  # of the steps that it strikes
    assert float(factor) == pytest.approx(more["factor"], abs=0.02)


def test_late_ranks_of_unlike_steps_have_costs_of_their_own(tmp_path: Path) -> None:
    slow = Cause("slower_kernels", (2,), factor=1.25), Cause("slower_kernels", (5,), factor=1.4, steps=(1, 4))
    job = Job(steps=6, seed=581, causes=slow)
    folder, sound = write(job, tmp_path), _length_ms(replace(job, causes=()))
    found = re.findall(r"(?m)^late: (.*), by .* a step, ([\d.]+) ms .*all kernels ([\d.]+)x", ranks(folder))
    assert [who for who, *_ in found] == ["rank 2", "rank 5 in steps 4 and 7"]
    for (_, by, factor), cause in zip(found, slow, strict=True):
        assert float(by) == pytest.approx(_length_ms(replace(job, causes=(cause,))) - sound, rel=0.02)
        assert float(factor) == pytest.approx(cause.factor, abs=0.01)


def test_host_time_on_the_last_of_interleaved_stages_costs_what_it_does(tmp_path: Path) -> None:
    """Its sends end soon: nothing shows whether it waits for them, as the first stage does not."""
    job = Job(ranks=2, pipeline=2, virtual=2, steps=2, seed=743, causes=(Cause("op", (1,), us=2500),))
    truth = _length_ms(job) - _length_ms(replace(job, causes=()))
    (by,) = re.findall(r"(?m)^late: rank 1, by .* a step, ([\d.]+) ms", ranks(write(job, tmp_path)))
    assert float(by) == pytest.approx(truth, rel=0.01)


def test_repaired_host_time_of_a_first_stage_is_all_of_it(tmp_path: Path) -> None:
    """Calls of another stage have equal names, though its backward thread hands over other ones of them."""
    job = Job(ranks=4, pipeline=2, steps=3, layers=3, seed=7002, causes=(Cause("python", (1,), us=5000, steps=(1,)),))
    truth = _length_ms(job) - _length_ms(replace(job, causes=()))
    screen = ranks(write(job, tmp_path), "--what-if", "repair=1")
    (saved,) = re.findall(r"saves ([\d.]+) ms", screen)
    assert float(saved) == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize(
    ("kind", "where", "job"),
    [
        ("more_gpu_work", {"us": 800.0}, Job(ranks=4, pipeline=2, steps=4, layers=3, seed=6601)),
        ("other_inputs", {"factor": 1.5}, Job(ranks=4, pipeline=2, tensor=2, steps=4, layers=3, seed=6604)),
    ],
)
def test_all_ranks_of_a_stage_that_are_struck_in_turn(
    kind: str, where: dict[str, float], job: Job, tmp_path: Path
) -> None:
    """In half of its steps each of the two looks faster than its like, which is struck then."""
    job = replace(job, causes=(Cause(kind, (0, 1), moves=True, **where),))
    truth = _length_ms(job) - _length_ms(replace(job, causes=()))
    found = re.findall(r"(?m)^late: (.*), by .* a step, ([\d.]+) ms .*in all: ([a-z ]+)", ranks(write(job, tmp_path)))
    assert [(who, why.strip()) for who, _, why in found] == [("ranks 0 and 1 in turn", kind.replace("_", " "))]
    assert float(found[0][1]) == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize(
    "job",
    [
        Job(ranks=8, pipeline=2, steps=6, seed=531, causes=(Cause("slower_kernels", (5,), factor=1.5, steps=(2,)),)),
        # Half of all that runs the same is slow in a step, and has a mean above what it takes in the others.
        Job(ranks=4, pipeline=2, steps=4, seed=7003, causes=(Cause("slower_kernels", (1,), factor=2.0, steps=(1,)),)),
    ],
    ids=["one_of_four", "one_of_two"],
)
def test_a_rank_of_a_stage_that_is_slow_in_a_step_is_named_there_alone(job: Job, tmp_path: Path) -> None:
    (cause,), folder = job.causes, write(job, tmp_path)
    truth = _length_ms(job) - _length_ms(replace(job, causes=()))
    (name,), (at,) = cause.ranks, cause.steps
    for more, when in (((), f" in step {at + 3}"), (("--step", at + 3), "")):
        screen = ranks(folder, *more)
        found = re.findall(r"(?m)^late: (.*), by ([\d.]+) ms \(", screen)
        assert [who for who, _ in found] == [f"rank {name}{when}"]
        assert float(found[0][1]) == pytest.approx(truth, rel=0.05)
    assert f"saves about {found[0][1]} ms" in screen
    assert "late: " not in ranks(folder, "--step", at + 4)


def test_a_step_in_which_nothing_is_slow_names_nobody(tmp_path: Path) -> None:
    slow = (Cause("slower_kernels", (2,), factor=1.5, steps=(1, 4)),)
    folder = write(Job(ranks=4, pipeline=4, steps=6, seed=17, causes=slow), tmp_path)
    assert "late: rank 2, by" in ranks(folder, "--step", 4)
    assert "late: " not in ranks(folder, "--step", 5)


def test_who_is_last_nearly_always_costs_no_more_than_its_work_takes_longer(tmp_path: Path) -> None:
    """In a pipeline a delay counts in many transfers: those of this rank add up to most of the recording."""
    slow = (Cause("slower_kernels", (4,), factor=1.015),)
    screen = ranks(write(Job(ranks=8, pipeline=4, tensor=2, steps=3, jitter=0.002, causes=slow), tmp_path))
    (cost,) = re.findall(r"rank 4 is last to .* that costs at most ([\d.]+) % of the recording", screen)
    assert 0.3 < float(cost) < 2


def test_a_step_has_the_slowdown_of_the_recording_in_a_table_alone(tmp_path: Path) -> None:
    folder = write(PLANTED["clock"].job, tmp_path / "job")
    screens = ranks(folder), ranks(folder, "--step", 4)
    assert ["slowdown: " in screen for screen in screens] == [True, False]
    whole, step = (
        next(line for line in ranks(folder, *more, "--table", "slowdown").splitlines() if line.startswith("job"))
        for more in ((), ("--step", 4))
    )
    assert step == whole


SHAPES = {
    "ddp": {},
    "fsdp": {"style": "fsdp"},
    "moe": {"style": "moe"},
    "tensor": {"tensor": 4},
    "pipeline": {"pipeline": 4},
}


@pytest.mark.parametrize("jitter", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
def test_jitter_makes_nobody_late(shape: str, jitter: float, tmp_path: Path) -> None:
    screen = ranks(write(Job(ranks=16, jitter=jitter, seed=1, **SHAPES[shape]), tmp_path))
    assert not [line for line in screen.splitlines() if line.startswith("late: ")], screen


@pytest.mark.parametrize(
    ("shape", "jitter", "seed"),
    [("fsdp", 0.2, 2), ("fsdp", 0.1, 3), ("fsdp", 0.3, 3), ("pipeline", 0.3, 2), ("gloo", 0.2, 4), ("gloo", 0.1, 5)],
)
def test_nobody_is_late_by_what_a_replay_says_is_chance(shape: str, jitter: float, seed: int, tmp_path: Path) -> None:
    shaped = {**SHAPES, "gloo": {"gloo": True}}[shape]
    screen = ranks(write(Job(ranks=16, jitter=jitter, seed=seed, **shaped), tmp_path))
    assert not [line for line in screen.splitlines() if line.startswith("late: ")], screen


def test_a_slow_stage_is_named_that_keeps_its_pipeline_busy(tmp_path: Path) -> None:
    slow = (Cause("slower_kernels", (4, 5), factor=1.4),)
    screen = ranks(write(Job(ranks=8, pipeline=4, microbatches=6, layers=3, causes=slow), tmp_path))
    late = [line.partition(", by ")[0] for line in screen.splitlines() if line.startswith("late: ")]
    assert late == ["late: stage 2 (ranks 4 and 5)"], screen


@pytest.mark.parametrize("shape", SHAPES)
def test_a_slow_rank_is_named_through_jitter(shape: str, tmp_path: Path) -> None:
    slow = (Cause("slower_kernels", (6,), factor=1.5),)
    screen = ranks(write(Job(ranks=16, jitter=0.1, seed=1, causes=slow, **SHAPES[shape]), tmp_path))
    late = [line.partition(", by ")[0] for line in screen.splitlines() if line.startswith("late: ")]
    assert named_in("; ".join(late)) == {6}, screen


def test_no_step_of_a_sound_job_names_a_rank(tmp_path: Path) -> None:
    folder = write(Job(ranks=16, per_host=4, tensor=2, jitter=0.05, seed=70), tmp_path)
    screen = ranks(folder, "--step", "4")
    assert not [line for line in screen.splitlines() if line.startswith("late: ")], screen
