"""Every model by the name of its operation. A registry is a mapping that is passed along, never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from tracelens_graph.perf import (
    attention,
    collective_ops,
    convolution,
    elementwise,
    embedding,
    gemm,
    grouped_gemm,
    inference_attention,
    losses,
    moe,
    normalization,
    optimizer,
    quantisation,
    reduction,
    rope,
    routing,
    sampling,
    ssm,
    triton,
)
from tracelens_graph.perf.model import OpModel

_FAMILIES = (
    gemm, convolution, attention, inference_attention, normalization, elementwise, reduction, losses, embedding,
    optimizer, grouped_gemm, moe, routing, rope, ssm, quantisation, sampling, collective_ops, triton,
)  # fmt: skip


def _merged(attribute: str) -> Mapping[str, OpModel]:
    found: dict[str, OpModel] = {}
    for family in _FAMILIES:
        for name, model in getattr(family, attribute, {}).items():
            if name in found:
                raise ValueError(f"{name} has two models, one of them in {family.__name__}")
            found[name] = model
    return MappingProxyType(found)


TRACELENS_MODELS = _merged("OPS")
"""Models of the operations that TraceLens has models of."""

MODELS: Mapping[str, OpModel] = MappingProxyType({**_merged("EXTRA_OPS"), **TRACELENS_MODELS})
"""All models."""

SHEETS = tuple(
    sorted(
        {model.sheet for model in MODELS.values()}
        | {
            model.sheet.removesuffix("_fwd") + "_bwd"
            for model in MODELS.values()
            if model.backward and model.sheet.endswith("_fwd")
        }
    )
)
"""Names of all tables by family."""

_NUMBERED = re.compile(r"(sglang_profiler::.+)_\d+")
"""SGLang numbers the instances of its ranges."""


def model_named(name: str, models: Mapping[str, OpModel] = MODELS) -> OpModel | None:
    """The model of an operation: by its name, by that name without a number of its instance, or as a compiled kernel."""
    found = models.get(name)
    if found is None and (numbered := _NUMBERED.fullmatch(name)):
        found = models.get(numbered[1])
    return triton.triton_model(name) if found is None else found
