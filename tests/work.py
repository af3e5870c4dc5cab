"""How much work a call is, told by counting and not by a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def work(call: Callable[[], object]) -> int:
    """How many functions are called on the way, those of Python and those written in C."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(before)
    return calls


def assert_linear(call: Callable[[int], object], size: int) -> None:
    """Fail if twice the size is much more than twice the work; quadratic work would be four times as much."""
    once, twice = work(lambda: call(size)), work(lambda: call(2 * size))
    assert twice < 2.5 * once + 500
