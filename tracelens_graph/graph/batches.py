"""What a serving engine writes around each of its steps: the batch of requests that the step computes.

A request that reads its prompt is a context request, one that writes its answer a generation request. Engines write
sizes of a batch into the name of a `record_function` range. The forms are a table, `GRAMMARS`; whoever adds an engine
adds a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

Phase = Literal["prefill", "mixed", "decode", "denoise", "empty", "unknown"]

PHASES: tuple[Phase, ...] = ("prefill", "mixed", "decode", "denoise", "empty", "unknown")
"""What a step computes: prompts, prompts and answers, answers, images, nothing, or what the trace does not show."""


@dataclass(frozen=True)
class Requests:
    """Sums over requests of one kind, of q new tokens and k keys each (those of its past and the new ones).

    Attributes:
        count: number of requests; 0 if not known.
        sq, sk: new tokens; keys.
        sqsq, sqsk: sums of q² and of q k.
    """

    count: int = 0
    sq: int = 0
    sk: int = 0
    sqsq: int = 0
    sqsk: int = 0

    @property
    def contradicts_itself(self) -> bool:
        """Whether no requests have such sums."""
        return not (self.sq <= self.sk and self.sq <= self.sqsq <= self.sqsk)


@dataclass(frozen=True)
class Batch:
    """Requests computed together.

    Attributes:
        context, generation: sums over the requests of either kind.
        phase: what the step computes.
        size: number of requests, of whatever kind; 0 if not known.
        captured: requests that the replayed graph was captured for, those beyond `size` are padding; 0 if the
            annotation does not say.
        has_keys: whether the sums over keys are known.
        engine: whose annotation it is; empty if several engines write such.
    """

    context: Requests = Requests()
    generation: Requests = Requests()
    phase: Phase = "unknown"
    size: int = 0
    captured: int = 0
    has_keys: bool = False
    engine: str = ""

    @property
    def graph_size(self) -> int:
        """What sizes of captured graphs count: requests in SGLang and ATOM, else tokens; 0 if not known."""
        tokens = 0 if self.engine in ("SGLang", "ATOM") else self.context.sq + self.generation.sq
        return tokens or self.size


@dataclass(frozen=True)
class _Reading:
    """Where the fields of a batch stand: for each field the keys of an annotation that may hold it, best first."""

    fields: Mapping[str, str]
    phase: Phase | None = None


@dataclass(frozen=True)
class Grammar:
    """One form of annotation.

    Attributes:
        engine: who writes it; empty for a form that TraceLens's patches write in several engines.
        pattern: its text. Groups are fields, but `word`, which picks the reading, and `fields`: fields as `key=value`.
        readings: word -> reading; "" where the form has no word, or for any other word.
    """

    engine: str
    pattern: re.Pattern[str]
    readings: Mapping[str, _Reading]


_N = r"\d{1,12}"
_FIELD = re.compile(r"\b(\w{1,8})=(\d{1,18})(?:/(\d{1,12}))?\b")
_LONGEST = 10_000

_SUMS = ("sq", "sk", "sqsq", "sqsk")


def _sums(kind: str) -> str:
    parts = "".join(rf"{name}(?P<{kind}_{name}>\d{{1,18}})" for name in _SUMS)
    return rf"(?P<{kind}>{_N})\({parts}\)"


_SAME = {name: name for kind in "cg" for name in (kind, *(f"{kind}_{sum_}" for sum_ in _SUMS))}
_AS_NAMED = {"": _Reading(_SAME)}
# Some versions leave out sums that others give: of new tokens, where `toks` or one token of each request say them.
_EXTEND = _Reading({**_SAME, "c": "bs", "c_sq": "c_sq toks", "g": ""}, "prefill")
_DECODE = _Reading({**_SAME, "c": "", "g": "bs", "g_sq": "g_sq toks bs"}, "decode")
_MIXED = _Reading(_SAME, "mixed")


def _of_one_kind(kind: str, phase: Phase) -> _Reading:
    """Sums without the name of a kind."""
    sums = {"sq": "tok", "sk": "sk", "sqsq": "sqsq", "sqsk": "sqsk"}
    return _Reading({kind: "bs", **{f"{kind}_{name}": key for name, key in sums.items()}}, phase)


GRAMMARS = (
    Grammar("", re.compile(rf"execute_\d{{1,18}}_context_{_sums('c')}_generation_{_sums('g')}"), _AS_NAMED),
    Grammar(
        "vLLM",
        # A sum of squares may follow the tokens.
        re.compile(
            rf"execute_context_(?P<c>{_N})\((?P<c_sq>{_N})(?:_\d+)?\)_generation_(?P<g>{_N})\((?P<g_sq>{_N})(?:_\d+)?\)"
        ),
        _AS_NAMED,
    ),
    Grammar("xDiT", re.compile(rf"execute_diffusion_(?P<bs>{_N})_{_N}x{_N}"), {"": _Reading({}, "denoise")}),
    Grammar(
        "SGLang",
        re.compile(r"step\[(?P<word>[A-Z_]{2,40})\b(?P<fields>[^\]]{0,1000})\]"),
        {
            "EXTEND": _EXTEND, "SPLIT_PREFILL": _EXTEND, "DLLM_EXTEND": _EXTEND, "DECODE": _DECODE, "MIXED": _MIXED,
            "VERIFY": _DECODE, "TARGET_VERIFY": _DECODE, "DRAFT_EXTEND": _DECODE, "IDLE": _Reading({}, "empty"),
            "": _Reading({}),
        },
    ),
    Grammar(
        "ATOM",
        re.compile(r"\b(?P<word>prefill|(?:eager_)?decode)\[(?P<fields>bs=.{0,1000})\]"),
        {
            "prefill": _of_one_kind("c", "prefill"),
            "decode": _of_one_kind("g", "decode"),
            "eager_decode": _of_one_kind("g", "decode"),
        },
    ),
)  # fmt: skip
"""The forms, those that say most first."""

_PHASE_WORDS: Mapping[str, Phase] = {
    "prefill": "prefill", "extend": "prefill", "context": "prefill", "decode": "decode", "generation": "decode",
    "mixed": "mixed", "denoise": "denoise", "denoising": "denoise",
}  # fmt: skip
_WORD = re.compile(rf"(?<![a-z])({'|'.join(_PHASE_WORDS)})(?![a-z])", re.IGNORECASE)


@lru_cache(4096)
def batch_of(annotation: str) -> Batch | None:
    """The batch that the name of an annotation describes; None if it is of no known form.

    Texts of several lines are read line by line, and the line counts that says most.
    """
    found = [batch for line in annotation[:_LONGEST].split("\n") for batch in _batches(line)]
    return max(found, key=lambda batch: batch.has_keys, default=None)


def _batches(line: str) -> list[Batch]:
    found = ((grammar, grammar.pattern.search(line)) for grammar in GRAMMARS)
    return [_batch(grammar, match) for grammar, match in found if match]


def _batch(grammar: Grammar, match: re.Match[str]) -> Batch:
    groups = match.groupdict()
    word, fields = groups.pop("word", ""), groups.pop("fields", "")
    values = {name: int(value) for name, value in groups.items()}
    for key, value, captured in _FIELD.findall(fields):
        values[key] = int(value)
        if captured and key == "bs":
            values["captured"] = int(captured)
    reading = grammar.readings.get(word) or grammar.readings[""]

    def first_of(keys: str) -> int:
        return next((values[key] for key in keys.split() if key in values), 0)

    context, generation = (
        Requests(*(first_of(reading.fields.get(name, "")) for name in (kind, *(f"{kind}_{sum_}" for sum_ in _SUMS))))
        for kind in "cg"
    )
    phase = reading.phase or _phase(context.count, generation.count, bool(reading.fields))
    size = context.count + generation.count or values.get("bs", 0)
    has_keys = any(name.endswith("sqsk") for name in values)
    captured = values.get("captured", 0)
    return Batch(context, generation, phase, size, captured if captured >= size else 0, has_keys, grammar.engine)


def _phase(context: int, generation: int, are_known: bool) -> Phase:
    if not are_known:
        return "unknown"
    return "mixed" if context and generation else "prefill" if context else "decode" if generation else "empty"


def phase_named(annotation: str) -> Phase:
    """The phase that a name speaks of in plain words, such as `decode step 3`; unknown if it speaks of several."""
    found = {_PHASE_WORDS[word.lower()] for word in _WORD.findall(annotation[:_LONGEST])}
    return found.pop() if len(found) == 1 else "unknown"


def richer(outer: Batch, inner: Batch) -> Batch:
    """What two annotations, one inside the other, say of one step."""
    if inner.phase not in (outer.phase, "unknown") and outer.phase != "unknown":
        return outer  # a part of a step, such as the draft of a decode step
    best = inner if (inner.has_keys and not outer.has_keys) or outer.phase == "unknown" else outer
    return replace(best, captured=outer.captured or inner.captured, engine=outer.engine or inner.engine)
