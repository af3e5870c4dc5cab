"""Drawings of the ranks of a job: numbers are those of the tables, large jobs stay small."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from jobs_to_draw import HOSTILE, hostile, large, late_job
from made_jobs import collective, rank

from tracelens_graph.analyses.rank_pictures import bandwidth_points, step_lanes, wait_map
from tracelens_graph.analyses.ranks.attendance import GpuTime
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.reports.picture import FORMATS
from tracelens_graph.reports.ranks_drawings import drawings
from tracelens_graph.reports.ranks_picture import write_ranks_picture


@pytest.fixture(scope="module")
def late() -> Job:
    return late_job()


def figures(job: Job) -> dict[str, Any]:
    """What is drawn, by name."""
    return {one.name: one.figure for one in drawings(job) if one.figure}


def notes(job: Job) -> str:
    """What is said of what is not drawn."""
    return "\n".join(note for one in drawings(job) for note in one.notes)


def part(figure: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in figure["data"] if one.get("name", "").startswith(name)]
    return dict(found)


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_the_heat_map_is_the_table_of_steps(late: Job) -> None:
    figure = figures(late)["waits"]
    heat, marks, bars = figure["data"]
    records = late.table("rank_steps").records()
    assert len(records) == 12
    for row in records:
        at, step = heat["y"].index(f"rank {row['rank']}"), heat["x"].index(str(row["step"]))
        assert heat["z"][at][step] == pytest.approx(row["exposed_wait_ms"], abs=1e-4)
    held = {name: sum(row["held_up_ms"] for row in records if f"rank {row['rank']}" == name) for name in heat["y"]}
    assert dict(zip(bars["y"], bars["x"], strict=True)) == pytest.approx(held, abs=1e-3)
    assert max(held, key=lambda name: held[name]) == "rank 2"
    assert marks["y"] == ["rank 2"] * 3
    assert marks["x"] == heat["x"]


def test_bandwidths_are_those_of_the_table(late: Job) -> None:
    figure = figures(late)["bandwidths"]
    drawn = {
        (data["name"].partition(" ")[0], x, y)
        for data in figure["data"]
        if data["mode"] == "markers"
        for x, y in zip(data["x"], data["y"], strict=True)
    }
    rows = late.table("rank_collectives").records()
    assert drawn == {(row["kind"], row["message_bytes"], float(f"{row['busbw_gb_s']:.6g}")) for row in rows}
    (line,) = [data for data in figure["data"] if data["mode"] == "lines"]
    assert line["y"] == [rows[0]["peak_gb_s"]] * 2
    assert line["name"] == f"links of NVIDIA H100 SXM5: {rows[0]['peak_gb_s']:,.0f} GB/s"


def test_lanes_add_up_to_the_recorded_times(late: Job) -> None:
    m = late.meetings
    lanes = step_lanes.StepLanes.of(late)
    steps = [one for rank in m.attendances for one in rank.steps]
    numbers = {one.number for one in m.attendances[0].steps}
    durations = {n: sum(one.end_ns - one.start_ns for one in steps if one.number == n) for n in numbers}
    assert lanes.step == sorted(durations, key=lambda number: durations[number])[1]
    figure = figures(late)["step"]
    inside = np.clip(np.stack((m.start_ns, m.start_ns + m.wait_ns, m.end_ns)), lanes.begin_ns, lanes.end_ns)
    for name, ns in (
        ("waiting for other ranks", (inside[1] - inside[0]).sum()),
        ("communication", (inside[2] - inside[1]).sum()),
    ):
        assert sum(part(figure, name)["x"]) == pytest.approx(ns / 1e6, abs=1e-6)
    computing = part(figure, "computing")
    for place, one in enumerate(m.attendances):
        start, end = (np.clip(m.clock_ns(place, edges), lanes.begin_ns, lanes.end_ns) for edges in one.gpu.computing)
        drawn = [x for x, y in zip(computing["x"], computing["y"], strict=True) if round(y + 0.21, 2) == place]
        assert sum(drawn) == pytest.approx((end - start).sum() / 1e6, abs=1e-6)
    assert all(x > 0 for data in figure["data"] if data["type"] == "bar" for x in data["x"])


def test_lines_join_the_starts_of_one_collective(late: Job) -> None:
    m, lanes = late.meetings, step_lanes.StepLanes.of(late)
    line = part(figures(late)["step"], "start of one collective")
    drawn: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(line["x"], line["y"], strict=True):
        if x is None:
            drawn.append([])
        else:
            drawn[-1].append((x, y))
    assert drawn.pop() == []
    there = [at for at in range(len(m)) if m.last_end_ns[at] > lanes.begin_ns and m.first_start_ns[at] < lanes.end_ns]
    starts = [[max(0, int(m.start_ns[one]) - lanes.begin_ns) / 1e6 for one in m.parts_of(at).tolist()] for at in there]
    assert [[x for x, _ in points] for points in drawn] == starts
    assert all([round(y - 0.21, 2) for _, y in points] == [0, 1, 2, 3] for points in drawn)
    marks = part(figures(late)["step"], "comes last")
    assert {round(y - 0.21, 2) for y in marks["y"]} == {2}


# --- jobs that lack something ----------------------------------------------------------------------------------------


def test_a_missing_rank_and_a_missing_step_leave_a_gap(late: Job) -> None:
    ranks = [one for one in late.meetings.attendances if one.rank != 1]
    first = ranks[0]
    kept = [at for at, step in enumerate(first.step_of) if step > 0]
    ranks[0] = replace(
        first,
        steps=first.steps[1:],
        held=tuple(first.held[at] for at in kept),
        step_of=tuple(first.step_of[at] - 1 for at in kept),
    )
    heat = figures(Job(ranks))["waits"]["data"][0]
    assert heat["y"] == ["rank 0", "rank 2", "rank 3"]
    assert [[cell is None for cell in row] for row in heat["z"]] == [[True, False, False], [False] * 3, [False] * 3]


def test_without_steps_the_whole_recording_is_drawn(late: Job) -> None:
    ranks = [replace(one, steps=(), step_of=()) for one in late.meetings.attendances]
    job = Job(ranks)
    waits = figures(job)["waits"]
    balance = job.table("rank_balance")
    assert [row[0] for row in waits["data"][0]["z"]] == pytest.approx(list(balance["exposed_wait_ms"]), abs=1e-4)
    assert waits["data"][0]["x"] == ["whole recording"]
    assert "The whole recording on all ranks" in [one.title for one in drawings(job)]
    lanes = step_lanes.StepLanes.of(job)
    assert lanes.end_ns == max(one.span_ns[1] for one in ranks)


def test_steps_without_numbers_are_counted(late: Job) -> None:
    ranks = [replace(one, steps=tuple(replace(s, number=None) for s in one.steps)) for one in late.meetings.attendances]
    assert figures(Job(ranks))["waits"]["data"][0]["x"] == ["0", "1", "2"]


def test_without_collectives_there_are_lanes_alone() -> None:
    busy = GpuTime((np.array([0]), np.array([1_000_000])), (np.array([0]), np.array([1_000_000])))
    job = Job([rank(number, (), gpu=busy) for number in range(2)])
    drawn = figures(job)
    assert list(drawn) == ["step"]
    assert part(drawn["step"], "computing")["x"] == [1.0, 1.0]
    assert figures(Job([rank(0, ()), rank(1, ())])) == {}


def test_what_has_no_size_is_counted() -> None:
    held = [
        (collective(0, "allreduce", None, key="coll:0:-:0"), 0, 1000),
        (collective(1, "barrier", 1, key="coll:0:-:1"), 2000, 3000),
    ]
    job = Job([rank(0, held), rank(1, held)])
    assert "not drawn, since size or bandwidth are not known: 1 allreduce, 1 barrier" in notes(job)
    assert "bandwidths" not in figures(job)


def test_ranks_that_numbers_do_not_tell_apart_have_names() -> None:
    held = [(collective(0), 0, 1000)]
    ranks = [replace(rank(0, held), name=f"{'x' * 40}{number}") for number in range(2)]
    labels = figures(Job(ranks))["waits"]["data"][0]["y"]
    assert len(set(labels)) == 2
    assert all(len(label) < 40 for label in labels)


# --- large jobs ------------------------------------------------------------------------------------------------------


def test_large_jobs_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    job = large(20, 30, 4)
    everything = len(json.dumps(figures(job)))
    for module, name, most in (
        (wait_map, "MOST_RANKS", 8), (wait_map, "MOST_STEPS", 10), (bandwidth_points, "MOST_POINTS", 25),
        (step_lanes, "MOST_LANES", 6), (step_lanes, "MOST_PARTS", 13), (step_lanes, "MOST_BARS", 100),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, most)
    drawn = figures(job)
    heat = drawn["waits"]["data"][0]
    assert (len(heat["y"]), len(heat["x"])) == (8, 10)
    assert heat["x"][0] == "0-2"
    held = np.array(job.table("rank_balance")["held_up_ms"])
    assert {f"rank {at}" for at in np.argsort(-held, kind="stable")[:4]} <= set(heat["y"])
    mean = np.mean([row["exposed_wait_ms"] for row in job.table("rank_steps").records()
                    if row["step"] < 3 and f"rank {row['rank']}" == heat["y"][0]])  # fmt: skip
    assert heat["z"][0][0] == pytest.approx(mean, abs=1e-4)
    assert sum(len(data["x"]) for data in drawn["bandwidths"]["data"] if data["mode"] == "markers") == 25
    bars = [data for data in drawn["step"]["data"] if data["type"] == "bar"]
    assert sum(len(data["x"]) for data in bars) <= 100 + 2 * 13
    assert len(drawn["step"]["layout"]["yaxis"]["ticktext"]) == 6
    for note in ("8 of 20 ranks are drawn", "each column is the mean of up to 3 steps, of 30", "25 of ",
                 "6 of 20 ranks are drawn", "parts of shorter collectives are drawn without lines",
                 "between bars are not drawn"):  # fmt: skip
        assert note in notes(job)
    assert len(json.dumps(drawn)) < everything


def test_what_is_chosen_is_what_weighs_most_and_the_rest_evenly() -> None:
    assert wait_map.chosen(np.array([0, 0, 5, 0]), 4).tolist() == [0, 1, 2, 3]
    assert wait_map.chosen(np.array([0] * 7 + [3, 9, 0]), 4).tolist() == [0, 7, 8, 9]
    assert wait_map.chosen(np.zeros(9), 3).tolist() == [0, 4, 8]


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_names_stay_texts_in_a_picture(form: str) -> None:
    pytest.importorskip("matplotlib")
    file = io.BytesIO()
    write_ranks_picture(Job(hostile(HOSTILE)), HOSTILE, form, file)
    assert b"tracelens_graph " in file.getvalue()[:4096]
    if form == "svg":
        root = ElementTree.fromstring(file.getvalue())
        assert not [one for one in root.iter() if one.tag.rpartition("}")[2] in ("script", "a")]
        assert "$\\alpha$" in "".join(root.itertext())


def test_a_picture_shows_what_the_page_shows(late: Job) -> None:
    pytest.importorskip("matplotlib")
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        write_ranks_picture(late, "job", "svg", file)
    assert files[0].getvalue() == files[1].getvalue()
    words = "".join(ElementTree.fromstring(files[0].getvalue()).itertext())
    for one in drawings(late):
        assert one.title in words
        for data in (one.figure or {})["data"]:
            if data.get("showlegend", True):
                assert data.get("name", "") in words
    assert "rank 3" in words
