"""Identified kernels of real replays: the score against the truth from captures, and the graph with inferred calls."""

from __future__ import annotations

import csv
import gzip
from ast import literal_eval
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from handmade import call, gpu, small_trace, span
from replayed_passes import MODELS, kernels

import tracelens_graph as tlg
from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.across.identified_labels import identified_labels
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.analyses.alignment.tables import places_table
from tracelens_graph.analyses.identification.calls import with_identified
from tracelens_graph.analyses.identification.kernels import passes, place_of
from tracelens_graph.analyses.identification.pairs import common_labels
from tracelens_graph.analyses.identification.tables import identified_kernels
from tracelens_graph.errors import LinkError
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.traversals import ancestors
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Flag, Kind, OwnerRule
from tracelens_graph.stores.graph_file import write_graph

PAIR = Path("external/semantic-purity/deepseek-r1")
REPLAYS = [
    PAIR / "B300-decode.json.gz", PAIR / "MI300-decode.json.gz",
    *(Path(f"tracelens/inference/{engine}-decode/graph-replay.json.gz") for engine in ("sglang", "vllm")),
]  # fmt: skip


def strict(groups: list[object], labels: list[str]) -> float:
    """Share of the kernels whose group has one label."""
    found: dict[object, set[str]] = defaultdict(set)
    for group, label in zip(groups, labels, strict=True):
        found[group].add(label)
    return sum(len(found[group]) == 1 for group in groups) / len(groups)


@needs_corpus
def test_labels_of_two_platforms_agree_with_their_captures() -> None:
    traces = [load_core(CORPUS / PAIR / f"{name}.json.gz") for name in ("MI300-decode", "B300-decode")]
    table = identified_labels(TraceSet.of(traces))
    labels = {
        (source, uid): label for source, uid, label in zip(table["source"], table["uid"], table["label"], strict=True)
    }
    for wrong in (traces[:1], [*traces, traces[0]]):
        with pytest.raises(tlg.AnalysisError, match="expected two traces"):
            identified_labels(TraceSet.of(wrong))
    with gzip.open(CORPUS / PAIR / "gold.csv.gz", "rt") as file:
        gold = {
            (row["source"], int(float(row["gpu_op_uid"]))): row["lowest_common_ancestor_id"]
            for row in csv.DictReader(file)
        }
    groups, found = list(gold.values()), [labels[key] for key in gold]
    assert strict(groups, found) > 0.98
    assert strict(found, groups) > 0.98  # type: ignore[arg-type]


@needs_corpus
@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_roles_agree_with_the_ops_that_were_captured(engine: str) -> None:
    folder = CORPUS / f"tracelens/inference/{engine}-decode"
    plain = load_core(folder / "graph-replay.json.gz")
    captured = load_core(folder / "graph-replay.json.gz", capture=folder / "capture")
    c = captured.columns
    owner = dict(zip(c.uid[captured.gpu_rows].tolist(), c.owner[captured.gpu_rows].tolist(), strict=True))
    places = {int(plain.columns.uid[row]): place.label for row, place in place_of(passes(plain)).items()}
    groups, labels = [owner[uid] for uid in places], list(places.values())
    assert len(labels) > 400
    assert strict(groups, labels) == 1
    assert strict(labels, [str(group) for group in groups]) > 0.99


@needs_corpus
@pytest.mark.parametrize("file", REPLAYS, ids=str)
def test_inferred_calls_stand_above_the_kernels_and_change_no_sum(file: Path) -> None:
    plain = load_core(CORPUS / file)
    found = load_core(CORPUS / file, identify=True)
    c = found.columns
    assert set(plain.columns.uid.tolist()) <= set(c.uid.tolist())
    assert c.dur_ns[found.gpu_rows].sum() == plain.columns.dur_ns[plain.gpu_rows].sum()
    inferred = found.gpu_rows[c.owner_rule[found.gpu_rows] == OwnerRule.inferred]
    assert len(inferred) == len(place_of(passes(plain)))
    for row in inferred[::37].tolist():
        names = [found.names[c.name[above]] for above in ancestors(c, row)]
        assert names[0].startswith("inferred::")
    calls = (c.flags & Flag.inferred) != 0
    assert set(c.kind[calls].tolist()) == {Kind.Module, Kind.Op}
    share = 100 * c.dur_ns[inferred].sum() / c.dur_ns[found.gpu_rows].sum()
    inferred_words = f"ops and modules of {share:.1f} % of the GPU time are inferred, confidence 0."
    assert found.info.inferred.startswith(inferred_words)
    by_category = tlg.QUESTIONS["ops_summary_by_category"](found)
    known = [name != "Other" for name in by_category["op category"]]
    assert np.array(by_category["Percentage (%)"])[known].sum() > 99
    # What was found of the plain trace is found of the graph with calls, too.
    assert {int(c.uid[row]): place for row, place in place_of(passes(found)).items()} == {
        int(plain.columns.uid[row]): place for row, place in place_of(passes(plain)).items()
    }


