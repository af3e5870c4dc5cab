"""Names on a page: once, capped, with their class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from handmade import span

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.categories.kernel_rules import CATEGORIES
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.names import _OF_CATEGORY, CLASSES, LONGEST, Names, clean, used_names
from tracelens_graph.reports.html.timeline import DRAWN_KINDS, columns, drawn, longest_events


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
    assert names.add_each([("a", "op"), ("x", "none"), ("x", "module"), ("x", "none")]).tolist() == [1, 2, 3, 2]
    assert names.class_of(3) == "module"


@pytest.mark.parametrize(
    ("text", "shown"), [("a\u202eb", "a\\u202eb"), ("\ud83d", "\\ud83d"), ("x" * 999, "x" * LONGEST + "...")]
)
def test_texts_are_made_visible_and_short(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_classes_are_of_categories_that_there_are() -> None:
    assert set(_OF_CATEGORY) <= set(CATEGORIES)
    assert set(_OF_CATEGORY.values()) <= set(CLASSES)


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
