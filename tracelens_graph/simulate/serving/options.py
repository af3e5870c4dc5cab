"""What server to simulate: every setting, and the culprits of host gaps that can be planted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracelens_graph.simulate.options import Numbers, check

Engine = Literal["vllm", "sglang"]
Platform = Literal["nvidia", "rocm"]
Annotations = Literal["detailed", "native", "none"]
Capture = Literal["full", "piecewise", "none"]
Culprit = Literal["none", "scheduler", "sampling", "detokenise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of a simulated server. Raises ValueError for a value that makes no sense."""

    ranks: int = 1
    """Servers side by side, each with its own requests, trace and captures."""
    steps: int = 40
    layers: int = 4
    seed: int = 0

    engine: Engine = "vllm"
    """vLLM puts prompts of new requests into the steps of the running ones; SGLang gives them a step of their own."""
    platform: Platform = "nvidia"
    """On ROCm a captured call carries the name, grid and block of its kernel; on NVIDIA nothing."""
    annotations: Annotations = "detailed"
    """Whether annotations of steps hold the lengths of the requests, or there are none."""
    capture: Capture = "full"
    """One graph per size; one per piece between attention, which is launched each time; or none: all is eager."""
    sizes: Numbers = (1, 2, 4, 8, 16, 24, 32)
    """Batch sizes that graphs are captured for; the largest is the greatest number of running requests."""
    details: bool = True
    """Write `execution_details.json` beside the captures."""
    streams: int = 1
    """Streams of the model: a second one for the norm of keys, a third one for writing the cache."""
    node_ids: bool = False
    """Replayed kernels carry the ids of their graph and node."""
    python_stacks: bool = True

    width: int = 2048
    heads: int = 16
    vocabulary: int = 32768
    experts: int = 0
    """Experts of each layer, two for each token; 0 for a plain perceptron."""

    requests: int = 12
    """Running requests at the start."""
    arrivals: float = 0.15
    """New requests per step in the mean."""
    prompt: int = 512
    """Mean length of prompts; the shortest has half, the longest one and a half times as much."""
    output: int = 100
    """Mean number of tokens to generate, spread in the same way."""

    lost: float = 0.0
    """Share of the replayed kernels that the trace lacks."""
    culprit: Culprit = "none"
    """What loses `culprit_us` on the host in every third step."""
    culprit_us: float = 4000.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(sorted(set(self.sizes))))
        check(self, ("ranks", "steps", "layers", "streams", "width", "heads", "vocabulary", "prompt", "output"))
        if not self.sizes or self.sizes[0] < 1:
            raise ValueError("sizes must be at least 1")
        if not 0 <= self.requests <= self.sizes[-1]:
            raise ValueError(f"requests {self.requests} must be from 0 to the largest of sizes, {self.sizes[-1]}")
        if self.streams > 3:
            raise ValueError(f"streams must be at most 3, not {self.streams}")
        if not 0 <= self.lost < 1:
            raise ValueError("lost is a share: at least 0, below 1")
        if self.arrivals < 0 or self.culprit_us < 0 or self.experts < 0:
            raise ValueError("arrivals, culprit_us and experts must not be negative")
