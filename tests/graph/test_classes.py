"""Subtree classes against two independent judges: nested tuples of the generated tree, and networkx."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import loaded
from tracelens_graph.graph.classes import class_rows, normal_name, same_as, subtree_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind


@dataclass
class Tree:
    """A call subtree as a test wants it; `kernel` names the kernel that a runtime call launches."""

    cat: str
    name: str
    shape: str = ""
    kernel: str = ""
    children: list[Tree] = field(default_factory=list)

    def has_gpu(self) -> bool:
        return bool(self.kernel) or any(child.has_gpu() for child in self.children)

    def canonical(self, shapes: bool, kernel_names: bool) -> tuple[Any, ...]:
        """The tree without branches that do no GPU work, as nested tuples."""
        below = tuple(child.canonical(shapes, kernel_names) for child in self.children if child.has_gpu())
        kernel = (("kernel", self.kernel if kernel_names else ""),) if self.kernel else ()
        return (self.cat, self.name, self.shape if shapes else "", *below, *kernel)

    def preorder(self) -> Iterator[Tree]:
        yield self
        for child in self.children:
            yield from child.preorder()


def events_of(trees: list[Tree], shift: int = 0) -> list[dict[str, Any]]:
    """The trees one after the other on one thread; a call's kernel runs long after everything."""
    events: list[dict[str, Any]] = []
    clock = shift

    def put(tree: Tree) -> None:
        nonlocal clock
        args: dict[str, Any] = {}
        event = {"ph": "X", "cat": tree.cat, "name": tree.name, "pid": 1, "tid": 1, "ts": clock, "args": args}
        events.append(event)
        clock += 1
        if tree.shape:
            args["Input Dims"] = [[int(tree.shape)]]
        if tree.kernel:
            args["correlation"] = clock - shift
            on_gpu = {"ph": "X", "cat": "kernel", "name": tree.kernel, "pid": 0, "tid": 7, "dur": 1}
            events.append(
                {**on_gpu, "ts": clock + 10**6, "args": {**args, "device": 0, "stream": 7, "grid": [1, 1, 1]}}
            )
        for child in tree.children:
            put(child)
        clock += 1
        event["dur"] = clock - event["ts"]

    for tree in trees:
        put(tree)
    return events


def graph_of(trees: list[Tree], shift: int = 0) -> Core:
    return load_core({"traceEvents": events_of(trees, shift)})


def launch(kernel: str) -> Tree:
    return Tree("cuda_runtime", "cudaLaunchKernel", kernel=kernel)


launches = st.builds(launch, st.sampled_from("ab"))
quiet = st.just(Tree("cuda_runtime", "cudaStreamSynchronize"))


