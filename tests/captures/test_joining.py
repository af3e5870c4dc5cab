"""A trace that is joined with captures: its graph, its tables, its files, and what users are told."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import nullcontext
from contextvars import copy_context
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

import tracelens_graph as tlg
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.cli.app import app
from tracelens_graph.errors import IncompleteSetWarning, LinkError
from tracelens_graph.graph.edges import edge_rows
from tracelens_graph.schema import Flag, Kind, OwnerRule
from tracelens_graph.simulate.serving import simulate, write

SETTINGS: dict[str, Any] = {"seed": 5, "steps": 8, "platform": "rocm"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server's trace, its captures in a folder beside it."""
    folder = tmp_path_factory.mktemp("server")
    write(simulate(**SETTINGS), folder, traces_only=True)
    return folder


@pytest.fixture(scope="module")
def plain(server: Path) -> Any:
    return tlg.load(server / "rank0.json.gz")


@pytest.fixture(scope="module")
def joined(server: Path) -> Any:
    return tlg.load(server / "rank0.json.gz", capture=server / "capture")


def table(g: Any, name: str, **given: Any) -> dict[str, list[Any]]:
    found = QUESTIONS[name](g, **given)
    return {column: list(found[column]) for column in found.columns}


def test_captured_calls_are_nodes_that_took_no_time(joined: Any) -> None:
    c = joined.columns
    captured = np.flatnonzero(c.flags & Flag.captured)
    assert len(captured)
    assert (c.uid[captured] >= 2**39).all()
    assert len(np.unique(c.uid)) == len(c)
    assert not c.dur_ns[captured].any()
    assert {Kind(kind) for kind in np.unique(c.kind[captured])} == {Kind.Module, Kind.Op, Kind.PythonFunction}
    assert (joined.gpu_sum_ns[captured] > 0).all()  # what leads to no GPU work is left out


def test_kernels_hang_below_the_op_that_they_are_charged_to(joined: Any) -> None:
    c = joined.columns
    replayed = joined.gpu_rows[c.owner_rule[joined.gpu_rows] == OwnerRule.graph_capture]
    assert len(replayed) == sum(one.gpu_events for one in joined.info.replays) > 100
    assert (c.parent[replayed] == c.owner[replayed]).all()
    assert (c.last[c.owner[replayed]] >= replayed).all()


def test_rows_stay_in_pre_order(joined: Any) -> None:
    c = joined.columns
    rows = np.flatnonzero(c.parent >= 0)
    assert (c.parent[rows] < rows).all()
    assert (c.last[c.parent[rows]] >= c.last[rows]).all()
    assert (c.depth[rows] == c.depth[c.parent[rows]] + 1).all()
    children = np.bincount(c.parent[rows], minlength=len(c))
    assert (c.last[children == 0] == np.flatnonzero(children == 0)).all()


def test_launches_are_those_of_the_graph(plain: Any, joined: Any) -> None:
    def launches(g: Any) -> set[tuple[int, int]]:
        source, target = edge_rows(g, "LAUNCHES")
        return {*zip(g.columns.uid[source].tolist(), g.columns.uid[target].tolist(), strict=True)}

    assert launches(joined) == launches(plain)
    source, target = edge_rows(joined, "RAN_AS")
    assert (joined.columns.parent[target] == source).all()
    assert len(target) == sum(one.joined for one in joined.info.replays)


@pytest.mark.parametrize(
    ("question", "given"),
    [
        ("runtime_summary", {}), ("launch_delay", {"by": "call"}), ("idle_gaps", {}), ("idle_causes", {}),
        *(("host_times", {"by": by}) for by in ("op", "function", "line", "module", "thread")),
        ("gpu_timeline", {}), ("step_breakdown", {}), ("graph_launches", {}), ("exposed_communication", {}),
    ],
)  # fmt: skip
def test_what_the_host_did_stays_as_it_is(plain: Any, joined: Any, question: str, given: dict[str, Any]) -> None:
    assert repr(table(plain, question, **given)) == repr(table(joined, question, **given))