@needs_corpus
@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_what_captures_and_known_code_describe_is_not_inferred(engine: str) -> None:
    folder = CORPUS / f"tracelens/inference/{engine}-decode"
    lines: list[str] = []
    core = with_identified(load_core(folder / "graph-replay.json.gz", capture=folder / "capture"), lines.append)
    assert not core.info.inferred
    assert not np.any(core.columns.owner_rule == OwnerRule.inferred)
    assert "ops are known of all its GPU events" in lines[0]


@needs_corpus
def test_a_saved_graph_of_identified_kernels_is_left_as_it_is(tmp_path: Path) -> None:
    folder = CORPUS / "tracelens/inference/sglang-decode"
    write_graph(load_core(folder / "graph-replay.json.gz", identify=True), tmp_path / "identified.tlg")
    lines: list[str] = []
    for options in ({"identify": True}, {"capture": folder / "capture"}):
        core = load_core(tmp_path / "identified.tlg", tell=lines.append, **options)
        assert np.any(core.columns.owner_rule == OwnerRule.inferred)
    assert ["were identified before it was saved" in line for line in lines] == [True, True]


@needs_corpus
def test_sizes_of_products_are_those_of_the_capture() -> None:
    core = load_core(CORPUS / PAIR / "B300-decode.json.gz", identify=True)
    c = core.columns
    with gzip.open(CORPUS / PAIR / "gold.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "trace2" and row["cpu_op_name"] == "aten::mm"]
    known = 0
    for row in rows:
        owner = int(c.owner[core.rows_of([int(float(row["gpu_op_uid"]))])[0]])
        if c.argset[owner] >= 0 and core.names[c.name[owner]].startswith("inferred::"):
            assert core.argsets[c.argset[owner]][0].replace(" ", "") == str(
                [list(one) for one in literal_eval(row["Input Dims"])]
            ).replace(" ", "")
            known += 1
    assert known > 0.75 * len(rows)


@needs_corpus
def test_eager_layers_are_places_of_two_traces_too() -> None:
    pair = [load_core(CORPUS / f"tracelens/{device}/bert-small.json.gz") for device in ("h100", "mi300")]
    of_a, of_b = common_labels(*pair)
    assert {label for label in of_a.values() if "q product" in label}
    shared = set(of_a.values()) & set(of_b.values())
    assert sum(label in shared for label in of_a.values()) > 0.8 * len(of_a)


@needs_corpus
def test_a_table_by_layer_and_role_adds_up() -> None:
    core = load_core(CORPUS / REPLAYS[0])
    table = identified_kernels(core)
    rows = [*place_of(passes(core))]
    assert sum(table["kernels"]) == len(rows)
    assert sum(table["gpu_time_us"]) == pytest.approx(core.columns.dur_ns[rows].sum() / 1e3)
    by_role = identified_kernels(core, by="role")
    assert sum(by_role["gpu_time_us"]) == pytest.approx(sum(table["gpu_time_us"]))
    assert max(layer for layer in table["layer"] if layer is not None) == 31
    with pytest.raises(tlg.AnalysisError, match="by layer or by role"):
        identified_kernels(core, by="kernel")


@needs_corpus
@pytest.mark.parametrize(("engine", "capture"), [("sglang", "bs_32_rank0"), ("vllm", "graph_capture_rank_0")])
def test_a_trace_like_a_capture_has_the_ops_that_were_captured(engine: str, capture: str) -> None:
    folder = CORPUS / f"tracelens/inference/{engine}-decode"
    captured = load_core(folder / "graph-replay.json.gz", capture=folder / "capture")
    like = load_core(folder / "graph-replay.json.gz", identify=folder / "capture" / f"{capture}.json.gz")

    def described(core: Graph) -> dict[int, object]:
        c = core.columns
        gpu = core.gpu_rows
        return {
            uid: (core.names[c.name[owner]], c.argset[owner] >= 0 and core.argsets[c.argset[owner]])
            for uid, owner in zip(c.uid[gpu].tolist(), c.owner[gpu].tolist(), strict=True)
            if owner >= 0
        }

    truth, found = described(captured), described(like)
    replayed = [uid for uid in truth if uid in found]
    assert sum(truth[uid] == found[uid] for uid in replayed) > 0.99 * len(truth)
    assert "of their time like" in like.info.inferred


@needs_corpus
def test_a_trace_of_another_model_explains_nothing() -> None:
    folder = CORPUS / "tracelens"
    replayed = load_core(folder / "inference/vllm-decode/graph-replay.json.gz")
    for other in ("inference/sglang-decode/graph-replay.json.gz", "mi300/resnet-ddp-checkpointing.json.gz"):
        with pytest.raises(LinkError, match="explains no kernels"):
            with_identified(replayed, print, load_core(next((folder / other).parent.glob((folder / other).name + "*"))))


def replay(graphs: Sequence[Sequence[str]], eager: Sequence[Sequence[str]] = ()) -> Graph:
    """A step of graphs, launched one by one under an annotation, and after each of them kernels of an op."""
    events = [span("user_annotation", "execute_16_context_0_generation_16", 0, 90_000)]
    ts, correlation = 100.0, 1
    for at, names in enumerate(graphs):
        events.append(call(10 * correlation, correlation, "cudaGraphLaunch"))
        events += [gpu(ts + 2 * k, 2, correlation, name) for k, name in enumerate(names)]
        ts, correlation = ts + 2 * len(names), correlation + 1
        for name in eager[at] if at < len(eager) else ():
            events += [span("cpu_op", "vllm::attention", 10 * correlation, 6), call(10 * correlation + 1, correlation)]
            events.append(gpu(ts, 2, correlation, name))
            ts, correlation = ts + 2, correlation + 1
    return load_core({"traceEvents": events})


def test_a_pass_of_several_graphs_has_layers_together_with_what_runs_between_them() -> None:
    names, labels = kernels(MODELS["llama"], layers=6)
    cuts = [at for at, label in enumerate(labels) if label.endswith("attention / attention")]
    pieces = [names[a + 1 : b] for a, b in pairwise([-1, *cuts, len(names)])]
    core = replay(pieces, [[names[cut]] for cut in cuts])
    found = place_of(passes(core))
    kept = [label for at, label in enumerate(labels) if at not in cuts]
    assert [found[row].label for row in sorted(found, key=lambda row: core.columns.start_ns[row])] == kept
    graph = with_identified(core, print)
    c = graph.columns
    owners = [graph.names[c.name[row]] for row in c.owner[graph.gpu_rows].tolist()]
    assert owners.count("vllm::attention") == 6
    assert owners.count("inferred::qkv product") == 6


def test_replays_of_one_graph_are_identified_alike() -> None:
    names, labels = kernels(MODELS["qwen-moe"], layers=5)
    core = replay([names, names, names])
    assert [place.label for place in place_of(passes(core)).values()] == labels * 3
    graph = with_identified(core, print)
    assert len(graph.columns) > len(core.columns)
    table = identified_kernels(graph)
    assert set(table["kernels"]) == {3, 6}
    lines: list[str] = []
    assert len(with_identified(graph, lines.append).columns) == len(graph.columns)
    assert "were identified before" in " ".join(lines)


def test_a_trace_without_replays_is_left_as_it_is() -> None:
    core = load_core(small_trace())
    lines: list[str] = []
    same = with_identified(core, lines.append)
    assert len(same.columns) == len(core.columns)
    assert not same.info.inferred
    assert "nothing was identified" in " ".join(lines)
    assert "nothing was identified" in identified_kernels(core).notes[0]


def test_two_platforms_of_one_model_share_labels_but_for_what_only_one_of_them_runs() -> None:
    nvidia, amd = (replay([kernels(MODELS[f"deepseek-{platform}"])[0]]) for platform in ("nvidia", "amd"))
    labels = [[*found.values()] for found in common_labels(nvidia, amd)]
    in_layer = [[label.removeprefix("layer 7 / ") for label in one if label.startswith("layer 7 /")] for one in labels]
    for role in ("q/kv down product", "q up product", "k absorb product", "rope", "v up product", "out product"):
        assert all(f"attention / {role}" in one for one in in_layer)
    # Experts are five kernels here, and two there: one place.
    assert [one.count("moe / experts") for one in in_layer] == [4, 2]
    assert [one.count("moe / top-k") for one in in_layer] == [1, 1]
    assert [one.count("attention / other") for one in in_layer] == [4, 0]


@needs_corpus
def test_kernels_that_were_recorded_out_of_order_pair_with_those_of_another_platform() -> None:
    pair = [load_core(CORPUS / PAIR / f"{name}.json.gz", identify=True) for name in ("MI300-decode", "B300-decode")]
    points = places_table(diff(*pair)).records()
    of_layers = [one for one in points if "layer" in (one["module"] or "")]
    assert {one["reason"] for one in of_layers}.isdisjoint({"only_one"})
    assert {one["times"] for one in of_layers} == {32}


@needs_corpus
def test_layers_of_a_compiled_server_have_the_ops_and_shapes_of_its_capture() -> None:
    folder = CORPUS / "tracelens/inference/vllm-decode"
    core = load_core(folder / "graph-replay.json.gz", capture=folder / "capture")
    rows = [one for one in identified_kernels(core).records() if one["role"] == "qkv product"]
    assert [one["layer"] for one in rows] == list(range(24))
    assert {one["op"] for one in rows} == {"aten::addmm"}
    assert {one["shapes"].replace(" ", "")[:25] for one in rows} == {"[[5120],[32,2880],[2880,5"}
    alone = identified_kernels(load_core(folder / "graph-replay.json.gz"))
    assert not any(alone["op"])
