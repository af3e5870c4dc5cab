"""How two sets of kernels differ, in words: the library, the tile, the types, or what else their names tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.categories.parsed_name import ParsedName
from tracelens_graph.short_names import short_name

Kernels = Mapping[str, tuple[int, int]]
"""Names of GPU events -> how many, and their time in ns."""

_READ = 8192
_MOST = 3
_LONGEST = 48
_TOKENS = re.compile(r"\w+|\S")
_ARGUMENTS = {"vectorized_elementwise_kernel": "elements at a time"}
"""Kernels -> what their first template argument counts."""

_BUILD = (
    (re.compile(r"\.kd$"), ""),
    (re.compile(r"\s+"), ""),
    (re.compile(r"\bat::detail::Array<"), "std::array<"),
    (re.compile(r"(?<=\d)[uU]?[lL]*\b"), ""),
    (re.compile(r"\b__(?:nv|hip)_"), "__"),
    (re.compile(r"(?:hip|cuda)(?=_|\b)"), "gpu"),
)
"""What differs between the names that builds for several platforms give to one kernel -> how all are written here."""

_MOVE = re.compile(
    r"^Mem(?:cpy|set)\b|FillFunctor|direct_copy_kernel|(?:b?float\d*|half|int\d*|bool)_copy_kernel|copyBuffer|fillBuffer"
)
_COMPILED = "Triton-fused"


def is_move(name: str) -> bool:
    """Whether a kernel only copies, casts or fills, by its name."""
    return _MOVE.search(name[:_READ]) is not None


def is_compiled(name: str) -> bool:
    """Whether a compiler wrote a kernel for several ops, by its name."""
    return name.startswith("triton") and kernel_categories([(name, "")])[0] == _COMPILED


def of_any_build(kernels: Kernels) -> dict[str, int]:
    """How many there are of each kernel, by its name without what differs between builds."""
    found: dict[str, int] = {}
    for name, (count, _) in kernels.items():
        plain = plain_name(name)
        found[plain] = found.get(plain, 0) + count
    return found


def plain_name(name: str) -> str:
    """A kernel's name without what differs between the builds of one kernel."""
    text = name[:_READ]
    for pattern, by in _BUILD:
        text = pattern.sub(by, text)
    return text


def called(name: str) -> str:
    """A kernel by library, operation and tile where its name tells them, else by its short name."""
    parsed = parse_name(name)
    if parsed is None or parsed.tile is None:
        return short_name(name)
    return " ".join(filter(None, (parsed.family, parsed.operation, "x".join(map(str, parsed.tile)))))


def listed(names: Iterable[str], most: int = _MOST) -> str:
    """The first of some names, and how many more there are."""
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return " + ".join(different[:most]) + more


def words(kernels: Kernels) -> str:
    """The kernels with the most time, and how many there are in all where it is more than one."""
    return listed(called(name) for name in kernels)


def more_of(kernels: Kernels, others: Kernels) -> dict[str, int]:
    """Kernels of which there are more than on the other side, and how many more."""
    theirs = of_any_build(others)
    return {name: more for name, (count, _) in kernels.items() if (more := count - theirs.get(plain_name(name), 0)) > 0}


def other_name(first: Kernels, second: Kernels) -> tuple[str, str]:
    """What the names of the kernels with the most time differ in (`library`, `types`, `tile` or `kernel`), and how.

    Args:
        first, second: kernels of both sides, those with the most time first; neither empty.
    """
    one, other = next(iter(first)), next(iter(second))
    parsed = parse_name(one), parse_name(other)
    became = f"{words(first)} became {words(second)}"
    if parsed[0] and parsed[1] and (found := _other_field(parsed[0], parsed[1])):
        kind, text = found
        if kind != "kernel":
            return kind, f"{text}: {became}"
    if words(first) == words(second) or called(one) == called(other):
        detail = difference_of(one, other)
        return "kernel", f"{called(one)}, {detail}" if detail else f"another build of {called(one)}"
    return "kernel", became


def _other_field(one: ParsedName, other: ParsedName) -> tuple[str, str] | None:
    if one.family != other.family:
        return "library", "another library"
    if one.dtype and other.dtype and one.dtype != other.dtype:
        return "types", f"{one.dtype} became {other.dtype}"
    if one.operation != other.operation:
        return "kernel", ""
    if one.tile and other.tile and one.tile != other.tile:
        return "tile", "another tile"
    return None


def difference_of(one: str, other: str) -> str:
    """What differs between two kernels' names that are short for the same: template arguments or settings."""
    first, second = one[:_READ], other[:_READ]
    short = short_name(first)
    arguments = [_template(text, short) for text in (first, second)]
    if all(arguments):
        changed = _middle(*([*_TOKENS.findall(text)] for text in arguments))
        if changed is None:
            return ""
        about = _ARGUMENTS.get(short)
        if about and arguments[0].partition(",")[2] == arguments[1].partition(",")[2]:
            return f"{changed[0]} -> {changed[1]} {about}"
        return f"other template arguments: {changed[0]} became {changed[1]}"
    settings = [text.split("_") for text in (first, second)]
    pairs = [
        (a, b) for a, b in zip_longest(*settings, fillvalue="") if a != b and len(a) <= _LONGEST and len(b) <= _LONGEST
    ]
    if len(settings[0]) != len(settings[1]) or not pairs:
        return "other parameters" if first != second else ""
    more = f" and {len(pairs) - 2} more" if len(pairs) > 2 else ""
    return f"other settings: {', '.join(f'{a} became {b}' for a, b in pairs[:2])}{more}"


def _template(text: str, short: str) -> str:
    """The template arguments of a function; empty without any."""
    begin = text.find(f"{short}<")
    if begin < 0:
        return ""
    begin += len(short) + 1
    depth = 1
    for sign in re.finditer(r"->|[<>]", text[begin:]):
        depth += {"<": 1, ">": -1}.get(sign[0], 0)
        if not depth:
            return text[begin : begin + sign.start()].strip()
    return ""


def _middle(first: Sequence[str], second: Sequence[str]) -> tuple[str, str] | None:
    """What is left of two lists of words without what they begin and end with alike; None where that is nothing."""
    if first == second:
        return None
    shortest = min(len(first), len(second))
    start = next((i for i in range(shortest) if first[i] != second[i]), shortest)
    rest = shortest - start
    end = next((i for i in range(rest) if first[-1 - i] != second[-1 - i]), rest)
    middle = ["".join(words[start : len(words) - end]).strip(",") or "none" for words in (first, second)]
    cut = [text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…" for text in middle]
    return cut[0], cut[1]