def test_gpu_time_stays_the_same_and_gets_ops_and_modules(plain: Any, joined: Any) -> None:
    assert joined.columns.dur_ns[joined.gpu_rows].sum() == plain.columns.dur_ns[plain.gpu_rows].sum()
    ops = table(joined, "ops_summary")
    assert "hipGraphLaunch" in table(plain, "ops_summary")["name"]
    assert "hipGraphLaunch" not in ops["name"]
    assert "_C::rms_norm" in ops["name"]
    assert len(QUESTIONS["modules"](joined)) > len(QUESTIONS["modules"](plain))


def test_the_forest_of_networkx_is_that_of_the_columns(joined: Any) -> None:
    launch = joined.node(joined.info.replays[0].launches[0])
    below = nx.descendants(joined.tree, launch.uid)
    assert below | {launch.uid} == joined.subtree(launch.uid) | {launch.uid}
    assert len(below) > 50
    assert nx.is_forest(joined.tree.to_undirected())
    again = tlg.from_networkx(joined.to_networkx())
    assert (again.columns.parent == joined.columns.parent).all()
    assert (again.columns.owner == joined.columns.owner).all()
    assert again.info == joined.info


def test_a_saved_graph_keeps_the_join(server: Path, joined: Any, tmp_path: Path) -> None:
    joined.save(tmp_path / "joined.tlg")
    again = tlg.load(tmp_path / "joined.tlg")
    assert again.equals(joined)
    assert again.info.replays == joined.info.replays
    with pytest.raises(LinkError, match="joined with captures already"):
        tlg.load(tmp_path / "joined.tlg", capture=server / "capture")


def test_captured_graphs_are_stored_once(joined: Any) -> None:
    context = joined.full.context
    captured = [one for one in context.nodes.values() if one["kind"] == "CapturedGraph"]
    assert len(captured) == len(joined.info.replays)
    rows, _ = context.from_events["REPLAY_OF"]
    assert len(rows) == sum(len(one.launches) for one in joined.info.replays)


def test_a_table_says_what_was_joined(plain: Any, joined: Any) -> None:
    found = table(joined, "replays")
    assert found["percent_joined"] == [100.0] * len(found["graph"])
    assert found["rule"] == ["equal names in order"] * len(found["graph"])
    empty = QUESTIONS["replays"](plain)
    assert not len(empty)
    assert "--capture" in empty.notes[0]


def test_lost_kernels_are_counted_and_named(tmp_path: Path) -> None:
    run = simulate(**{**SETTINGS, "lost": 0.05})
    write(run, tmp_path, traces_only=True)
    g = tlg.load(tmp_path / "rank0.json.gz", capture=tmp_path / "capture")
    lost = sum(replay["kernels"].count(None) for replay in run.ranks[0].truth["replays"])
    assert sum(table(g, "replays")["lost"]) == lost > 0
    assert any("captured and not replayed" in (what or "") for what in table(g, "replays")["what"])


@pytest.fixture
def own(server: Path, tmp_path: Path) -> Path:
    """A copy of the captures that a test may change."""
    folder = tmp_path / "capture"
    folder.mkdir()
    for file in (server / "capture").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


UNREADABLE = "cannot be read"
UNKNOWN_FORM = "is no list of captured graphs"


