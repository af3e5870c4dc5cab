"""Annotations of serving engines, and the batches that they describe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.graph.batches import PHASES, Batch, Requests, batch_of, phase_named, richer

NONE = Requests()


def vllm(context: Requests, generation: Requests, phase: str) -> Batch:
    return Batch(context, generation, phase, context.count + generation.count, 0, True, "")  # type: ignore[arg-type]


def sglang(phase: str, size: int, context: Requests = NONE, generation: Requests = NONE, keys: bool = True) -> Batch:
    return Batch(context, generation, phase, size, 0, keys, "SGLang")  # type: ignore[arg-type]


KNOWN = [
    (
        "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
        vllm(Requests(), Requests(32, 32, 55086, 32, 55086), "decode"),
    ),
    (
        "execute_6147_context_2(sq6144sk7144sqsq20971520sqsk23019520)_generation_3(sq3sk6144sqsq3sqsk6144)",
        vllm(Requests(2, 6144, 7144, 20971520, 23019520), Requests(3, 3, 6144, 3, 6144), "mixed"),
    ),
    ("execute_context_2(14721)_generation_0(0)", Batch(Requests(2, 14721), Requests(), "prefill", 2, engine="vLLM")),
    ("execute_context_2(6144)_generation_3(9)", Batch(Requests(2, 6144), Requests(3, 9), "mixed", 5, engine="vLLM")),
    ("execute_context_1(888_788544)_generation_0(0)", Batch(Requests(1, 888), Requests(), "prefill", 1, engine="vLLM")),
    ("execute_context_0(0)_generation_0(0)", Batch(phase="empty", engine="vLLM")),
    ("execute_diffusion_4_1024x768", Batch(phase="denoise", size=4, engine="xDiT")),
    ("step[DECODE bs=64]", sglang("decode", 64, generation=Requests(64, 64), keys=False)),
    ("step[EXTEND bs=2 toks=14721]", sglang("prefill", 2, Requests(2, 14721), keys=False)),
    ("step[MIXED bs=2]", sglang("mixed", 2, keys=False)),
    ("step[VERIFY bs=4]", sglang("decode", 4, generation=Requests(4, 4), keys=False)),
    ("step[IDLE bs=0]", sglang("empty", 0, keys=False)),
    ("step[SOMETHING_NEW bs=3]", sglang("unknown", 3, keys=False)),
    (
        "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]",
        sglang("prefill", 2, Requests(2, 12, 20, 80, 120)),
    ),
    (
        "step[EXTEND bs=2 toks=14721 c_sq=14721 c_sqsq=108745533 c_sqsk=108745533 c_sk=14721]",
        sglang("prefill", 2, Requests(2, 14721, 14721, 108745533, 108745533)),
    ),
    ("step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]", sglang("decode", 2, generation=Requests(2, 2, 30, 2, 30))),
    (
        "step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]",
        sglang("decode", 64, generation=Requests(64, 128, 131072, 256, 262144)),
    ),
    (
        "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]",
        sglang("mixed", 2, Requests(1, 5, 8, 25, 40), Requests(1, 1, 12, 1, 12)),
    ),
    (
        "prefill[bs=2 tok=14721 ctx=[7803, 6918] sqsq=108745533 sqsk=108745533 sk=14721]",
        Batch(Requests(2, 14721, 14721, 108745533, 108745533), Requests(), "prefill", 2, 0, True, "ATOM"),
    ),
    (
        "prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096]...+3]",
        Batch(Requests(6, 17408), Requests(), "prefill", 6, engine="ATOM"),
    ),
    (
        "decode[bs=117/128 tok=117 d=117]",
        Batch(Requests(), Requests(117, 117), "decode", 117, 128, engine="ATOM"),
    ),
    (
        "decode[bs=31/32 tok=128 d=32 spec=3 sqsq=512 sqsk=262144 sk=65536]",
        Batch(Requests(), Requests(31, 128, 65536, 512, 262144), "decode", 31, 32, True, "ATOM"),
    ),
    ("eager_decode[bs=8 tok=8 ctx=1234]", Batch(Requests(), Requests(8, 8), "decode", 8, engine="ATOM")),
]


@pytest.mark.parametrize(("text", "expected"), KNOWN)
def test_known_forms(text: str, expected: Batch) -> None:
    assert batch_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ProfilerStep#3",
        "draft[1/3 bs=4]",
        "step",
        "execute",
        "capture_32_FULL",
        "x" * 10**6,
        f"step[DECODE {'bs=1 ' * 10**6}",
    ],
)
def test_other_texts(text: str) -> None:
    assert batch_of(text) is None


def test_absurd_numbers_are_not_taken() -> None:
    assert batch_of(f"execute_context_{'9' * 30}(1)_generation_0(0)") is None
    assert batch_of(f"step[DECODE bs={'9' * 30}]") == sglang("decode", 0, keys=False)
    assert batch_of("decode[bs=9/4 tok=9 d=9]").captured == 0  # type: ignore[union-attr]


@given(st.text() | st.from_regex(r"(step|prefill|decode)\[.*\]") | st.sampled_from(["step[EXTEND " * 10**4]))
def test_any_text_is_read_or_not(text: str) -> None:
    batch = batch_of(text)
    assert batch is None or (batch.phase in PHASES and batch.captured in {0, *range(batch.size, 2**63)})
    assert phase_named(text) in PHASES


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("decode step 3", "decode"),
        ("Model.Prefill", "prefill"),
        ("decoder", "unknown"),
        ("contextual", "unknown"),
        ("execute_-4_context_0(sq0)_generation_4(sq0.5)", "unknown"),
    ],
)
def test_phases_in_plain_words(name: str, phase: str) -> None:
    assert phase_named(name) == phase


def test_two_annotations_of_one_step() -> None:
    short, full, padded = (batch_of(text) for text in ("step[DECODE bs=2]", KNOWN[0][0], "decode[bs=2/8 tok=2]"))
    assert short is not None
    assert full is not None
    assert padded is not None
    assert richer(short, full).generation.sk == 55086
    assert richer(full, padded).captured == 8
    draft = batch_of("step[EXTEND bs=2 toks=4]")
    assert draft is not None
    assert richer(full, draft) == full
