"""The registry makes a model when someone asks for it, once, and imports no other family for it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from corpus import CORPUS, needs_corpus
from tracelens_graph import perf
from tracelens_graph.compat.PerfModel.torch_op_mapping import TRACELENS_MODELS
from tracelens_graph.loading.one import load_core
from tracelens_graph.op_table import OP_TABLE
from tracelens_graph.op_table.pseudo import PARTS
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.model import CallContext
from tracelens_graph.perf.registry import MODELS, model_named

IMPORTED = """
import json, sys
from tracelens_graph.perf.registry import MODELS, model_named, sheets
{asked}
families = "tracelens_graph.perf.families."
print(json.dumps(sorted(name.removeprefix(families) for name in sys.modules if name.startswith(families))))
"""


def imported_by(asked: str) -> set[str]:
    """Families that a fresh interpreter imports for some look-ups."""
    code = IMPORTED.format(asked=asked)
    run = subprocess.run([sys.executable, "-"], input=code, check=True, capture_output=True, text=True)
    return set(json.loads(run.stdout))


def test_models_are_those_of_the_table() -> None:
    assert list(MODELS) == [name for name, entry in OP_TABLE.items() if entry.model]
    assert len(MODELS) == len(list(MODELS))
    assert "aten::mm" in MODELS
    assert "aten::miopen_convolution" not in MODELS  # a category alone
    assert MODELS.get("aten::no_such_op") is None
    with pytest.raises(KeyError):
        _ = MODELS["aten::no_such_op"]


def test_every_model_says_why_without_shapes() -> None:
    for name in MODELS:
        with pytest.raises(CannotModel):
            MODELS[name].estimate(Arguments("", ""), CallContext())


def test_models_of_tracelens_claim_events_and_others_do_not() -> None:
    assert {name for name in MODELS if MODELS[name].claims} == set(TRACELENS_MODELS) | PARTS
    assert 0 < len(TRACELENS_MODELS) < len(MODELS)
    assert all(model is MODELS[name] for name, model in TRACELENS_MODELS.items())


def test_equal_ops_share_a_model() -> None:
    assert MODELS["aten::mm"] is MODELS["aten::mm"] is MODELS["aten::bmm"]
    assert MODELS["aten::mm"] is not MODELS["aten::addmm"]


def test_names_that_stand_for_others() -> None:
    numbered = "sglang_profiler::attention_paged_attention_ragged"
    assert model_named(f"{numbered}_100") is model_named(numbered) is not None
    assert model_named("triton_poi_fused_add_mul_0") is not None
    assert model_named("triton_poi_fused_0") is None
    assert model_named("aten::no_such_op") is None


@pytest.mark.parametrize(
    ("asked", "families"),
    [
        ("assert len(MODELS) > 500 and 'aten::mm' in MODELS and 'GEMM' in sheets() and list(MODELS)", set()),
        ("assert model_named('aten::empty') is model_named('AddmmBackward0') is None", set()),
        ("assert model_named('aten::mm')", {"gemm", "shared"}),
        ("assert model_named('aten::_grouped_mm')", {"grouped_gemm", "shared"}),
        ("assert model_named('aten::sum')", {"reduction", "elementwise", "shared"}),
    ],
)
def test_looking_ops_up_imports_their_families_alone(asked: str, families: set[str]) -> None:
    assert imported_by(asked) == families


@needs_corpus
def test_a_trace_of_training_imports_no_families_of_serving() -> None:
    assert CORPUS is not None
    names = load_core(CORPUS / "tracelens/h100/bert-small.json.gz").names
    asked = f"assert sum(model_named(name) is not None for name in {list(names)!r}) > 10"
    families = imported_by(asked)
    assert {"gemm", "attention", "normalization"} <= families
    serving = {"collective_ops", "inference_attention", "moe", "quantisation", "rope", "ssm"}
    assert families.isdisjoint(serving)


def test_a_formula_without_a_trace() -> None:
    cost = perf.gemm(2, 3, 4, dtype="bf16")
    assert (cost.flops, cost.bytes) == (48, 2 * (8 + 12 + 6))
    with pytest.raises(AttributeError, match="no attribute 'gemms'"):
        _ = perf.gemms
