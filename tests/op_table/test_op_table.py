"""The table of ops: names stand once, rows are whole, and every model in it can be made."""

from __future__ import annotations

import pickle
from pkgutil import iter_modules

import pytest

from tracelens_graph import op_table
from tracelens_graph.op_table import DOMAINS, OP_TABLE
from tracelens_graph.op_table.entry import ModelSpec, OpEntry, model, ops
from tracelens_graph.op_table.pseudo import PARTS
from tracelens_graph.perf import families
from tracelens_graph.perf.registry import MODELS

MODELLED = {name: entry for name, entry in OP_TABLE.items() if entry.model}
SPECS = {spec for entry in MODELLED.values() for spec in (entry.model, entry.backward) if spec}


def test_every_domain_is_read() -> None:
    modules = {module.name for module in iter_modules(op_table.__path__)} - {"entry", "pseudo"}
    assert {domain.__name__.rpartition(".")[2] for domain in DOMAINS} == modules


def test_no_name_stands_twice() -> None:
    names = [name for domain in DOMAINS for name, _ in domain.OPS]
    assert sorted(names) == sorted(OP_TABLE)


def test_every_pseudo_op_has_a_row() -> None:
    assert OP_TABLE.keys() >= PARTS
    assert {name for name, entry in OP_TABLE.items() if entry.is_part} < PARTS


def test_every_row_says_something() -> None:
    assert [name for name, entry in OP_TABLE.items() if not (entry.category or entry.model)] == []


def test_models_have_a_sheet_and_nothing_else_has() -> None:
    for name, entry in OP_TABLE.items():
        assert bool(entry.sheet) == bool(entry.model), name
        assert entry.model or not (entry.backward or entry.in_tracelens), name


def test_every_model_can_be_made() -> None:
    for name, entry in MODELLED.items():
        made = MODELS[name]
        assert callable(made.estimate), name
        assert callable(made.backward) == (entry.backward is not None), name
        assert (made.sheet, made.claims) == (entry.sheet, entry.in_tracelens or entry.is_part), name


def test_a_backward_pass_has_a_sheet_of_its_own() -> None:
    assert {entry.sheet[-4:] for entry in MODELLED.values() if entry.backward} == {"_fwd"}


def test_every_family_is_used() -> None:
    """Or it has no ops: what families share, and kernels whose names tell what they compute."""
    there = {module.name for module in iter_modules(families.__path__)}
    assert there - {spec.family for spec in SPECS} == {"shared", "triton"}


def test_rows_of_equal_ops() -> None:
    spec = model("gemm.Product", weight=True, out=4)
    assert spec == ModelSpec("gemm", "Product", (("out", 4), ("weight", True)))
    rows = ops("a", "b", model=spec, sheet="GEMM")
    assert rows == [("a", OpEntry(model=spec, sheet="GEMM")), ("b", OpEntry(model=spec, sheet="GEMM"))]
    assert rows[0][1] is rows[1][1]
    assert pickle.loads(pickle.dumps(rows)) == rows
    with pytest.raises(AttributeError):
        spec.family = "attention"  # type: ignore[misc]
