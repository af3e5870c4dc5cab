"""Names on a page: once, capped, with their class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from handmade import span

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.categories.kernel_rules import CATEGORIES
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.names import (
    CLASSES,
    Names,
    Texts,
    category_class,
    table_objects,
    used_names,
)
from tracelens_graph.reports.html.timeline import DRAWN_KINDS, columns, drawn, longest_events
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.table import Table


def test_most_used_names_come_first_and_kinds_are_told_apart() -> None:
    gpu = {"device": 0, "stream": 7}
    core = load_core(
        [
            span("cpu_op", "same", 0, 100), span("kernel", "same", 10, 5, 0, 7, **gpu),
            *(span("kernel", "ampere_sgemm_128x64", 20 + 10 * k, 5, 0, 7, **gpu) for k in range(3)),
            span("gpu_memcpy", "Memcpy HtoD", 90, 5, 0, 7, **gpu),
            span("python_function", "nn.Module: Linear_0", 200, 5), span("python_function", "a/b.py(3): f", 300, 5),
        ]
    )  # fmt: skip
    names = Names(core.everything, DRAWN_KINDS)
    told = dict(zip(zip(names.texts, names.shorts, strict=True), [CLASSES[of] for of in names.classes], strict=True))
    assert names.texts[0] == "ampere_sgemm_128x64"
    assert names.texts.count("same") == 2
    assert told["ampere_sgemm_128x64", "ampere_sgemm_128x64"] == "gemm"
    assert told["Memcpy HtoD", "Memcpy HtoD"] == "copy"
    assert told["nn.Module: Linear_0", "Linear_0"] == "module"
    assert told["a/b.py(3): f", "b.py:3 f"] == "python"
    found = names.of_rows(np.arange(len(core.columns)))
    assert [names.texts[number] for number in found.tolist()] == [
        core.names[code] for code in core.columns.name.tolist()
    ]


def test_further_names_have_one_number_each() -> None:
    names = Names(load_core([span("cpu_op", "a", 0, 1)]).everything, DRAWN_KINDS)
    assert names.add_each([("a", "op"), ("x", "none"), ("x", "module"), ("x", "none")]).tolist() == [0, 1, 2, 1]
    assert names.class_of(2) == "module"


def test_categories_of_kernels_and_of_ops_have_the_same_classes() -> None:
    assert {category_class(one) for one in CATEGORIES} <= set(CLASSES)
    for class_, names in {
        "gemm": ("GEMM", "MoE_fused", "GroupedGEMM_fwd"), "attention": ("Flash Attention Forward", "SDPA_bwd"),
        "conv": ("Convolution", "CONV_fwd"), "norm": ("Normalization", "NORM_bwd", "Softmax_fwd", "Softmax"),
        "reduce": ("Reduction", "reduce", "Sort/TopK"), "copy": ("Memory Ops", "Embedding"),
        "elementwise": ("Elementwise", "elementwise", "triton", "multi_tensor_apply", "RoPE_fwd"),
        "communication": ("Communication", "record_param_comms", "MoE_comm_fwd"), "other": ("Other", "unlinked"),
    }.items():  # fmt: skip
        assert {category_class(name) for name in names} == {class_}


@parametrize("path", chosen_traces())
def test_names_that_are_used_are_numbered_anew(path: Path) -> None:
    w = loaded(path).everything
    names = Names(w, DRAWN_KINDS)
    kept, _ = longest_events(w, drawn(w), 200)
    whole = columns(w, kept, names)
    again, texts = used_names(whole, names, 30)
    assert len(texts["names"]) == len(texts["shorts"]) == len(again["name.class"].values) <= len(names.texts)
    assert max(map(len, filter(None, (*texts["names"], *texts["shorts"])))) <= 30 + len("...")
    for part in ("host.name", "note.name", "gpu.name"):
        for old, new in zip(whole[part].values.tolist(), again[part].values.tolist(), strict=True):
            told = texts["names"][new]
            assert told == names.texts[old] or len(names.texts[old]) > 30
            assert again["name.class"].values[new] == names.classes[old]
    assert again["host.start"] is whole["host.start"]


def test_kinds_of_cells() -> None:
    about = {
        "op": Column("the op", heading="op", role=Role.key), "ms": Column("time", "ms", heading="GPU ms"),
        "uid": Column("an event", role=Role.instance), "hidden": Column("more"),
        "more": Column("more"),
    }  # fmt: skip
    table = Table(
        "t",
        {
            "op": ["a", "b", "a"], "ms": [1.5, np.nan, 10**400], "more": np.array([1.5, np.nan, np.inf]),
            "uid": [3, None, 5],
            "hidden": [[1, 2], None, "a"], "flag": [True, None, False],
        },
        about, "Title", ["a note"],
    )  # fmt: skip
    texts = Texts()
    (found,) = table_objects({"t": table}, texts)
    columns = {column["name"]: column for column in found["columns"]}
    assert {name: (column["kind"], column["shown"]) for name, column in columns.items()} == {
        "op": ("text", True), "ms": ("number", True), "uid": ("uid", True), "hidden": ("text", False),
        "flag": ("flag", False), "more": ("number", False),
    }  # fmt: skip
    assert columns["ms"]["cells"] == columns["more"]["cells"] == [1.5, None, None]
    assert columns["uid"]["cells"] == [3, None, 5]
    assert [texts.listed[cell] for cell in columns["op"]["cells"]] == ["a", "b", "a"]
    assert columns["hidden"]["cells"][2] == columns["op"]["cells"][0]
    assert (found["rows"], found["notes"], columns["ms"]["heading"]) == (3, ["a note"], "GPU ms")


def test_rows_beyond_number_are_counted() -> None:
    (found,) = table_objects({"t": Table("t", {"n": np.arange(5)})}, Texts(), most=2)
    assert found["rows"] == 2
    assert found["columns"][0]["cells"] == [0, 1]
    assert found["notes"] == ["3 more rows: --csv DIR writes them"]
