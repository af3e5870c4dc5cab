"""The rules that find opportunities, as a table: what each says, its thresholds and their source, and what finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.opportunities.losses import loss
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.graph.window import Window

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

Find = Callable[[Window, "Architecture | None"], Iterator[Opportunity]]
"""What finds the opportunities of a rule in a window; the device is None where it is not known."""


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
    part: Literal["computation", "communication", "copies", "host"]
    find: Find
    source: str
    thresholds: Mapping[str, float] = field(default_factory=dict)


_TUNING_GUIDE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
_OVERLAP = "https://docs.pytorch.org/docs/stable/notes/ddp.html"
_LOSS = {"WORTH_REPORTING_PERCENT": limits.WORTH_REPORTING_PERCENT}
"""What the rules decide by that have their losses from the verdict."""

RULES: Mapping[str, Rule] = {
    "data-loader": Rule(
        "the GPU waits for the next batch", "host",
        loss("data_loader", "batches are ready before they are needed"), _TUNING_GUIDE, _LOSS,
    ),
    "synchronization": Rule(
        "the GPU waits because the host had waited for it", "host",
        loss("synchronization", "the host never waits for the GPU"), _TUNING_GUIDE, _LOSS,
    ),
    "python": Rule(
        "the GPU waits for Python between ops", "host",
        loss("python", "Python is done before the GPU is"), _TUNING_GUIDE, _LOSS,
    ),
    "launches": Rule(
        "the GPU waits for ops and launch calls", "host",
        loss("launches", "work is always launched ahead"), "https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/",
        _LOSS,
    ),
    "allocation": Rule(
        "the GPU waits while the driver allocates or releases memory", "host",
        loss("allocation", "memory is allocated once"), "https://docs.pytorch.org/docs/stable/notes/cuda.html", _LOSS,
    ),
    "compilation": Rule(
        "the GPU waits while a program is traced or compiled", "host",
        loss("compilation", "all is compiled before"), "https://docs.jax.dev/en/latest/jit-compilation.html", _LOSS,
    ),
    "host-to-device-copy": Rule(
        "copies to the device with nothing beside them", "copies",
        loss("host_to_device_copy", "copies run beside computation"), _TUNING_GUIDE, _LOSS,
    ),
    "other-copies": Rule(
        "other copies with nothing beside them", "copies",
        loss("other_copies", "copies run beside computation"), _TUNING_GUIDE, _LOSS,
    ),
    "exposed-communication": Rule(
        "communication with no computation beside it", "communication",
        loss("exposed_communication", "all communication runs beside computation"), _OVERLAP, _LOSS,
    ),
}  # fmt: skip
"""Every rule by name."""
