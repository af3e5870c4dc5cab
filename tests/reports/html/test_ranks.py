"""The page of a job as a file: its data are those of the tables, large jobs stay small, and no name is markup."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from html_pages import Tags, policy_of, read
from made_jobs import simulated_job
from to_draw import HOSTILE, hostile, large, late_job

from tracelens_graph.analyses.ranks import COLUMNS, pictures
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.ranks import ranks_page
from tracelens_graph.reports.ranks_text import all_lines, headline, late_lines
from tracelens_graph.simulate import simulate, write


@pytest.fixture(scope="module")
def late() -> Job:
    return late_job()


def test_the_overview_says_what_the_screen_says(late: Job) -> None:
    page = read(ranks_page(late, "my job"))
    head = page.head["overview"]
    assert page.head["title"] == "Ranks of my job"
    assert (head["headline"], head["late"]) == (headline(late), late_lines(late))
    balance = late.table("rank_balance").records()
    assert [row[head["balance_keys"].index("held_up_ms")] for row in head["balance"]] == [
        row["held_up_ms"] for row in balance
    ]
    assert [table["name"] for table in page.body["tables"]] == late.names


def test_the_late_rank_is_linked_with_its_reasons(tmp_path: Path) -> None:
    run = simulate(ranks=3, steps=2, layers=1, dataloader_us=9000, dataloader_rank=1)
    traces = TraceSet.of([load_core(one.trace) for one in run.ranks])
    made = Job(traces, whole=traces)
    head = read(ranks_page(made, "job", ["tracelens-graph ranks job --path"])).head["overview"]
    assert head["ranks"][head["late_rank"]] == "rank 1"
    assert head["commands"] == ["tracelens-graph ranks job --path"]
    assert any("data loader" in why for why in head["reasons"][1])
    late = made.table("late_ranks")
    assert [len(one) for one in head["reasons"]] == [min(list(late["rank"]).count(at), 3) for at in range(3)]


def test_the_slowdown_is_a_map_with_figures() -> None:
    traces = simulated_job(ranks=3, steps=2, layers=1, dataloader_us=9000, dataloader_rank=1).traces
    made = Job(traces, whole=traces)
    head = read(ranks_page(made, "job")).head["overview"]
    assert head["late"] == all_lines(made)
    ((_, *cells),) = [row.values() for row in head["slowdown"]["rows"]]
    assert [name for name, *_ in cells[0]] == head["slowdown"]["columns"] == head["ranks"]
    found = made.table("slowdown")
    assert sorted(cell[1] for cell in cells[0]) == sorted(
        value for of, value in zip(found["of"], found["slowdown"], strict=True) if of == "worker"
    )
    assert [is_culprit for *_, is_culprit in cells[0]] == [False, True, False]


def test_a_group_with_a_slow_link_has_no_culprits() -> None:
    traces = simulated_job(ranks=8, tensor_parallel=2, nodes=4, slow_link_rank=3, slow_link_factor=4.0).traces
    made = Job(traces, whole=traces)
    head = read(ranks_page(made, "job")).head["overview"]
    assert head["has_slow_links"]
    assert head["late"][0].startswith("slow links: all 2 of rank 3")
    assert not any(cell[2] for row in head["slowdown"]["rows"] for cell in row["cells"])
    rows = [row for row in made.table("slowdown").records() if row["reason"] == "slow_transfers"]
    assert len(rows) == 5
    assert all(row["what"].startswith("slow links: all 2 of rank 3; ") for row in rows)


def test_ranks_have_one_name_on_the_page(late: Job) -> None:
    head = read(ranks_page(late, "job")).head["overview"]
    assert {row[key] for row in head["times"] for key in ("most_trace", "least_trace")} <= set(head["ranks"])


def test_waits_are_the_table_of_steps(late: Job) -> None:
    waits = read(ranks_page(late, "job")).body["waits"]
    for row in late.table("rank_steps").records():
        at, step = waits["rows"].index(row["rank"]), waits["steps"].index(str(row["step"]))
        for field, key in (("wait_ms", "exposed_wait_ms"), ("step_ms", "device_step_ms"), ("held_up_ms", "held_up_ms")):
            assert waits[field][at][step] == pytest.approx(row[key], abs=1e-6)
    assert waits["late"] == [2, 2, 2]


def test_splits_add_up_to_the_table_of_collectives(late: Job) -> None:
    columns = read(ranks_page(late, "job")).columns
    m = late.matched
    for row in late.table("rank_collectives").records():
        mine = columns["split.collective"] == row["collective"]
        assert int(columns["split.wait"][mine].sum()) == round(1e3 * row["wait_us"])
        assert int(mine.sum()) == row["ranks"]
    whole = sum(int(columns[f"split.{name}"].sum()) for name in ("wait", "transfer", "skew"))
    assert whole == int((m.end_ns - m.start_ns)[m.number >= 0].sum())


def test_lanes_add_up_to_the_recorded_times(late: Job) -> None:
    page = read(ranks_page(late, "job"))
    lanes = pictures.StepLanes.of(late)
    columns, m = page.columns, late.matched
    for place, one in enumerate(m.ranks):
        start, end = (np.clip(m.clock_ns(place, edges), lanes.begin_ns, lanes.end_ns) for edges in one.gpu.computing)
        mine = (columns["bar.lane"] == place) & (columns["bar.what"] == 0)
        assert int(columns["bar.dur"][mine].sum()) == int((end - start).sum())
    assert columns["part.start"].tolist() == (m.start_ns[lanes.parts] - lanes.begin_ns).tolist()
    assert columns["part.wait"].tolist() == m.wait_ns[lanes.parts].tolist()
    assert [at for at, _ in page.body["step"]["late"]] == list(lanes.late_ns)


def test_bandwidths_are_those_of_the_table(late: Job) -> None:
    told = read(ranks_page(late, "job")).body["bandwidths"]
    keys = told["keys"]
    drawn = {
        (kind["kind"], point[keys.index("message_bytes")], point[keys.index("busbw_gb_s")])
        for kind in told["kinds"] for point in kind["points"]
    }  # fmt: skip
    rows = late.table("rank_collectives").records()
    assert drawn == {(row["kind"], row["message_bytes"], row["busbw_gb_s"]) for row in rows}
    assert told["peaks"] == [rows[0]["peak_gb_s"]]


def test_lean_graphs_give_the_same_page(tmp_path: Path) -> None:
    write(simulate(ranks=4, steps=3, layers=1, late_rank=2, late_us=6000), tmp_path)
    files = [str(tmp_path / f"rank{number}.json.gz") for number in range(4)]
    lean, whole = (Job(load_core_set(files, columns=columns)) for columns in (COLUMNS, None))
    assert ranks_page(lean, "job") == ranks_page(whole, "job")


def test_ranks_that_share_nothing_have_a_page(late: Job) -> None:
    page = read(ranks_page(Job(late.matched.ranks[:1]), "job"))
    assert len(page.columns["split.rank"]) == 0
    assert page.body["bandwidths"]["kinds"] == []


@pytest.mark.proof
def test_a_page_of_512_ranks_is_small() -> None:
    assert len(ranks_page(large(512, 100, 1), "job")) < 3_000_000


def test_the_policy_is_strict_and_no_name_is_markup(late: Job) -> None:
    plain, text = ranks_page(late, "job"), ranks_page(Job(hostile(HOSTILE)), HOSTILE)
    assert policy_of(plain)["default-src"] == "'none'"
    assert "unsafe" not in policy_of(plain)["script-src"] + policy_of(plain)["style-src"]
    assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", plain)
    assert [tag for tag, _ in Tags(plain).found] == [tag for tag, _ in Tags(text).found]
    text.encode()
