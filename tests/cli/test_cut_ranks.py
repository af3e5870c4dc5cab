"""cut --collective: all ranks around a collective, on one clock, in one trace."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import Run, span

from corpus import needs_corpus
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.cli.cut import collective_named
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate, write

RANKS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of a simulated job with clocks that are 20 ms apart from rank to rank, and drift."""
    path = tmp_path_factory.mktemp("ranks")
    files = write(simulate(ranks=RANKS, steps=4, program="loop", clock_offset_us=20_000.0), path)
    for other in set(path.iterdir()) - set(files):
        other.unlink()
    return path


def meetings_of(folder: Path) -> MatchedCollectives:
    return MatchedCollectives(TraceSet.of([load_core(path) for path in sorted(folder.iterdir())]))


def events_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return found


def test_kernels_lie_as_on_the_common_clock(run: Run, folder: Path, tmp_path: Path) -> None:
    matched, out = meetings_of(folder), tmp_path / "cut.json"
    number = len(matched) // 2
    code, said, _ = run("cut", folder, "--collective", number, "--around", "50us", "-o", out)
    last = matched.ranks[matched.trace[matched.last_part[number]]].rank
    skew = (matched.last_start_ns[number] - matched.first_start_ns[number]) / 1e3
    assert code == 0
    assert f"of 3 ranks around collective {number} ({matched.kind[number]}; " in said
    assert f"rank {last} came last, {skew:,.1f} us after the first)" in said
    assert said.endswith("; to see it: ui.perfetto.dev, Open trace file\n")
    events = events_of(out)
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    arrows = [e for e in events if e.get("cat") == "collective" and e["name"].endswith(f" {number}")]
    parts = matched.parts_of(number)
    starts = matched.start_ns[parts]
    assert [names[end["pid"]] for end in arrows] == [f"rank {rank} GPU" for rank in np.argsort(starts).tolist()]
    shown = [round(end["ts"] * 1000) for end in arrows]
    assert np.diff(shown).tolist() == np.diff(np.sort(starts)).tolist()
    small = load_core(out)
    assert small.info.rank is None
    assert small.info.world_size == RANKS
    ends = small.columns.end_ns
    kernels = {row for one in small.collectives.nodes if len(one.rows) == RANKS for row in one.rows}
    assert len({int(ends[row]) for row in kernels}) == len(kernels) / RANKS  # all ranks leave together
    gpu = small.gpu_rows
    assert (small.columns.parent[gpu] >= 0).all()


def test_what_is_around_depends_on_the_margin(run: Run, folder: Path, tmp_path: Path) -> None:
    counts = []
    for margin in ("0", "1ms", None):
        around = [] if margin is None else ["--around", margin]
        assert run("cut", folder, "--collective", 2, *around, "-o", tmp_path / "cut.json")[0] == 0
        counts.append(len(events_of(tmp_path / "cut.json")))
    assert counts[0] < counts[1] == counts[2]


def test_a_key_names_it_as_its_number_does(run: Run, folder: Path, tmp_path: Path) -> None:
    matched = meetings_of(folder)
    key = matched.parts.collective(int(matched.last_part[3])).key
    for name, wanted, named in (
        ("a.json.gz", "3", [folder / "*.json.gz"]),
        ("b.json.gz", key, sorted(folder.iterdir())),
    ):
        assert run("cut", *named, "--collective", wanted, "-o", tmp_path / name)[0] == 0
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert load_core(tmp_path / "a.json.gz").info.events


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("999", "there is no collective 999: they are numbered from 0 to "),
        ("9" * 5000, "there is no collective 999"),
        ("coll:0:x:3", "no collective has the key 'coll:0:x:3'; tracelens-graph ranks lists them"),
        ("-1", "no collective has the key '-1'; tracelens-graph ranks lists them"),
        ("", "no collective has the key ''; "),
    ],
)
def test_collectives_that_are_not_there(run: Run, folder: Path, tmp_path: Path, wanted: str, words: str) -> None:
    code, out, err = run("cut", folder, "--collective", wanted, "-o", tmp_path / "x.json")
    assert (code, out) == (1, "")
    assert words in err
    assert not list(tmp_path.iterdir())


def test_one_rank_has_nobody_to_meet(run: Run, folder: Path, tmp_path: Path) -> None:
    code, _, err = run("cut", folder / "rank0.json.gz", "--collective", 1, "-o", tmp_path / "x.json")
    assert code == 2
    assert "name the folder of their traces" in err
    for rank in range(2):
        (tmp_path / f"r{rank}.json").write_text(json.dumps({"traceEvents": [span("cpu_op", "aten::mm", 0, 5)]}))
    code, _, err = run("cut", tmp_path, "--collective", 1, "-o", tmp_path / "x.json")
    assert (code, err) == (1, "error: the ranks have no collective in common\n")


def test_what_only_one_rank_has_cannot_be_cut(folder: Path) -> None:
    ranks = [load_core(path) for path in sorted(folder.iterdir())]
    alone = MatchedCollectives(TraceSet.of([*ranks[:2], load_core(lonely())]))
    [part] = [part for part, _ in alone.unmatched]
    key = alone.parts.collective(part).key
    with pytest.raises(AnalysisError, match=r"^collective coll:9:.* is not matched: no other rank has it$"):
        collective_named(alone, key)