@pytest.mark.parametrize(
    ("details", "told"),
    [
        (b"", UNREADABLE), (b"{", UNREADABLE), (b"[" * 5000, UNREADABLE), (b"[]", ""),
        (b'{"file": 1}', UNKNOWN_FORM), (b"5", UNKNOWN_FORM), (b"null", UNKNOWN_FORM),
        (b'[1, {"file": 2}]', UNKNOWN_FORM),
        (b'[{"file": "x", "batch_size": 8}]', "names none of the captures beside it"),
        (b'[{"file": "FILE", "batch_size": "8"}]', "says batch_size '8'"),
        (b'[{"file": "FILE", "batch_size": -8}]', "says batch_size -8"),
        (b'[{"file": "FILE", "batch_size": 1%s}]' % (b"0" * 36), "says batch_size 1000"),
        (b'[{"file": "FILE", "batch_size": 8}, {"file": "FILE", "batch_size": 16}]', "has 2 entries for its 1 graphs"),
    ],
)  # fmt: skip
def test_a_broken_file_of_details_is_told_of_and_does_no_harm(
    server: Path, own: Path, joined: Any, details: bytes, told: str
) -> None:
    file = min(one.name for one in own.glob("*.gz"))
    (own / "execution_details.json").write_bytes(details.replace(b"FILE", file.encode()))
    with pytest.warns(IncompleteSetWarning, match=told) if told else nullcontext():
        g = tlg.load(server / "rank0.json.gz", capture=own)
    assert [one.joined for one in g.info.replays] == [one.joined for one in joined.info.replays]


def test_no_captures_are_one_clear_error(server: Path, tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="no such file or folder"):
        tlg.load(server / "rank0.json.gz", capture=tmp_path / "nowhere")
    with pytest.raises(LinkError, match="no captured graph"):
        tlg.load(server / "rank0.json.gz", capture=server / "rank0.json.gz")
    for wrong in ([], 5, [None], {"a": 1}):
        with pytest.raises(LinkError, match="a path, or a list of paths"):
            tlg.load(server / "rank0.json.gz", capture=wrong)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LinkError):
        tlg.load(server / "rank0.json.gz", capture=tmp_path / "empty")


def test_details_give_sizes_and_modes_to_files_by_their_names(server: Path, own: Path) -> None:
    entries = json.loads((own / "execution_details.json").read_text())
    for entry in entries:
        entry["mode"] = "PIECEWISE"
    (own / "execution_details.json").write_text(json.dumps(entries))
    g = tlg.load(server / "rank0.json.gz", capture=own)
    assert {one.mode for one in g.info.replays} == {"PIECEWISE"}


