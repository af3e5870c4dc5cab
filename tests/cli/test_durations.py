"""Times as users write them."""

from __future__ import annotations

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.cli.options import to_ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("5ms", 5_000_000),
        ("200us", 200_000),
        ("200", 200_000),
        ("1s", 10**9),
        ("2 min", 120 * 10**9),
        ("17ns", 17),
        ("1.5 MS", 1_500_000),
        ("3µs", 3_000),
        ("3\u03bcs", 3_000),
        ("0", 0),
        ("1.", 1_000),
        ("1e3us", 1_000_000),
        ("2.5e-3s", 2_500_000),
        (" 1,234,567.890 us ", 1_234_567_890),
        ("0.1234567s", 123_456_700),
        ("0.4ns", 0),
    ],
)
def test_times(text: str, ns: int) -> None:
    assert to_ns(text, "--around") == ns


@given(ns=st.integers(0, 2**62 - 1))
def test_times_that_tables_print_are_exact(ns: int) -> None:
    assert to_ns(f"{ns}ns", "--from") == ns
    assert to_ns(f"{ns // 1000:,}.{ns % 1000:03}", "--from") == ns


@pytest.mark.parametrize(
    "text",
    ["", "ms", "-5ms", "5 parsecs", "1,5ms", "12,34", "nan", "inf", "0x10", "5ms5", "1e999", "1__0", "٣ms", "5\n6"],
)
def test_nonsense_is_refused_in_words(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"^--from: .* is no time; write 5ms, 200us, 1.5s or a number"):
        to_ns(text, "--from")


@pytest.mark.parametrize("text", ["1e99", "99999999999999999999", "5000000000s"])
def test_longer_than_any_trace(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"^--to: '.*' is longer than a century$"):
        to_ns(text, "--to")