def lonely() -> dict[str, Any]:
    """A trace with a collective of a group that no other rank is in."""
    kernel = span("kernel", "ncclDevKernel_AllReduce", 50, 10, 0, 7, device=0, stream=7, correlation=1)
    kernel["args"] |= {"Collective name": "allreduce", "Process Group Name": "9", "Seq": 1}
    return {"traceEvents": [span("cuda_runtime", "cudaLaunchKernelExC", 40, 2, correlation=1), kernel]}


def test_ranks_of_which_nothing_lies_there_are_named(run: Run, folder: Path, tmp_path: Path) -> None:
    many = tmp_path / "ranks"
    shutil.copytree(folder, many)
    (many / "rank7.json").write_text(json.dumps({"traceEvents": [span("cpu_op", "aten::mm", 10**9, 5)]}))
    code, said, err = run("cut", many, "--collective", 0, "--around", "10us", "-o", tmp_path / "cut.json")
    assert code == 0
    assert "left out, as nothing happens there then: rank7" in err
    assert "of 3 ranks" in said


def test_no_input_is_overwritten(run: Run, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "ranks"
    shutil.copytree(folder, copy)
    before = {path: path.read_bytes() for path in copy.iterdir()}
    os.symlink(copy / "rank1.json.gz", tmp_path / "link.json.gz")
    for out in (copy / "rank0.json.gz", tmp_path / "link.json.gz"):
        code, _, err = run("cut", copy, "--collective", 0, "--force", "-o", out)
        assert code == 1
        assert "is what the command reads" in err
    assert {path: path.read_bytes() for path in copy.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--collective", "1", "--step", "3"], "say what to cut out: one of --uid, --step, --iteration, --collective"),
        (["--step", "3"], "is a folder, and this command takes one trace"),
        (["other.json", "--step", "3"], "name one trace; several are for --collective"),
    ],
)
def test_wrong_usage(run: Run, folder: Path, options: list[str], words: str) -> None:
    code, out, err = run("cut", folder, "-o", "x.json", *options)
    assert (code, out) == (2, "")
    assert words in " ".join(err.replace("│", " ").split())
    assert not Path("x.json").exists()


def test_ranks_without_a_gpu(run: Run, tmp_path: Path) -> None:
    folder, out = Path(__file__).parents[2] / "examples/traces/gloo-4-ranks", tmp_path / "cut.json"
    assert run("cut", folder, "--collective", 5, "-o", out)[0] == 0
    events = events_of(out)
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(names.values()) == [f"rank {rank} host" for rank in range(4)]
    arrows: dict[int, list[float]] = {}
    for event in events:
        if event.get("cat") == "collective":
            arrows.setdefault(event["id"], []).append(event["ts"])
    assert arrows
    assert all(times == sorted(times) for times in arrows.values())


@needs_corpus
def test_eight_ranks_without_metadata(run: Run, corpus: Path, tmp_path: Path) -> None:
    folder, out = corpus / "dlrm-8-ranks/kineto", tmp_path / "cut.json"
    assert run("cut", folder, "--collective", 4, "-o", out)[1].startswith(
        f"wrote {out}, 1.1 MB: 4,928 events of 8 ranks around collective 4 (allreduce; rank 7 came last, 223.0 us after"
    )
    matched, small = meetings_of(folder), load_core(out)
    events = events_of(out)
    arrow = {end["pid"]: end["ts"] for end in events if end.get("cat") == "collective" and end["name"].endswith(" 4")}
    parts = matched.parts_of(4)
    assert list(arrow) == np.argsort(matched.start_ns[parts], kind="stable").tolist()  # rank 0 has device 0
    for part in parts.tolist():
        place = int(matched.trace[part])
        [kernel] = [
            event
            for event in events
            if event.get("cat") == "kernel" and event["pid"] == place and event["ts"] == arrow[place]
        ]
        shown = round((kernel["ts"] - min(arrow.values())) * 1000)
        assert shown == matched.start_ns[part] - matched.first_start_ns[4]
        assert round(kernel["dur"] * 1000) == matched.end_ns[part] - matched.start_ns[part]
    gpu = small.gpu_rows
    assert (small.columns.parent[gpu] >= 0).all()
    assert sorted(set(small.columns.device[gpu].tolist())) == list(range(8))


def test_devices_of_one_profile_of_jax_are_ranks(run: Run, tmp_path: Path) -> None:
    from tracelens_graph.simulate.xla.__main__ import main

    assert main([str(tmp_path / "jax"), "--devices", "2"]) == 0
    code, _, err = run("cut", tmp_path / "jax", "--collective", 0, "-o", tmp_path / "cut.json")
    assert (code, err) == (0, "")
    arrows = [event for event in events_of(tmp_path / "cut.json") if event.get("cat") == "collective"]
    assert arrows
    names = {e["pid"]: e["args"]["name"] for e in events_of(tmp_path / "cut.json") if e["name"] == "process_name"}
    assert {names[end["pid"]] for end in arrows} == {"rank 0 GPU", "rank 1 GPU"}
