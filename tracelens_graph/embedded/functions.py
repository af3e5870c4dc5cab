"""Functions that the embedded engine calls otherwise than Neo4j, or that it means something else by."""

from __future__ import annotations

from collections.abc import Mapping

from tracelens_graph.embedded.labels import EVENTS
from tracelens_graph.schema import GPU_KINDS

_GPU = ", ".join(f"'{kind.name}'" for kind in GPU_KINDS)
_EVENTS = ", ".join(f"'{kind}'" for kind in EVENTS)

_ROUND = (  # halves up
    "(CASE WHEN to_double({0}) - floor(to_double({0})) >= 0.5 THEN ceil(to_double({0})) ELSE floor(to_double({0})) END)"
)

_BY = "(CASE WHEN {1} = '' THEN '\x01\x01' ELSE {1} END)"  # of an empty text the engine makes an error
_SPLIT = (  # it drops parts that are empty, so each has a mark at both ends while it is split
    f"(CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL WHEN {{1}} = '' THEN string_split(nullif({{0}}, ''), '') "
    f"ELSE list_transform(string_split('\x01' + replace({{0}}, {_BY}, '\x01' + {_BY} + '\x01') + '\x01', {_BY}), "
    "split_part -> regexp_replace(split_part, '^\x01|\x01$', '', 'g')) END)"
)

FUNCTIONS: Mapping[tuple[str, int], str] = {
    ("type", 1): "label({0})",
    ("labels", 1): f"(CASE WHEN label({{0}}) IN [{_GPU}] THEN [label({{0}}), 'Event', 'GpuEvent'] "
    f"WHEN label({{0}}) IN [{_EVENTS}] THEN [label({{0}}), 'Event'] ELSE [label({{0}})] END)",
    ("elementid", 1): "id({0})",
    ("startnode", 1): "start_node({0})",
    ("endnode", 1): "end_node({0})",
    ("tofloat", 1): "to_double({0})",
    # What is cut off here is rounded there.
    ("tointeger", 1): "(CASE WHEN to_double({0}) < 0 THEN to_int64(ceil(to_double({0}))) "
    "ELSE to_int64(floor(to_double({0}))) END)",
    ("tostring", 1): "(CASE typeof({0}) WHEN 'DOUBLE' THEN regexp_replace(to_string({0}), '^(-?[0-9]+[.][0-9]+?)0*$', "
    "'\\\\1') WHEN 'BOOL' THEN lower(to_string({0})) ELSE to_string({0}) END)",
    ("round", 1): _ROUND,
    ("round", 2): f"(CASE WHEN {{1}} = 0 THEN {_ROUND} ELSE round({{0}}, {{1}}) END)",
    ("log", 1): "ln({0})",
    ("substring", 2): "substring({0}, ({1}) + 1, size({0}))",
    ("substring", 3): "substring({0}, ({1}) + 1, {2})",
    ("split", 2): _SPLIT,
    ("char_length", 1): "size({0})",
    ("isempty", 1): "(size({0}) = 0)",
    ("head", 1): "list_extract({0}, 1)",
    ("last", 1): "list_extract({0}, -1)",
    ("tail", 1): "list_slice({0}, 2, size({0}))",
    ("sum", 1): "coalesce(sum({0}), 0)",
}
"""Name in small letters and number of arguments -> what stands for it."""

SAME = frozenset((
    "abs", "acos", "all", "any", "asin", "atan", "atan2", "avg", "ceil", "coalesce", "collect", "cos", "cot", "count",
    "degrees", "floor", "id", "left", "length", "log10", "ltrim", "max", "min", "nodes", "none", "nullif",
    "percentilecont", "percentiledisc", "pi", "properties", "radians", "relationships", "replace", "reverse",
    "right", "rtrim",
    "sign", "sin", "single", "size", "sqrt", "tan", "tolower", "toupper", "lower", "upper", "trim",
))  # fmt: skip
"""Functions that both engines call so, and mean the same by."""

QUANTIFIERS = frozenset(("all", "any", "none", "single"))
"""Functions of the form `any(x IN list WHERE ...)`."""

LARGEST_RANGE = 1_000_000
"""Elements that a list may be counted out to: the engine makes it whole, whatever its own limits are."""


def known() -> list[str]:
    """Names of all functions of statements, in small letters."""
    return sorted({*SAME, *(name for name, _ in FUNCTIONS), "range", *QUANTIFIERS})
