"""Microseconds of any spelling into exact integer nanoseconds.

`rint(ts * 1000)` is exact below 2**42 microseconds. From there on the product has no bits left for the rounding, so
whole and broken microseconds are converted each by themselves, which is exact below 2**43. Above, the float itself has
lost the nanoseconds (epoch microseconds with decimals are off by up to 253 ns); there the digits are read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import Raw

from tracelens_graph.graph.core import Core
from tracelens_graph.utils.arrays import Ns

EXACT_BELOW_US = 2.0**43
_PRODUCT_EXACT_BELOW_US = 2.0**42
_PACK = msgspec.msgpack.Encoder().encode
_PACKED = np.dtype([("head", "u1"), ("value", ">f8")])
UNREADABLE_NS = -(2**63)
"""Stands for a time that is not a number, or out of range."""

EARLIEST_NS, LATEST_NS = -(2**59), 3 * 2**60
"""Times lie between these (LATEST_NS is in 2079): so twice what lies between two of them, and a duration more, is below
2**63. An event with a time beyond is lost."""

_MOST_DIGITS = 20
"""Digits before and behind the point beyond which a time in microseconds is far out of range, or nothing."""

MOST_APART_NS = 86_400 * 10**9
"""A day. No recording lasts that long, so a time this far from nearly all others was damaged."""

LONGEST_NS = 2**53
"""Longest duration that may be, 104 days: sums of many fit into 64 bits, and floats carry them."""


def as_floats(values: list[float]) -> np.ndarray:
    """A list of floats as an array, three times faster than numpy does it: msgpack writes 9 bytes for each."""
    count = len(values)
    # The header of an array in msgpack has 1, 3 or 5 bytes, by its length.
    head = 1 if count < 16 else 3 if count < 65536 else 5
    return np.frombuffer(_PACK(values), _PACKED, offset=head)["value"]


def floats_need_digits(times: np.ndarray) -> bool:
    """Whether times in microseconds are too large for a float to carry their nanoseconds."""
    return bool(len(times)) and max(times.max(), -times.min()) >= EXACT_BELOW_US


def floats_to_ns(times: np.ndarray) -> Ns:
    """Microseconds as floats, each below 2**43, to nanoseconds; what is out of range becomes UNREADABLE_NS."""
    if len(times) and _PRODUCT_EXACT_BELOW_US <= max(times.max(), -times.min()) < EXACT_BELOW_US:
        whole = np.floor(times)
        exact: np.ndarray = whole.astype(np.int64) * 1000 + np.rint((times - whole) * 1000.0).astype(np.int64)
        return exact
    ns = np.rint(times * 1000.0)
    if len(ns) and not (ns.max() < LATEST_NS and ns.min() > EARLIEST_NS):
        ns[~((ns < LATEST_NS) & (ns > EARLIEST_NS))] = UNREADABLE_NS
    return ns.astype(np.int64)


def digits_to_ns(times: Sequence[Raw]) -> Ns:
    """Microseconds as the file's own text (number or quoted number) to nanoseconds, exact, half to even.

    What is no number, or out of range, becomes UNREADABLE_NS.
    """
    text = b",".join(times).replace(b'"', b"")
    count = len(times)
    points = text.count(b".")
    # With three decimals everywhere, as profilers write them, the digits without points are ns.
    if points == 0 or (points == count and all(bytes(t).rstrip(b'"')[-4:-3] == b"." for t in times)):
        with warnings.catch_warnings():
            # Where a time is no number, older releases of numpy warn and stop there, newer ones raise.
            warnings.simplefilter("error", DeprecationWarning)
            try:
                values = np.fromstring(text.replace(b".", b"").decode("latin-1"), np.int64, sep=",")
            except (ValueError, DeprecationWarning):
                values = np.empty(0, np.int64)
        # The limits leave room for the factor of 1000.
        if len(values) == count and (
            not count or (values.max() < LATEST_NS // 1000 and values.min() > EARLIEST_NS // 1000)
        ):
            return values if points else values * 1000
    return np.array([_one(t) for t in times], np.int64)


def _one(time: Raw) -> int:
    from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

    text = bytes(time).strip(b'" ').decode()
    try:
        value = Decimal(text)
    except InvalidOperation:
        try:
            value = Decimal(float(text))  # an exponent that even Decimal refuses: endless, or nothing
        except ValueError:
            return UNREADABLE_NS
    # As an integer, one far out of range would have as many digits as its exponent says.
    if not value.is_finite() or (value and value.adjusted() > _MOST_DIGITS):
        return UNREADABLE_NS
    if not value or value.adjusted() < -_MOST_DIGITS:
        return 0
    ns = int((value * 1000).to_integral_value(ROUND_HALF_EVEN))
    return ns if EARLIEST_NS < ns < LATEST_NS else UNREADABLE_NS


def epoch_ns(base: object) -> int:
    """`baseTimeNanoseconds` of a trace, number or text; 0 where there is none that can be."""
    try:
        ns = int(base)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return 0
    return ns if EARLIEST_NS < ns < LATEST_NS else 0


def origin_ns(core: Core) -> int:
    """What the start of a graph is in the times that its file shows, ns."""
    return core.info.start_epoch_ns - epoch_ns(core.info.metadata.get("baseTimeNanoseconds"))
