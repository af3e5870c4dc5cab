"""The rules that find opportunities, as a table: what each says, its thresholds and their source, and what finds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.account import Account, account_of
from tracelens_graph.analyses.diagnosis.causes import losses_of
from tracelens_graph.analyses.diagnosis.finding import brief
from tracelens_graph.analyses.opportunities.efficiency import (
    below_roof,
    mixed_precision,
    no_roof,
    older_kernels,
    tensor_cores,
)
from tracelens_graph.analyses.opportunities.opportunity import Find, Opportunity
from tracelens_graph.graph.window import Window

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture


Part = Literal["computation", "communication", "copies", "host"]


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        says: what it is about, in one sentence.
        part: which part of the time it would shorten, one of `account.PARTS`.
        find: what finds its opportunities.
        source: where its thresholds and its reasoning come from.
        thresholds: the numbers by which it decides.
    """

    says: str
    part: Part
    find: Find
    source: str
    thresholds: Mapping[str, float] = field(default_factory=dict)


_TUNING_GUIDE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
_OVERLAP = "https://docs.pytorch.org/docs/stable/notes/ddp.html"
_ATTENTION = "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html"
_LAYOUTS = "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html"
_COLLECTIVES = "https://docs.pytorch.org/docs/stable/distributed.html"
_GRAPHS = "https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/"
_TF32 = "https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices"
_LOSS = {"WORTH_REPORTING_PERCENT": limits.WORTH_REPORTING_PERCENT}
"""What the rules decide by that have their losses from the verdict."""


_PATTERN = {"MUCH_PERCENT": limits.MUCH_PERCENT}
"""What all rules over several ops decide by."""


def _later(module: str, name: str) -> Find:
    """What finds the opportunities of a rule over several ops; its module is imported when it is asked."""

    def find(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
        found: Find = getattr(import_module(f"{__package__}.{module}"), name)
        return found(w, arch)

    return find


_BESIDE_COMPUTATION = ("exposed_communication", "host_to_device_copy", "other_copies")
"""Topics of what could run beside computation, so no longer than that takes."""


def _loss(topic: str, says: str, part: Part, assumption: str, source: str) -> Rule:
    """The rule of a loss of the verdict: idle time, exposed copies or communication, as long as what could hide it."""

    def find(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
        for one in losses_of(w):
            if one.topic == topic:
                evidence, ns = one.evidence, round(float(one.evidence["ms"]) * 1e6)
                calls = evidence.get("gaps") or evidence.get("copies") or evidence.get("gpu_events") or 1
                won = min(ns, _free_computation(account_of(w), topic)) if topic in _BESIDE_COMPUTATION else ns
                name = str(evidence.get("because") or evidence.get("name") or "")
                yield Opportunity(
                    one.id, f"{says}, such as in {brief(name)}" if name else says, ns, won, assumption, one.advice,
                    int(evidence["uid"]), calls=int(calls),
                )  # fmt: skip

    return Rule(says, part, find, source, _LOSS)


def _free_computation(account: Account, topic: str) -> int:
    """Time of computation with no communication, or no copy, beside it, in which exposed one could be hidden."""
    times = account.times
    what = "comm" if topic == "exposed_communication" else "memcpy"
    return max(times["computation_time"] - times[f"total_{what}_time"] + times[f"exposed_{what}_time"], 0)


RULES: Mapping[str, Rule] = {
    "data-loader": _loss(
        "data_loader", "the GPU waits for the next batch", "host", "batches are ready before they are needed",
        _TUNING_GUIDE,
    ),
    "synchronization": _loss(
        "synchronization", "the GPU waits because the host had stopped to wait for it", "host",
        "the host never waits for the GPU", _TUNING_GUIDE,
    ),
    "python": _loss(
        "python", "the GPU waits for Python code", "host", "Python is done before the GPU is", _TUNING_GUIDE
    ),
    "launches": _loss(
        "launches", "the GPU waits for ops and launch calls", "host", "work is always launched ahead", _GRAPHS
    ),
    "allocation": _loss(
        "allocation", "the GPU waits while the driver allocates or releases memory", "host",
        "memory is allocated once", "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
    ),
    "compilation": _loss(
        "compilation", "the GPU waits while a program is traced or compiled", "host", "all is compiled before",
        "https://docs.jax.dev/en/latest/jit-compilation.html",
    ),
    "host-to-device-copy": _loss(
        "host_to_device_copy", "copies to the device that nothing overlaps", "copies",
        "copies run beside computation", _TUNING_GUIDE,
    ),
    "other-copies": _loss(
        "other_copies", "other copies that nothing overlaps", "copies", "copies run beside computation",
        _TUNING_GUIDE,
    ),
    "exposed-communication": _loss(
        "exposed_communication", "communication that no computation overlaps", "communication",
        "all communication runs beside computation", _OVERLAP,
    ),
    "below-roof": Rule(
        "an operation takes longer than at its roof", "computation", below_roof,
        "https://doi.org/10.1145/1498765.1498785",
        {"MUCH_PERCENT": limits.MUCH_PERCENT, "NEAR_ROOF_PERCENT": limits.NEAR_ROOF_PERCENT},
    ),
    "no-roof": Rule(
        "an operation takes much of the time, and how far below its roof it is cannot be known", "computation", no_roof,
        "https://doi.org/10.1145/1498765.1498785", {"WORTH_REPORTING_PERCENT": limits.WORTH_REPORTING_PERCENT},
    ),
    "tensor-cores": Rule(
        "products in float32 run on vector units, though tensor cores take them as TF32", "computation", tensor_cores,
        _TF32, {"MUCH_PERCENT": limits.MUCH_PERCENT},
    ),
    "mixed-precision": Rule(
        "products run in float32 or TF32, though the device is faster in bfloat16", "computation", mixed_precision,
        "https://docs.pytorch.org/docs/stable/amp.html", {"MUCH_PERCENT": limits.MUCH_PERCENT},
    ),
    "older-kernels": Rule(
        "kernels were written for an older architecture than the device", "computation", older_kernels,
        "https://docs.nvidia.com/cuda/hopper-tuning-guide/",
        {"MUCH_PERCENT": limits.MUCH_PERCENT, "NEAR_ROOF_PERCENT": limits.NEAR_ROOF_PERCENT},
    ),
    "fusible-chain": Rule(
        "elementwise, normalising and reducing ops in a row that read what one another wrote", "computation",
        _later("chains", "fusible_chains"), _TUNING_GUIDE, {"CHAIN_OPS": limits.CHAIN_OPS, **_PATTERN},
    ),
    "eager-attention": Rule(
        "attention as two products and a softmax, which moves scores", "computation",
        _later("attention", "eager_attention"), _ATTENTION, _PATTERN,
    ),
    "copies-around": Rule(
        "copies between layouts or types around a product, convolution or attention", "computation",
        _later("copies_around", "copies_around"), _LAYOUTS, _PATTERN,
    ),
    "overlappable-collective": Rule(
        "a collective behind which work waits that does not read its result", "communication",
        _later("overlap", "overlappable"), _COLLECTIVES, _PATTERN,
    ),
}  # fmt: skip
"""Every rule by name."""