@pytest.mark.parametrize("platform", ["rocm", "nvidia"])
@pytest.mark.parametrize("cut", ["begin", "end", "both"])
def test_what_is_recorded_of_a_capture_is_joined(tmp_path: Path, platform: str, cut: str) -> None:
    write(simulate(**{**SETTINGS, "platform": platform, "sizes": (8,), "requests": 8, "streams": 1}), tmp_path,
          traces_only=True)  # fmt: skip
    whole = tlg.load(tmp_path / "rank0.json.gz", capture=tmp_path / "capture")
    (file,) = (tmp_path / "capture").glob("*.gz")
    trace = json.loads(gzip.decompress(file.read_bytes()))
    calls = sorted(one["ts"] for one in trace["traceEvents"] if re.match("(cuda|hip)LaunchKernel", one.get("name", "")))
    middle = calls[len(calls) // 2]
    edges = {"begin": "StreamBeginCapture", "end": "StreamEndCapture", "both": "Stream(Begin|End)Capture"}
    edge = re.compile(edges[cut])
    trace["traceEvents"] = [
        one
        for one in trace["traceEvents"]
        if not edge.search(one.get("name", ""))
        and not (
            "LaunchKernel" in one.get("name", "") and (cut, one["ts"] < middle) in {("begin", True), ("end", False)}
        )
    ]
    file.write_bytes(gzip.compress(json.dumps(trace).encode()))
    part = tlg.load(tmp_path / "rank0.json.gz", capture=tmp_path / "capture")
    owners = [
        {
            c.uid[row]: g.names[c.name[c.owner[row]]]
            for row in g.gpu_rows[c.owner_rule[g.gpu_rows] == OwnerRule.graph_capture]
        }
        for g in (whole, part)
        for c in (g.columns,)
    ]
    assert owners[1].items() <= owners[0].items()
    share = len(owners[1]) / len(owners[0])
    assert share == 1 if cut == "both" else 0.4 < share < 0.6
    assert all("record" in one.note for one in part.info.replays if one.joined)


def test_a_set_is_joined_rank_by_rank(tmp_path: Path) -> None:
    write(simulate(**{**SETTINGS, "ranks": 2}), tmp_path, traces_only=True)
    traces = tlg.load_set(tmp_path / "rank0.json.gz", tmp_path / "rank1.json.gz", capture=tmp_path / "capture")
    for one in traces:
        assert all(entry.joined == entry.gpu_events for entry in one.core.info.replays)
        assert {entry.note for entry in one.core.info.replays} == {""}


# --- at a shell ----------------------------------------------------------------------------------------------------


def test_captures_beside_a_trace_are_offered_and_not_taken(server: Path) -> None:
    trace, captures = server / "rank0.json.gz", server / "capture"
    code, alone, _ = run("report", trace)
    assert code == 0
    assert "captures beside it" in alone
    assert f"--capture {captures}" in alone
    assert "captures explain" not in alone
    _, joined, _ = run("report", trace, "--capture", captures)
    assert "(100 %)" in joined
    assert "captures beside it" not in joined
    of_layers = "ask identified_kernels {} -p by=role"
    assert f"{of_layers.format(trace)} --capture {captures}" in joined
    assert of_layers.format(trace) not in alone
    apart = server.parent / f"{server.name}-alone" / "rank0.json.gz"
    apart.parent.mkdir()
    apart.write_bytes(trace.read_bytes())
    assert "--identify" in run("report", apart)[1]
    assert f"{of_layers.format(apart)} --identify" in run("report", apart, "--identify")[1]
    assert "--identify" not in alone


@pytest.mark.parametrize("words", [("ask", "ops_summary"), ("attribution",), ("report", "--all")], ids=str)
def test_commands_take_captures(server: Path, words: tuple[str, ...]) -> None:
    code, out, _ = run(*words, server / "rank0.json.gz", "--capture", server / "capture")
    assert code == 0
    assert "_C::rms_norm" in out


def test_a_forgotten_folder_is_said(server: Path) -> None:
    for words in (["--capture"], ["--capture", "--all"]):
        code, _, err = run("report", server / "rank0.json.gz", *words)
        assert code == 2
        assert "option '--capture' requires an argument" in err


def test_a_capture_that_was_cut_short_is_said_to_be(server: Path, own: Path) -> None:
    for file in own.glob("*.gz"):
        file.write_bytes(file.read_bytes()[:3000])
    code, _, err = run("ask", "replays", server / "rank0.json.gz", "--capture", own)
    assert code == 1
    assert "cut short" in err


@pytest.mark.parametrize("batch", ["999999999", "9" * 6000])
def test_batches_that_no_capture_is_of_are_said_at_each_command(server: Path, tmp_path: Path, batch: str) -> None:
    trace = json.loads(gzip.decompress((server / "rank0.json.gz").read_bytes()))
    for one in trace["traceEvents"]:
        if one["name"].startswith("execute_"):
            one["name"] = f"execute_context_0(0)_generation_{batch}({batch})"
    (tmp_path / "rank0.json").write_text(json.dumps(trace))
    code, _, err = run("ask", "ops_summary", tmp_path / "rank0.json", "--capture", server / "capture")
    assert code == 0
    assert ("replayed for up to 999999999" in err) == (len(batch) < 10)


def test_a_wrong_folder_is_one_line(server: Path) -> None:
    code, _, err = run("report", server / "rank0.json.gz", "--capture", server / "nowhere")
    assert code == 1
    assert len(err.splitlines()) == 1


def run(*words: object) -> tuple[int, str, str]:
    """A command in this process: exit code, standard output, standard error."""
    result = copy_context().run(CliRunner().invoke, app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr
