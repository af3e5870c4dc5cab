"""Every model by the name of its operation. A registry is a mapping that is passed along, never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module

from tracelens_graph.perf.model import OpModel

_COMMON = (
    "gemm", "convolution", "attention", "normalization", "elementwise", "reduction", "losses", "embedding", "optimizer",
    "sampling",
)  # fmt: skip
"""Families of PyTorch's own operations, which every trace has."""

_SERVING = (
    "inference_attention", "grouped_gemm", "moe", "routing", "rope", "ssm", "quantisation",
    "collective_ops",
)  # fmt: skip
"""Families of other libraries' operations, and few of PyTorch's."""

_PLAIN = re.compile(r"aten::\w+|autograd::.+|torch::autograd::\w+|\w+Backward\d+|record_param_comms")
"""Names that need no family but the common ones, unless `_RARE` names them: it takes time to import the others."""

_RARE = ("aten::_grouped_mm", "aten::_scaled_grouped_mm")

_NUMBERED = re.compile(r"(sglang_profiler::.+)_\d+")
"""SGLang numbers the instances of its ranges."""


_EXTRA = "EXTRA_OPS"


class Models(Mapping[str, OpModel]):
    """Models of some attributes of the families; a family is imported when a name may be in it.

    Args:
        attributes: `OPS`, models of the operations that TraceLens models, and `EXTRA_OPS`, all others. The latter
            claim no events, so that whatever has an op of its own there has the same one here.
    """

    def __init__(self, *attributes: str) -> None:
        self._attributes = attributes
        self._parts: dict[tuple[str, ...], dict[str, OpModel]] = {}

    def __getitem__(self, name: str) -> OpModel:
        common = self._part(_COMMON)
        if name in common or (_PLAIN.fullmatch(name) and name not in _RARE):
            return common[name]
        return self._part(_SERVING)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._part(_COMMON) | self._part(_SERVING))

    def __len__(self) -> int:
        return len(self._part(_COMMON)) + len(self._part(_SERVING))

    def _part(self, families: tuple[str, ...]) -> dict[str, OpModel]:
        if families not in self._parts:
            modules = [import_module(f"tracelens_graph.perf.families.{family}") for family in families]
            self._parts[families] = {
                name: replace(model, claims=False) if attribute == _EXTRA else model
                for attribute in self._attributes
                for module in modules
                for name, model in getattr(module, attribute, {}).items()
            }
        return self._parts[families]


TRACELENS_MODELS: Mapping[str, OpModel] = Models("OPS")
"""Models of the operations that TraceLens has models of."""

MODELS: Mapping[str, OpModel] = Models("OPS", _EXTRA)
"""All models."""


@cache
def sheets() -> tuple[str, ...]:
    """Names of all tables by family."""
    found = {model.sheet for model in MODELS.values()}
    found |= {
        model.sheet.removesuffix("_fwd") + "_bwd"
        for model in MODELS.values()
        if model.backward and model.sheet.endswith("_fwd")
    }
    return tuple(sorted(found))


def model_named(name: str, models: Mapping[str, OpModel] = MODELS) -> OpModel | None:
    """The model of an operation: by its name, by that without a number of the instance, or as a compiled kernel."""
    found = models.get(name)
    if found is None and (numbered := _NUMBERED.fullmatch(name)):
        found = models.get(numbered[1])
    if found is None and name.startswith("triton_"):
        from tracelens_graph.perf.families.triton import triton_model

        found = triton_model(name)
    return found
