"""What a serving engine computed together, read from the annotation that it wrote around the step.

A request that reads its prompt is a context request, one that writes its answer a generation request. With q new
tokens and k keys of each request (those of its past and the new ones), an annotation gives for either kind the sums
over requests of q, k, q² and q k; no more is needed for the cost of attention.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracelens_graph.perf.cost import CannotModel


@dataclass(frozen=True)
class Requests:
    """Sums over requests of one kind.

    Attributes:
        count: number of requests; 0 if not told.
        sq, sk: new tokens; keys.
        sqsq, sqsk: sums of q² and of q k.
    """

    count: int = 0
    sq: int = 0
    sk: int = 0
    sqsq: int = 0
    sqsk: int = 0

    def __post_init__(self) -> None:
        if not (self.sq <= self.sk and self.sq <= self.sqsq <= self.sqsk):
            raise CannotModel("the sums of the annotation contradict one another")


@dataclass(frozen=True)
class Batch:
    """Requests computed together."""

    context: Requests = Requests()
    generation: Requests = Requests()


_NUMBER = r"(\d{1,18})"
_SUMS = rf"{_NUMBER}\(sq{_NUMBER}sk{_NUMBER}sqsq{_NUMBER}sqsk{_NUMBER}\)"
_VLLM = re.compile(rf"execute_\d{{1,18}}_context_{_SUMS}_generation_{_SUMS}")
_SGLANG = re.compile(r"step\[(EXTEND|DECODE|MIXED)\b([^\]]{0,1000})\]")
_ATOM = re.compile(r"(prefill|decode)\[bs=(.{0,1000})\]")
_LONGEST = 10_000
_FIELD = re.compile(r"\b(\w{1,8})=(\d{1,18})\b")


def read_batch(annotation: str) -> Batch:
    """The batch that an annotation of vLLM, SGLang or ATOM describes in full.

    The forms are `execute_N_context_C(sq…sk…sqsq…sqsk…)_generation_G(sq…sk…sqsq…sqsk…)`,
    `step[EXTEND|DECODE|MIXED bs=… c_sq=… c_sk=… … g_sqsk=…]` and `prefill|decode[bs=… tok=… … sqsq=… sqsk=… sk=…]`. An
    engine's short form (`step[DECODE bs=32]`) does not tell how many keys there are.

    Raises:
        CannotModel: it is none of these, or its numbers contradict one another.
    """
    annotation = annotation[:_LONGEST]
    if found := _VLLM.search(annotation):
        numbers = [int(one) for one in found.groups()]
        return Batch(Requests(*numbers[:5]), Requests(*numbers[5:]))
    if found := _SGLANG.search(annotation):
        fields = {name: int(value) for name, value in _FIELD.findall(found[2])}
        if any(name.endswith("sqsk") for name in fields):
            counts = {"EXTEND": ("bs", ""), "DECODE": ("", "bs"), "MIXED": ("c", "g")}[found[1]]
            kinds = (
                Requests(
                    fields.get(count, 0), *(fields.get(f"{kind}_{sum_}", 0) for sum_ in ("sq", "sk", "sqsq", "sqsk"))
                )
                for kind, count in zip("cg", counts, strict=True)
            )
            return Batch(*kinds)
    if found := _ATOM.search(annotation):
        fields = {name: int(value) for name, value in _FIELD.findall("bs=" + found[2].replace("/", " "))}
        if "sqsk" in fields:
            names = ("bs", "tok", "sk", "sqsq", "sqsk")
            requests = Requests(*(fields.get(name, 0) for name in names))
            return Batch(requests) if found[1] == "prefill" else Batch(generation=requests)
    raise CannotModel("no annotation around the call tells the lengths of its requests")