def inner(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    below = st.lists(children, max_size=3)
    frame = st.builds(Tree, st.just("python_function"), st.sampled_from(["f", "nn.Module: M"]), children=below)
    op = st.builds(
        Tree, st.just("cpu_op"), st.sampled_from(["x", "y"]), st.sampled_from(["", "1", "2"]), children=below
    )
    return frame | op


forests = st.lists(st.recursive(launches | quiet, inner, max_leaves=12), min_size=1, max_size=4)
variants = pytest.mark.parametrize(
    ("shapes", "kernel_names"), [(False, False), (False, True), (True, False), (True, True)]
)


def host_trees(core: Core, trees: list[Tree]) -> list[tuple[int, Tree]]:
    """Row of each generated call, by order: pre-order on both sides."""
    rows = np.flatnonzero(core.columns.kind <= Kind.RuntimeCall).tolist()
    return list(zip(rows, (t for tree in trees for t in tree.preorder()), strict=True))


@variants
@given(trees=forests)
def test_equal_class_means_equal_tree(trees: list[Tree], shapes: bool, kernel_names: bool) -> None:
    core = graph_of(trees)
    lanes = subtree_classes(core, shapes, kernel_names)
    pairs = host_trees(core, trees)
    assert [row for row, tree in pairs if tree.has_gpu()] == class_rows(core).tolist()
    assert all(lanes[row].any() == tree.has_gpu() for row, tree in pairs)
    form = {row: tree.canonical(shapes, kernel_names) for row, tree in pairs if tree.has_gpu()}
    classes = {row: tuple(lanes[row].tolist()) for row in form}
    # As many forms as classes as combinations of both: neither splits what the other joins.
    joint = {(form[row], classes[row]) for row in form}
    assert len(joint) == len(set(form.values())) == len(set(classes.values()))


def ordered_tree(core: Core, row: int, gpu_sum: np.ndarray) -> nx.DiGraph:
    """The subtree as a DiGraph whose nodes know what they are and which child of their parent."""
    c, tree = core.columns, nx.DiGraph()
    place: dict[int, int] = {}
    for at in range(row, int(c.last[row]) + 1):
        if gpu_sum[at]:
            kind = Kind(int(c.kind[at]))
            argset = core.argsets[c.argset[at]] if c.argset[at] >= 0 and kind is Kind.Op else None
            name = "" if kind is Kind.Kernel else core.names[c.name[at]]
            parent = int(c.parent[at])
            if at == row:
                tree.add_node(at, label=(kind, name, argset, 0))
            else:
                place[parent] = place.get(parent, 0) + 1
                tree.add_node(at, label=(kind, name, argset, place[parent]))
                tree.add_edge(parent, at)
    return tree


@given(trees=forests)
def test_equal_class_means_isomorphic(trees: list[Tree]) -> None:
    core = graph_of(trees)
    lanes, rows = subtree_classes(core), class_rows(core)[:8]
    shown = {row: ordered_tree(core, row, core.gpu_sum_ns) for row in rows.tolist()}
    for a in shown:
        for b in shown:
            isomorphic = nx.is_isomorphic(shown[a], shown[b], node_match=lambda one, two: one == two)
            assert isomorphic == np.array_equal(lanes[a], lanes[b])


@given(trees=forests, shift=st.integers(1, 10**6))
def test_class_does_not_depend_on_time_or_trace(trees: list[Tree], shift: int) -> None:
    early, late = graph_of(trees), graph_of([Tree("cpu_op", "other"), *trees], shift)
    ours = subtree_classes(early)[class_rows(early)]
    theirs = subtree_classes(late)[class_rows(late)]
    assert np.array_equal(ours, theirs)


RENAMED = {
    "instance": ("python_function", "nn.Module: Linear_3", "nn.Module: Linear_41"),
    "line": ("python_function", "model.py(31): forward", "model.py(77): forward"),
    "address": ("python_function", "<method f of X object at 0x7f01>", "<method f of X object at 0x7fff>"),
    "launch API": ("cuda_runtime", "cudaLaunchKernel", "cudaLaunchKernelExC"),
    "driver": ("cuda_driver", "cuLaunchKernel", "cuLaunchKernelEx"),
    "vendor": ("cuda_runtime", "cudaLaunchKernel", "hipModuleLaunchKernel"),
}


@pytest.mark.parametrize(("cat", "one", "two"), RENAMED.values(), ids=RENAMED)
def test_class_ignores_what_differs_between_instances(cat: str, one: str, two: str) -> None:
    def tree(name: str) -> Tree:
        if cat == "python_function":
            return Tree("cpu_op", "root", children=[Tree(cat, name, children=[launch("k")])])
        return Tree("cpu_op", "root", children=[Tree(cat, name, kernel="k")])

    core = graph_of([tree(one), tree(two), tree("something_else")])
    roots = core.find("Op", "root")
    assert same_as(core, roots[0]) == roots[:2]


@pytest.mark.parametrize(
    ("kind", "name", "normal"),
    [
        (Kind.Op, "triton_poi_fused_add_3", "triton_poi_fused_add_3"),
        (Kind.Op, "aten::linear", "aten::linear"),
        (Kind.Module, "nn.Module: Linear_3", "nn.Module: Linear"),
        (Kind.PythonFunction, "a_1.py(3): f_2", "a_1.py: f_2"),
        (Kind.RuntimeCall, "hipExtModuleLaunchKernel", "launch"),
        (Kind.RuntimeCall, "cudaGraphLaunch", "launch graph"),
        (Kind.RuntimeCall, "hipMemcpyWithStream", "copy"),
        (Kind.RuntimeCall, "cudaMemsetAsync", "fill"),
        (Kind.RuntimeCall, "urEnqueueKernelLaunch", "launch"),
        (Kind.RuntimeCall, "cudaStreamSynchronize", "cudaStreamSynchronize"),
    ],
)
def test_normal_names(kind: Kind, name: str, normal: str) -> None:
    assert normal_name(kind, name) == normal


def test_class_is_the_same_number_everywhere() -> None:
    # Databases hold classes: other numbers here mean that old and new pushes no longer match.
    tree = Tree("cpu_op", "aten::mm", "4", children=[launch("gemm")])
    assert graph_of([tree]).classes()["class"] == [
        "1854ac945c3a46ec90632a37cd03c09a",
        "a6ed3f422d802d406f3a3e325100470e",
    ]
    spaced = json.dumps({"traceEvents": events_of([tree])}, indent=1).encode()
    assert load_core(spaced).classes()["class"] == graph_of([tree]).classes()["class"]


def test_table_counts_and_sums() -> None:
    layer = [Tree("python_function", f"nn.Module: L_{i}", children=[launch("k"), launch("k")]) for i in range(3)]
    core = graph_of([*layer, Tree("cpu_op", "alone", children=[launch("k")])])
    found = {record["name"]: record for record in core.classes().records()}
    assert found["nn.Module: L"]["count"] == 3
    assert found["nn.Module: L"]["gpu_sum_ns"] == 6000
    assert found["nn.Module: L"]["mean_gpu_sum_ns"] == 2000.0
    assert found["launch"]["count"] == 7
    assert core.node(found["nn.Module: L"]["uid"]).name == "nn.Module: L_0"
    assert [node.name for node in core.same_as(core.find(name="nn.Module: L_1")[0])] == [
        "nn.Module: L_0", "nn.Module: L_1", "nn.Module: L_2",
    ]  # fmt: skip


def test_no_gpu_work_no_class() -> None:
    core = graph_of([Tree("cpu_op", "aten::view")])
    assert len(core.classes()) == 0
    assert core.same_as(core.find("Op")[0]) == []
    assert len(load_core({"traceEvents": []}).classes()) == 0


@pytest.mark.parametrize("folder", ["h100", "mi300"])
def test_layers_of_a_real_model_are_one_class(corpus: Path, folder: str) -> None:
    core = loaded(corpus / f"tracelens/{folder}/qwen1.5-0.5b.json.gz")
    layers = [row for row in core.classes().records() if row["name"] == "nn.Module: Qwen2DecoderLayer"]
    assert [row["count"] for row in layers] == [24]
    assert len(core.same_as(core.node(layers[0]["uid"]))) == 24


def test_numbers_at_the_end_of_a_name_without_end() -> None:
    before = process_time()
    assert normal_name(Kind.Op, "a" + ".1" * 200_000) == "a"
    assert normal_name(Kind.Op, name := ".1" * 200_000 + "x") == name
    assert process_time() - before < 5
