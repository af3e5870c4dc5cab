"""The registry finds every model, imports what it needs, and nothing twice."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

import pytest

from tracelens_graph import perf
from tracelens_graph.perf import families
from tracelens_graph.perf.registry import MODELS, TRACELENS_MODELS, Models, model_named, sheets

TABLES = {
    (module.name, attribute): getattr(import_module(f"tracelens_graph.perf.families.{module.name}"), attribute, {})
    for module in iter_modules(families.__path__)
    for attribute in ("OPS", "EXTRA_OPS")
}
NAMES = [name for table in TABLES.values() for name in table]


def test_no_operation_has_two_models() -> None:
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("attribute", ["OPS", "EXTRA_OPS"])
def test_every_model_of_every_family_is_found(attribute: str) -> None:
    models = Models(attribute)
    for (_, other), table in TABLES.items():
        for name, model in table.items():
            expected = replace(model, claims=attribute == "OPS") if other == attribute else None
            assert models.get(name) == expected, name
    assert len(models) == len(set(models))


def test_all_models_and_those_of_tracelens() -> None:
    assert set(MODELS) == set(NAMES)
    assert set(TRACELENS_MODELS) == {
        name for (_, attribute), table in TABLES.items() if attribute == "OPS" for name in table
    }
    assert {"GEMM", "CONV_bwd", "Reduce_bwd", "InferenceAttention_fwd"} <= set(sheets())


def test_names_that_stand_for_others() -> None:
    numbered = "sglang_profiler::attention_paged_attention_ragged"
    assert model_named(f"{numbered}_100") is model_named(numbered) is not None
    assert model_named("triton_poi_fused_add_mul_0") is not None
    assert model_named("triton_poi_fused_0") is None
    assert model_named("aten::no_such_op") is None


def test_a_trace_of_plain_ops_imports_no_families_of_others() -> None:
    code = (
        "import sys; from tracelens_graph.perf.registry import model_named;"
        "names = ['aten::mm', 'aten::empty', 'AddmmBackward0', 'autograd::engine::evaluate_function: AddmmBackward0',"
        "'record_param_comms', 'torch::autograd::AccumulateGrad'];"
        "print([model_named(name) is not None for name in names]); print(*sys.modules)"
    )
    found, modules = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert found == "[True, False, False, False, False, False]"
    assert "tracelens_graph.perf.families.gemm" in modules.split()
    assert "tracelens_graph.perf.families.moe" not in modules.split()


@pytest.mark.parametrize("name", perf.FORMULAS)
def test_formulas_are_functions_of_the_package(name: str) -> None:
    assert callable(getattr(perf, name))
    assert name in dir(perf)


def test_a_formula_without_a_trace() -> None:
    cost = perf.gemm(2, 3, 4, dtype="bf16")
    assert (cost.flops, cost.bytes) == (48, 2 * (8 + 12 + 6))
    with pytest.raises(AttributeError, match="no attribute 'gemms'"):
        _ = perf.gemms
