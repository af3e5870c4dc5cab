"""Numbers on the command line: times such as `5ms`, `1,234.5 us` or a plain number of microseconds; uids."""

from __future__ import annotations

import re
from decimal import Decimal

import typer

from tracelens_graph.utils.texts import whole_number

_TEXT = re.compile(
    r"\s*(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:e[+-]?\d{1,2})?)\s*(?P<unit>ns|us|µs|μs|ms|s|min|)\s*",
    re.IGNORECASE | re.ASCII,
)
_NS = {"ns": 1, "": 1_000, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_LIMIT_NS = 2**62


def to_ns(text: str, option: str) -> int:
    """A time as a user writes it, in ns; commas between thousands are allowed, as tables print them.

    Args:
        text: a number with the unit ns, us, ms, s or min; without a unit, us.
        option: the option it was given to, for the message.

    Raises:
        typer.BadParameter: it is no such time, or longer than a century.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{option}: {text!r} is no time; write 5ms, 200us, 1.5s or a number of microseconds")
    unit = match["unit"].lower()
    ns = Decimal(match["number"].replace(",", "")) * _NS.get(unit, 1_000)
    if ns >= _LIMIT_NS:
        raise typer.BadParameter(f"{option}: {text!r} is longer than a century")
    return int(ns.to_integral_value())


def to_uid(text: str, option: str) -> int:
    """A uid as a user writes it.

    Raises:
        typer.BadParameter: it is none.
    """
    uid = whole_number(text)
    if uid is None:
        raise typer.BadParameter(f"{option}: {text!r} is no uid, a whole number from 0")
    return uid
