"""A graph joins the execution trace of its own run, and no other."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linked_pairs import Call, calls, execution_trace, joined, kineto, pairs_of, renamed
from recorded_pairs import join as plain_join

import tracelens_graph as tlg
from corpus import CORPUS, needs_corpus
from tracelens_graph.errors import LinkError
from tracelens_graph.execution.link import Link
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

LAYER = ["aten::linear", "aten::t", "aten::addmm", "aten::relu", "aten::add"]
PROGRAM = calls(["start", *LAYER * 8, "aten::sum"], ["backward", *(f"{name}_backward" for name in LAYER[::-1] * 8)])
EXAMPLES = "examples/traces"


def check_pairs(core: Core, link: Link) -> None:
    """Names of pairs are equal, nobody is in two pairs, and both directions agree."""
    rows = np.flatnonzero(link.node_of_row >= 0)
    nodes = link.node_of_row[rows]
    assert (link.row_of_node[nodes] == rows).all()
    assert len(rows) == (link.row_of_node >= 0).sum()
    names = [core.names[code] for code in core.columns.name[rows]]
    assert names == [link.execution.names[code] for code in link.execution.name[nodes]]


def check_order(core: Core, link: Link) -> None:
    """On each thread pairs are in one order, and a thread is joined with one thread only."""
    c = core.columns
    rows = np.flatnonzero(link.node_of_row >= 0)
    partner: dict[int, int] = {}
    for thread in np.unique(c.thread[rows]).tolist():
        here = rows[c.thread[rows] == thread]
        nodes = link.node_of_row[here[np.lexsort((here, -c.dur_ns[here], c.start_ns[here]))]]
        assert (np.diff(nodes) > 0).all()
        (other,) = np.unique(link.execution.tid[nodes])
        assert int(other) not in partner.values()
        partner[thread] = int(other)


# --- methods ---------------------------------------------------------------------------------------------------------


def test_equal_ids() -> None:
    core, link = joined(kineto(PROGRAM), execution_trace(PROGRAM))
    assert (link.method, link.equal_names_percent, link.unjoined) == ("Record function id = rf_id", 100, {})
    assert pairs_of(core, link) == {(one.number - 1, one.number) for one in PROGRAM}


@pytest.mark.parametrize("offset", [-1, 1, 12, -4000])
def test_ids_that_differ_by_a_constant(offset: int) -> None:
    made = calls([f"op{place % 50}" for place in range(300)])
    later = [Call(one.number + 5000, one.thread, one.name) for one in made]
    _, link = joined(kineto(later), execution_trace(later, offset))
    sign = "+" if offset > 0 else "-"
    assert link.method == f"Record function id = rf_id {sign} {abs(offset):,}"
    assert (link.row_of_node >= 0).sum() == len(made)


def test_external_ids_of_old_traces() -> None:
    made = calls(["start", *LAYER * 8])
    _, link = joined(kineto(made, ids=False, external=True), execution_trace(made))
    assert (link.method, (link.row_of_node >= 0).sum()) == ("External id = rf_id", len(made))


def test_order_of_names_by_thread() -> None:
    core, link = joined(kineto(PROGRAM, ids=False), execution_trace(PROGRAM, threads={1: 2, 2: 1}))
    assert link.method == "names in order, by thread"
    assert pairs_of(core, link) == {(one.number - 1, one.number) for one in PROGRAM}
    check_order(core, link)


def test_one_step_of_a_longer_trace() -> None:
    step = [f"op{place}" for place in range(40)] + LAYER * 4
    longer = calls([*LAYER, *step, *LAYER * 3])
    part = longer[len(LAYER) : len(LAYER) + len(step)]
    core, link = joined(kineto(longer, ids=False), execution_trace(part))
    assert link.method == "names in order, by thread, the execution trace within the trace"
    assert pairs_of(core, link) == {(one.number - 1, one.number) for one in part}
    before, after = "began before the execution trace", "began after the execution trace"
    assert link.unjoined == {f"trace: {before}": 5, f"trace: {after}": 15}


def test_a_trace_within_a_longer_execution_trace() -> None:
    longer = calls([*LAYER, *(f"op{place}" for place in range(40)), *LAYER * 6])
    part = longer[5:45]
    _, link = joined(kineto(part, ids=False), execution_trace(longer))
    assert link.method.endswith("the trace within the execution trace")
    assert (link.row_of_node >= 0).sum() == len(part)


def test_of_equal_steps_the_first_is_taken_and_that_is_said() -> None:
    step = [f"op{place}" for place in range(40)]
    steps = calls(step * 4)
    core, link = joined(kineto(steps, ids=False), execution_trace(steps[:40]))
    assert link.method.endswith("within the trace, the first of 4 places where they fit")
    assert pairs_of(core, link) == {(place, place + 1) for place in range(40)}


def test_threads_beside_a_step_are_joined_within_it() -> None:
    forward, backward = [f"f{place}" for place in range(30)], [f"b{place}" for place in range(20)]
    whole = calls(["warm", "up", *forward, *LAYER * 9], ["x", "y", *backward, *LAYER * 5])
    part = [one for one in whole if one.name[0] in "fb" and one.name[1:].isdigit()]
    core, link = joined(kineto(whole, ids=False), execution_trace(part))
    assert pairs_of(core, link) == {(one.number - 1, one.number) for one in part}


# --- what does not join ------------------------------------------------------------------------------------------


def test_reasons_are_counted_on_both_sides() -> None:
    kept = [one for one in PROGRAM if one.number != 20]
    step = [Call(len(PROGRAM) + 1, 1, "ProfilerStep#3")]
    _, link = joined(kineto([*renamed(PROGRAM, {30}), *step]), execution_trace(kept))
    assert link.unjoined == {
        "trace: not in the execution trace": 1,
        "trace: another name in the execution trace": 1,
        "trace: ProfilerStep": 1,
        "execution trace: another name in the trace": 1,
    }
    assert (link.row_of_node >= 0).sum() == len(PROGRAM) - 2
    assert link.equal_names_percent == pytest.approx(100 * (len(PROGRAM) - 2) / (len(PROGRAM) - 1))


def test_another_program_is_refused() -> None:
    other = calls([f"other{place}" for place in range(len(PROGRAM))])
    with pytest.raises(LinkError, match=r"<parsed trace> and <parsed trace>: .*at most 0\.0 % of the names"):
        joined(kineto(PROGRAM), execution_trace(other))


@pytest.mark.parametrize("offset", [0, 7])
@pytest.mark.parametrize("names", [["aten::add"], ["aten::add"] * 30, ["a", "b", "c", "d"] * 8])
def test_few_names_are_no_evidence(names: list[str], offset: int) -> None:
    made = calls(names)
    later = [Call(one.number + 50, one.thread, one.name) for one in made]
    few = len(set(names))
    with pytest.raises(LinkError, match=rf"too little to decide whether .* has {few} different names?, 5 are needed$"):
        joined(kineto(later, ids=bool(offset)), execution_trace(later, offset))
    with pytest.raises(LinkError):  # one call of a longer trace
        joined(kineto(PROGRAM, ids=bool(offset)), execution_trace([Call(900, 1, "aten::sum")]))


def test_two_runs_of_one_program_are_joined() -> None:
    _, link = joined(kineto(PROGRAM, pid=500), execution_trace(PROGRAM, pid=501))
    assert (link.equal_names_percent, link.is_same_process) == (100, False)
    assert "; two runs of one program: their process ids differ" in link.summary
    assert joined(kineto(PROGRAM), execution_trace(PROGRAM))[1].is_same_process is True


def test_another_device_is_another_rank_of_a_job_only() -> None:
    made = [*PROGRAM, Call(len(PROGRAM) + 1, 1, "record_param_comms")]
    trace, et = kineto(made), execution_trace(made, pid=501)
    place = {"pid": 1, "tid": 7, "ts": 9000, "dur": 5, "args": {"device": 1, "stream": 7}}
    trace["traceEvents"].append({"ph": "X", "cat": "kernel", "name": "k", **place})
    tensor = {"values": [[8, 9, 0, 4, 4, "cuda:0"]], "shapes": [[4]], "types": ["Tensor(float)"], "strides": [[1]]}
    et["nodes"][1]["inputs"] = tensor
    assert joined(trace, et)[1].equal_names_percent == 100
    et["nodes"][0]["inputs"] = collective(0)
    et["nodes"][0]["inputs"]["values"][1] = 94398426290464  # type: ignore[index]
    et["nodes"][0]["inputs"]["types"][1] = "Int"  # type: ignore[index]
    with pytest.raises(LinkError, match="of two ranks, on devices 1 and 0"):
        joined(trace, et)


def collective(rank: int) -> dict[str, object]:
    """Inputs of `record_param_comms` on the group of all ranks."""
    types = ["Int", "Tuple[String,String]", "Int", "String", "GenericList[]", "GenericList[]", "Int", "Int", "Int"]
    values = [3, ["0", "default_pg"], rank, "allreduce", [], [], 0, 1, 4]
    return {"values": values, "shapes": [[]] * 9, "types": types, "strides": [[]] * 9}


@pytest.mark.parametrize(("pid", "rank", "told"), [(501, 3, "of two ranks, 1 and 3"), (501, 1, ""), (500, 3, "")])
def test_another_rank_is_refused(pid: int, rank: int, told: str) -> None:
    made = [*PROGRAM, Call(len(PROGRAM) + 1, 1, "record_param_comms")]
    trace = kineto(made, distributedInfo={"rank": 1, "world_size": 4})
    et = execution_trace(made, pid=pid)
    et["nodes"][0]["inputs"] = collective(rank)
    if not told:
        assert joined(trace, et)[1].equal_names_percent == 100
        return
    with pytest.raises(LinkError, match=f"{told}; 100.0 % of the names are equal"):
        joined(trace, et)


def test_ids_that_occur_twice_are_no_ids() -> None:
    trace = kineto(PROGRAM)
    trace["traceEvents"][6]["args"]["Record function id"] = 5
    core, link = joined(trace, execution_trace(PROGRAM))
    assert (link.row_of_node >= 0).sum() == len(PROGRAM) - 2
    check_pairs(core, link)


# --- any pair ------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from([*LAYER, "a", "b", "c"])


@given(
    threads=st.lists(st.lists(NAMES, min_size=1, max_size=25), min_size=1, max_size=3),
    lost=st.tuples(st.sets(st.integers(1, 40), max_size=4), st.sets(st.integers(1, 40), max_size=4)),
    other=st.sets(st.integers(1, 40), max_size=3),
    offset=st.integers(-3, 3),
    ids=st.booleans(),
    shuffled=st.permutations([1, 2, 3]),
)  # fmt: skip
def test_pairs_have_equal_names_and_one_order(
    threads: list[list[str]],
    lost: tuple[set[int], set[int]],
    other: set[int],
    offset: int,
    ids: bool,
    shuffled: list[int],
) -> None:
    made = calls(*threads)
    recorded, observed = ([one for one in made if one.number not in gone] for gone in lost)
    et = execution_trace(renamed(observed, other), offset, threads=dict(enumerate(shuffled, 1)))
    try:
        core, link = joined(kineto(recorded, ids=ids), et)
    except LinkError:
        return
    check_pairs(core, link)
    if link.method.startswith("names in order"):
        check_order(core, link)
    assert link.equal_names_percent >= 95
    rows, nodes = len(core.columns), int(link.execution.is_op.sum())
    assert sum(link.unjoined.values()) == rows + nodes - 2 * int((link.row_of_node >= 0).sum())


# --- recorded and simulated pairs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiny-transformer-cpu", "linked/compiled", "linked/lineage", "linked/threads"])
def test_recorded_pairs_join_whole(name: str) -> None:
    core = load_core(f"{EXAMPLES}/{name}.json.gz", et=f"{EXAMPLES}/{name}.execution-trace.json.gz")
    link = core.link
    assert link is not None
    assert (link.row_of_node >= 0).sum() == link.execution.is_op.sum()
    assert (link.method, link.equal_names_percent) == ("Record function id = rf_id", 100)
    check_pairs(core, link)


@pytest.mark.parametrize("drops_ids", [False, True])
def test_a_recorded_step_joins_within_its_run(drops_ids: bool) -> None:
    import gzip

    import msgspec

    with gzip.open(f"{EXAMPLES}/linked/one-step.json.gz") as file:
        trace = msgspec.json.decode(file.read())
    if drops_ids:
        for event in trace["traceEvents"]:
            event.get("args", {}).pop("Record function id", None)
    core = load_core(trace, et=f"{EXAMPLES}/linked/one-step.execution-trace.json.gz")
    assert core.link is not None
    assert core.link.method.startswith("names in order" if drops_ids else "Record function id = rf_id")
    assert (core.link.row_of_node >= 0).sum() == core.link.execution.is_op.sum()


def test_simulated_pairs_join_whole() -> None:
    for one in simulate(ranks=2, steps=2).ranks:
        core = load_core(one.trace, et=one.execution_trace)
        assert core.link is not None
        assert (core.link.row_of_node >= 0).sum() == core.link.execution.is_op.sum()
        check_pairs(core, core.link)


PAIRS = {
    "linkage/simple-add/kineto": ("linkage/simple-add/execution-trace", "External id = rf_id", 36, 36),
    "hta/resnet-ddp-nccl-args": (
        "linkage/resnet-ddp/execution-trace-1.0.3",
        "Record function id = rf_id",
        14388,
        14388,
    ),
} | {
    f"dlrm-8-ranks/kineto/rank{rank}": (
        f"dlrm-8-ranks/execution-trace/rank{rank}",
        "names in order, by thread",
        joins,
        1672,
    )
    for rank, joins in enumerate((1670, 1670, 1671, 1671, 1668, 1672, 1672, 1670))
}


@needs_corpus
@pytest.mark.parametrize("trace", PAIRS)
def test_real_pairs(trace: str) -> None:
    et, method, joins, nodes = PAIRS[trace]
    assert CORPUS
    core = load_core(CORPUS / f"{trace}.json.gz", et=CORPUS / f"{et}.json.gz")
    link = core.link
    assert link is not None
    assert (link.method, (link.row_of_node >= 0).sum(), link.execution.is_op.sum()) == (method, joins, nodes)
    check_pairs(core, link)


@needs_corpus
@pytest.mark.parametrize("trace", ["linkage/simple-add/kineto", "hta/resnet-ddp-nccl-args"])
def test_an_independent_join_finds_the_same_pairs(trace: str) -> None:
    import gzip

    import msgspec

    assert CORPUS
    documents = [
        msgspec.json.decode(gzip.decompress((CORPUS / f"{one}.json.gz").read_bytes()))
        for one in (trace, PAIRS[trace][0])
    ]
    _, pairs = plain_join(*documents)
    core = load_core(documents[0], et=documents[1])
    assert core.link is not None
    rows = np.flatnonzero(core.link.node_of_row >= 0)
    nodes = core.link.execution.id[core.link.node_of_row[rows]]
    assert set(zip(nodes.tolist(), core.columns.uid[rows].tolist(), strict=True)) == pairs


@needs_corpus
@pytest.mark.parametrize(
    ("trace", "et", "told"),
    [
        ("dlrm-8-ranks/kineto/rank0", "dlrm-8-ranks/execution-trace/rank3", "of two ranks, 0 and 3; 99.9 %"),
        ("linkage/simple-add/kineto", "dlrm-8-ranks/execution-trace/rank3", "not from one run: at most 2.8 %"),
        ("hta/resnet-ddp-nccl-args", "dlrm-8-ranks/execution-trace/rank0", "not from one run: at most 27.9 %"),
    ],
)
def test_strangers_are_refused(trace: str, et: str, told: str) -> None:
    assert CORPUS
    with pytest.raises(LinkError) as refused:
        load_core(CORPUS / f"{trace}.json.gz", et=CORPUS / f"{et}.json.gz")
    said = str(refused.value)
    assert told in said
    assert f"{trace}.json.gz and " in said
    assert f"{et}.json.gz: " in said


@pytest.mark.proof
def test_long_traces_join_in_seconds() -> None:
    """100,000 calls of a program of many equal layers, some lost and some renamed, without ids."""
    whole = calls(LAYER * 14_000, [f"{name}_backward" for name in LAYER] * 6_000)
    lost = set(range(500, len(whole), 997))
    observed = renamed([one for one in whole if one.number not in lost], set(range(300, len(whole), 1999)))
    trace, et = kineto(whole, ids=False), execution_trace(observed)
    core = load_core(trace)
    begin = perf_counter()
    from tracelens_graph.loading.one import linked

    link = linked(core, et).link
    assert link is not None
    assert perf_counter() - begin < 30
    check_pairs(core, link)
    assert (link.row_of_node >= 0).sum() >= len(observed) - 51


@pytest.mark.parametrize("differ", [False, True])
def test_many_threads_join_in_seconds(differ: bool) -> None:
    """Where all threads have the same names, the first goes with the first; else names tell."""
    count = 4000
    program = calls(*(["a", f"b{thread}" if differ else "b", "c", "d", "e"] for thread in range(count)))
    program = [replace(one, number=one.number + count) for one in program]
    turned = {thread: count - thread for thread in range(1, count)} if differ else None
    begin = perf_counter()
    core, link = joined(kineto(program, ids=False), execution_trace(program, threads=turned))
    assert perf_counter() - begin < 30
    assert int((link.row_of_node >= 0).sum()) == 5 * count
    named = {core.names[core.columns.name[row]] for row in np.flatnonzero(link.node_of_row >= 0)}
    assert len(named) == (count + 4 if differ else 5)
    assert link.equal_names_percent == 100


MADE = [*calls(["aten::mm", "aten::relu", "user range"]), Call(4, 1, "record_param_comms")]
MATRICES = {
    "values": [[7, 8, 0, 6, 4, "cuda:0"], [9, 10, 0, 12, 4, "cuda:0"]],
    "shapes": [[2, 3], [3, 4]],
    "types": ["Tensor(float)", "Tensor(float)"],
    "strides": [[3, 1], [4, 1]],
}
WHOLE = ('[[2,3],[3,4]]', '["float","float"]', '[[3,1],[4,1]]', '["",""]')  # fmt: skip


def pair(args: dict[str, Any], comms: dict[str, Any] | None = None) -> Core:
    """The pair in which the product records some arguments, and the collective too."""
    trace, et = kineto(MADE), execution_trace(MADE)
    trace["traceEvents"][0]["args"] |= args
    trace["traceEvents"][3]["args"] |= comms or {}
    of_name = {node["name"]: node for node in et["nodes"]}
    of_name["aten::mm"]["inputs"] = MATRICES
    types = ["GenericList[Tensor(c10::BFloat16)]", "Int", "Tuple[String,String]", "Int", "String"]
    values = [[[9, 10, 0, 12, 2, "cuda:0"]], 5, ["1", "tp"], 1, "allreduce"]
    behind: list[Any] = [[], [], 2, 2, 4]
    kinds = ["GenericList[]", "GenericList[]", "Int", "Int", "Int"]
    collective = {"values": values + behind, "shapes": [[]] * 10, "types": types + kinds, "strides": [[]] * 10}
    of_name["record_param_comms"] |= {
        "inputs": collective,
        "outputs": {**MATRICES, "types": ["Tensor(c10::BFloat16)"] * 2},
    }
    return load_core(trace, et=et)


def argset(core: Core, uid: int) -> tuple[str, ...] | None:
    code = int(core.columns.argset[core.row(uid)])
    return core.argsets[code] if code >= 0 else None


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({}, WHOLE),
        ({"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}, WHOLE),
        ({"Input Dims": [[5, 3], [3, 4]], "Input type": ["float", "float"]}, ("[[5, 3], [3, 4]]", *WHOLE[1:])),
        ({"Input Dims": [[2, 3]], "Input type": ["float"]}, ("[[2,3]]", '["float"]', "", "")),
    ],
)
def test_arguments_that_lack(args: dict[str, Any], found: tuple[str, ...]) -> None:
    core = pair(args)
    told = argset(core, 0)
    assert told is not None
    assert [part.replace(" ", "") for part in told] == [part.replace(" ", "") for part in found]
    assert argset(core, 1) is None


def test_collectives_take_what_is_not_recorded() -> None:
    found = pair({}).collective_args[3]
    told = {key: found[key] for key in ("kind", "group", "group_description", "ranks", "group_size", "rank", "dtype")}
    assert told == {
        "kind": "allreduce",
        "group": "1",
        "group_description": "tp",
        "ranks": "[2, 4, 6, 8]",
        "group_size": 4,
        "rank": 1,
        "dtype": "BFloat16",
    }
    assert (found["in_elements"], found["out_elements"]) == (12, 18)


def test_what_the_trace_records_of_a_collective_stays() -> None:
    found = pair({}, {"Collective name": "_allgather_base", "In msg nelems": 7, "dtype": "Half"}).collective_args[3]
    assert (found["kind"], found["in_elements"], found["dtype"], found["group_size"]) == (
        "_allgather_base",
        7,
        "Half",
        4,
    )


def test_all_else_stays_as_it_was() -> None:
    trace, et = kineto(MADE), execution_trace(MADE)
    alone, linked = load_core(trace), load_core(trace, et=et)
    assert linked.equals(alone)
    assert alone.link is None
    assert linked.link is not None


@needs_corpus
def test_models_apply_to_a_trace_without_shapes() -> None:
    assert CORPUS
    trace = CORPUS / "hta/resnet-ddp-nccl-args.json.gz"
    alone = tlg.load(trace)
    linked = tlg.load(trace, et=CORPUS / "linkage/resnet-ddp/execution-trace-1.0.3.json.gz")
    modelled = [sum(flops is not None for flops in tlg.unified_perf_summary(g)["GFLOPS"]) for g in (alone, linked)]
    assert modelled[0] == 0
    assert modelled[1] > 100


@needs_corpus
def test_what_real_traces_record_stays() -> None:
    """What the traces record of dims and types stays."""
    assert CORPUS
    trace = CORPUS / "dlrm-8-ranks/kineto/rank0.json.gz"
    alone = load_core(trace)
    linked = load_core(trace, et=CORPUS / "dlrm-8-ranks/execution-trace/rank0.json.gz")
    for uid in alone.columns.uid.tolist():
        before, after = argset(alone, uid), argset(linked, uid)
        if before is not None:
            assert after is not None
            assert after[:2] == before[:2]
