"""Drawings of the ranks of a job: numbers are those of the tables, large jobs stay small."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_jobs import collective, rank
from to_draw import HOSTILE, hostile, large, late_job

from tracelens_graph.analyses.ranks import pictures
from tracelens_graph.analyses.ranks.held import Held
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.rank_collectives import GpuTime
from tracelens_graph.reports.picture import saved
from tracelens_graph.reports.ranks_picture import (
    collective_starts,
    drawings,
    ranks_picture,
    step_bars,
)

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def late() -> Job:
    return late_job()


def axes_of(job: Job) -> dict[str, Any]:
    """Axes of the drawings by their titles, those beside a drawing by what they measure."""
    return {one.get_title("left") or one.get_xlabel() or one.get_ylabel(): one for one in ranks_picture(job, "j").axes}


def one(axes: dict[str, Any], begin: str) -> Any:
    """The axes whose title begins so."""
    (found,) = [of for title, of in axes.items() if title.startswith(begin)]
    return found


def notes(job: Job) -> str:
    """What is said of what is not drawn."""
    return "\n".join(note for one in drawings(job) for note in one.notes)


def names(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def marks(axes: Any, name: str) -> list[list[float]]:
    return [point for of in axes.collections if of.get_label().strip() == name for point in of.get_offsets().tolist()]


def heat(axes: dict[str, Any]) -> tuple[Any, np.ndarray]:
    """The axes of waits, and what they show by rank and step."""
    waits = one(axes, "Waiting")
    return waits, waits.images[0].get_array()


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_the_heat_map_is_the_table_of_steps(late: Job) -> None:
    axes = axes_of(late)
    waits, shown = heat(axes)
    ranks, steps = names(waits.yaxis), names(waits.xaxis)
    records = late.table("rank_steps").records()
    assert len(records) == 12
    for row in records:
        at = ranks.index(f"rank {row['rank']}"), steps.index(str(row["step"]))
        assert shown[at] == pytest.approx(row["exposed_wait_ms"], abs=1e-4)
    held = [sum(row["held_up_ms"] for row in records if f"rank {row['rank']}" == name) for name in ranks]
    bars = one(axes, "held the others up").patches
    assert [bar.get_width() for bar in bars] == pytest.approx(held, abs=1e-3)
    assert int(np.argmax(held)) == 2
    assert marks(waits, "held the others up most") == [[step, 2] for step in range(3)]


def test_bandwidths_are_those_of_the_table(late: Job) -> None:
    axes = one(axes_of(late), "Bus bandwidth")
    drawn = {
        (of.get_label().split()[0], x, y)
        for of in axes.collections
        for x, y in of.get_offsets().tolist()
    }  # fmt: skip
    rows = late.table("rank_collectives").records()
    assert drawn == {(row["kind"], row["message_bytes"], row["busbw_gb_s"]) for row in rows}
    (line,) = axes.lines
    assert list(line.get_ydata()) == [rows[0]["peak_gb_s"]] * 2
    assert line.get_label() == f" links of NVIDIA H100 SXM5: {rows[0]['peak_gb_s']:,.0f} GB/s"


def test_lanes_add_up_to_the_recorded_times(late: Job) -> None:
    m = late.matched
    lanes = pictures.StepLanes.of(late)
    steps = [one for rank in m.ranks for one in rank.steps]
    numbers = {one.number for one in m.ranks[0].steps}
    durations = {n: sum(one.end_ns - one.start_ns for one in steps if one.number == n) for n in numbers}
    assert lanes.step == sorted(durations, key=lambda number: durations[number])[1]
    bars = {name: of for name, _, _, of in step_bars(lanes, late)}
    inside = np.clip(np.stack((m.start_ns, m.start_ns + m.wait_ns, m.end_ns)), lanes.begin_ns, lanes.end_ns)
    for name, ns in (
        ("waiting for other ranks", (inside[1] - inside[0]).sum()),
        ("communication", (inside[2] - inside[1]).sum()),
    ):
        assert bars[name][:, 2].sum() == pytest.approx(ns / 1e6, abs=1e-6)
    for place, ranked in enumerate(m.ranks):
        edges = (m.clock_ns(place, edges) for edges in ranked.gpu.computing)
        start, end = (np.clip(edge, lanes.begin_ns, lanes.end_ns) for edge in edges)
        drawn = bars["computing"][bars["computing"][:, 0] == place, 2].sum()
        assert drawn == pytest.approx((end - start).sum() / 1e6, abs=1e-6)
    assert all((of[:, 2] > 0).all() for of in bars.values())
    drawn_names = {of.get_label().strip() for of in one(axes_of(late), f"Step {lanes.step}").collections}
    assert bars.keys() <= drawn_names


def test_lines_join_the_starts_of_one_collective(late: Job) -> None:
    m, lanes = late.matched, pictures.StepLanes.of(late)
    x, y = collective_starts(lanes, late)
    ends = np.flatnonzero(np.isnan(x))
    there = [at for at in range(len(m)) if m.last_end_ns[at] > lanes.begin_ns and m.first_start_ns[at] < lanes.end_ns]
    starts = [[max(0, int(m.start_ns[one]) - lanes.begin_ns) / 1e6 for one in m.parts_of(at).tolist()] for at in there]
    assert [[at for at in part if at == at] for part in (of.tolist() for of in np.split(x, ends))] == starts
    assert all([at for at in of.tolist() if at == at] == [0, 1, 2, 3] for of in np.split(y, ends))
    late_marks = marks(one(axes_of(late), f"Step {lanes.step}"), "comes last")
    assert {round(y - 0.21, 2) for _, y in late_marks} == {2}


# --- jobs that lack something ----------------------------------------------------------------------------------------


def test_a_missing_rank_and_a_missing_step_leave_a_gap(late: Job) -> None:
    ranks = [one for one in late.matched.ranks if one.rank != 1]
    first = ranks[0]
    kept = [at for at, step in enumerate(first.step_of) if step > 0]
    ranks[0] = replace(
        first,
        steps=first.steps[1:],
        held=Held.of(first.held[at] for at in kept),
        step_of=tuple(first.step_of[at] - 1 for at in kept),
    )
    waits, shown = heat(axes_of(Job(ranks)))
    assert names(waits.yaxis) == ["rank 0", "rank 2", "rank 3"]
    assert np.ma.getmaskarray(shown).tolist() == [[True, False, False], [False] * 3, [False] * 3]


def test_without_steps_the_whole_recording_is_drawn(late: Job) -> None:
    ranks = [replace(one, steps=(), step_of=()) for one in late.matched.ranks]
    job = Job(ranks)
    axes = axes_of(job)
    waits, shown = heat(axes)
    balance = job.table("rank_balance")
    assert shown[:, 0].tolist() == pytest.approx(list(balance["exposed_wait_ms"]), abs=1e-4)
    assert names(waits.xaxis) == ["whole recording"]
    assert "The whole recording on all ranks" in axes
    lanes = pictures.StepLanes.of(job)
    assert lanes.end_ns == max(one.span_ns[1] for one in ranks)


def test_steps_without_numbers_are_counted(late: Job) -> None:
    ranks = [replace(one, steps=tuple(replace(s, number=None) for s in one.steps)) for one in late.matched.ranks]
    assert names(heat(axes_of(Job(ranks)))[0].xaxis) == ["0", "1", "2"]


def test_without_collectives_there_are_lanes_alone() -> None:
    busy = GpuTime((np.array([0]), np.array([1_000_000])), (np.array([0]), np.array([1_000_000])))
    job = Job([rank(number, (), gpu=busy) for number in range(2)])
    assert len(drawings(job)) == 1
    assert step_bars(pictures.StepLanes.of(job), job)[0][3].tolist() == [[0, 0, 1], [1, 0, 1]]
    assert drawings(Job([rank(0, ()), rank(1, ())])) == []


def test_what_has_no_size_is_counted() -> None:
    held = [
        (collective(0, "allreduce", None, key="coll:0:-:0"), 0, 1000),
        (collective(1, "barrier", 1, key="coll:0:-:1"), 2000, 3000),
    ]
    job = Job([rank(0, held), rank(1, held)])
    assert "not drawn, since size or bandwidth are not known: 1 allreduce, 1 barrier" in notes(job)
    assert not [title for title in axes_of(job) if title.startswith("Bus bandwidth")]


# --- large jobs ------------------------------------------------------------------------------------------------------


def test_large_jobs_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    job = large(20, 30, 4)
    for module, name, most in (
        (pictures, "MOST_RANKS", 8), (pictures, "MOST_STEPS", 10), (pictures, "MOST_POINTS", 25),
        (pictures, "MOST_LANES", 6), (pictures, "MOST_PARTS", 13), (pictures, "MOST_BARS", 100),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, most)
    axes = axes_of(job)
    waits, shown = heat(axes)
    ranks = names(waits.yaxis)
    assert shown.shape == (8, 10)
    assert names(waits.xaxis)[0] == "0-2"
    held = np.array(job.table("rank_balance")["held_up_ms"])
    assert {f"rank {at}" for at in np.argsort(-held, kind="stable")[:4]} <= set(ranks)
    mean = np.mean([row["exposed_wait_ms"] for row in job.table("rank_steps").records()
                    if row["step"] < 3 and f"rank {row['rank']}" == ranks[0]])  # fmt: skip
    assert shown[0, 0] == pytest.approx(mean, abs=1e-4)
    assert sum(len(of.get_offsets()) for of in one(axes, "Bus bandwidth").collections) == 25
    assert sum(len(of) for *_, of in step_bars(pictures.StepLanes.of(job), job)) <= 100 + 2 * 13
    assert len(names(one(axes, "Step").yaxis)) == 6
    for note in ("8 of 20 ranks are drawn", "each column is the mean of up to 3 steps, of 30", "25 of ",
                 "6 of 20 ranks are drawn", "parts of shorter collectives are drawn without lines",
                 "between bars are not drawn"):  # fmt: skip
        assert note in notes(job)


def test_what_is_chosen_is_what_weighs_most_and_the_rest_evenly() -> None:
    assert pictures.chosen(np.array([0, 0, 5, 0]), 4).tolist() == [0, 1, 2, 3]
    assert pictures.chosen(np.array([0] * 7 + [3, 9, 0]), 4).tolist() == [0, 7, 8, 9]
    assert pictures.chosen(np.zeros(9), 3).tolist() == [0, 4, 8]


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["png", "svg"])
def test_names_stay_texts_in_a_picture(form: str) -> None:
    content = saved(ranks_picture(Job(hostile(HOSTILE)), HOSTILE), form, "ranks")
    assert b"tracelens_graph " in content[:4096]
    if form == "svg":
        root = ElementTree.fromstring(content)
        assert not [one for one in root.iter() if one.tag.rpartition("}")[2] in ("script", "a")]
        assert "$\\alpha$" in "".join(root.itertext())


def test_a_picture_shows_what_the_page_shows(late: Job) -> None:
    first, second = (saved(ranks_picture(late, "job"), "svg", "ranks") for _ in range(2))
    assert first == second
    words = "".join(ElementTree.fromstring(first).itertext())
    for drawing in drawings(late):
        assert (drawing.title in words) == (drawing.draw is not None)
    assert "rank 3" in words
