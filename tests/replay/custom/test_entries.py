"""Replayers that come along: each is sound by itself, and fits every argument set of the corpus."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path

import pytest

from corpus import CORPUS, kineto_traces, loaded, needs_corpus, parametrize, trace_id
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.captures import with_captures
from tracelens_graph.replay.calls import recorded_at
from tracelens_graph.replay.custom.entry import Shipped
from tracelens_graph.replay.custom.lookup import SHIPPED, replayers_of, shipped
from tracelens_graph.replay.custom.program import preamble
from tracelens_graph.replay.planned import Plans
from tracelens_graph.replay.replay_plan import RULES, ReplayPlan, TensorValue
from tracelens_graph.replay.schemas import parse
from tracelens_graph.replay.signatures import charge_all, signatures

ENTRIES = [pytest.param(one, id=op) for op, one in SHIPPED.items()]


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_is_sound(entry: Shipped) -> None:
    """All its schemas are of its operation and differ in length, and what it says of arguments is of such."""
    every = [parse(text) for text in entry.schemas]
    assert {one.op for one in every} == {entry.op}
    assert len({len(one.parameters) for one in every}) == len(every)
    names = every[0].names
    assert {*entry.fills, *entry.texts, *entry.absent, *entry.assumes} <= set(names)
    assert {other for other, _ in entry.texts.values()} <= set(names)
    for options in entry.fills.values():
        assert options.keys() - {"fill"} <= RULES[options["fill"]]
    assert all("" in kinds for _, kinds in entry.texts.values())
    # What it reads besides writing it gets its contents back; an operation that writes nothing changes nothing.
    assert not entry.is_changed or every[0].written


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_has_a_reference_that_takes_its_arguments(entry: Shipped) -> None:
    for schema in entry.schemas:
        text = preamble({entry.op: (schema, entry.imports)})
        compile(text, entry.op, "exec")
        found: dict[str, object] = {"Tensor": object, "torch": None, "Any": object}
        functions = text.partition("LIBRARIES")[0].partition("from torch import Tensor")[2]
        exec("from __future__ import annotations\n" + functions, found)
        takes = inspect.signature(found[entry.reference])  # type: ignore[arg-type]
        parameters = parse(schema).parameters
        takes.bind(
            *[None for one in parameters if not one.is_keyword], **{p.name: 0 for p in parameters if p.is_keyword}
        )


def test_a_schema_or_a_module_of_somebody_else_is_not_taken_for_one_that_comes_along() -> None:
    entry = SHIPPED["_C::rms_norm"]
    assert preamble({entry.op: (entry.schema, entry.imports)})
    assert not preamble({entry.op: (entry.schema + '"); import os', entry.imports)})
    assert not preamble({entry.op: (entry.schema, ("os",))})
    assert not preamble({"acme::rms_norm": (entry.schema, entry.imports)})


def test_names_with_a_line_of_the_source() -> None:
    found = shipped("sglang_profiler::attention_paged_attention_ragged_100")
    assert found is not None
    assert found.op == "sglang_profiler::attention_paged_attention_ragged_100"
    assert shipped("sglang_profiler::attention_paged_attention_ragged_1\"'") is None


@cache
def captured() -> dict[str, Path]:
    """Traces of the corpus that replay graphs, with their captures."""
    folder = CORPUS / "tracelens" / "inference" if CORPUS else Path()
    return {trace_id(path.parent / "graph-replay.json.gz"): path for path in folder.glob("*/capture")}


SERVING = [path for path in kineto_traces() if "inference" in path.parts or "serving" in path.name]
MOE = sorted(CORPUS.glob("external/tracelens-evals/moe*/trace.json.gz")) if CORPUS else []


@parametrize("path", [path for path in [*SERVING, *MOE] if "capture" not in path.parts])
def test_all_argument_sets_of_serving_traces_have_plans(path: Path) -> None:
    """Each has the tensors that were recorded, texts that nothing records, and contents in bounds."""
    core = loaded(path)
    if trace_id(path) in captured():
        core = with_captures(core, [str(captured()[trace_id(path)])], lambda line: None)
    w = window_of(core)
    known = replayers_of(w)
    plans = Plans(signatures(charge_all(w)))
    for place, name in enumerate(plans.signatures.names):
        if name not in known or not isinstance(known[name], Shipped):
            continue
        made = plans[place].plan
        assert isinstance(made, ReplayPlan), (name, plans[place].why)
        recorded = recorded_at(core, int(plans.signatures.rows[place]))
        shapes = [one.value.shape for one in made.arguments if isinstance(one.value, TensorValue)]
        were = [dims for dims, kind in zip(recorded.dims, recorded.types, strict=True) if kind not in ("", "Scalar")]
        assert shapes[: len(were)] == were
        assert made.imports == tuple(known[name].imports)
        assert any("not run on its library" in note for note in made.notes)
        compile(made.script(), name, "exec")
        compile(made.script(full=True), name, "exec")


@needs_corpus
def test_the_corpus_has_argument_sets_of_these() -> None:
    seen: set[str] = set()
    for path in [*SERVING, *MOE]:
        core = loaded(path)
        if trace_id(path) in captured():
            core = with_captures(core, [str(captured()[trace_id(path)])], lambda line: None)
        seen |= {found.op for name in core.names if (found := shipped(name))}
    assert {
        "_C::rms_norm", "_C::fused_add_rms_norm", "_C::rotary_embedding", "_C::static_scaled_fp8_quant",
        "_C_cache_ops::reshape_and_cache_flash", "aiter::rmsnorm", "aiter::add_rmsnorm", "aiter::rms_norm",
        "aiter::rmsnorm2d_fwd_with_add_ck", "sgl_kernel::silu_and_mul", "sgl_kernel::rotary_embedding",
        "sglang::store_cache", "sglang_profiler::attention_paged_attention_ragged_100", "vllm::rocm_aiter_fused_moe",
    } <= seen  # fmt: skip
