"""How the kernels of two calls differ, in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import NamedTuple, Self

from tracelens_graph.categories.gemm_names import ParsedName
from tracelens_graph.categories.kernel_names import parse_name, title
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.tables.names import short_name

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
_ALIGNMENT = re.compile(r"_align(?:ment)?_?(\d+)", re.IGNORECASE)
_EVEN = 4
"""Elements of an alignment below which a size is odd."""
_COMPILED = "Triton-fused"
_BY_HAND = re.compile("triton__[a-z]")
"""Kernels that somebody wrote in Triton: compilers put a kind before the name, or only numbers behind two dashes."""
_ONE_LIBRARY = ({"cuBLAS", "nvjet", "CUTLASS"}, {"cuDNN", "CUTLASS"})
"""Families of names that one library of NVIDIA ships: which of them runs, it chooses by sizes and alignment."""
_COMPILED_FAMILY = "inductor"


class Word(StrEnum):
    """A word that cells of a column hold, and what it means."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        """A member: the word is its value."""
        found = str.__new__(cls, word)
        found._value_, found.meaning = word, meaning
        return found


def is_move(name: str) -> bool:
    """Whether a kernel only copies, casts or fills, by its name."""
    return _MOVE.search(name[:_READ]) is not None


def is_compiled(name: str) -> bool:
    """Whether a compiler wrote a kernel for several ops, by its name."""
    return name.startswith("triton") and not _BY_HAND.match(name) and kernel_categories([(name, "")])[0] == _COMPILED


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
    """A kernel by library, operation and tile where its name has them, else by its short name."""
    return title(name) or short_name(name)


def listed(names: Iterable[str], most: int = _MOST) -> str:
    """The first of some names, and how many more there are."""
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return " + ".join(different[:most]) + more


def words(kernels: Kernels) -> str:
    """The kernels with the most time, and how many there are in all where it is more than one."""
    return listed(called(name) for name in kernels)


def counted(kernels: Kernels, calls: int = 1) -> str:
    """The same with how many there are of each: per call, or in all where calls have not equally many."""
    return _counted(_counts(kernels), _even(calls, _counts(kernels)))


def _counts(kernels: Kernels) -> Counter[str]:
    """How many kernels there are of each that is called the same here."""
    counts: Counter[str] = Counter()
    for name, (count, _) in kernels.items():
        counts[called(name)] += count
    return counts


def _even(calls: int, *several: Counter[str]) -> int:
    """The number of calls, 0 where these do not run equally many kernels."""
    return 0 if any(count % calls for counts in several for count in counts.values()) else calls


def _counted(counts: Counter[str], calls: int) -> str:
    if not calls:
        return listed(f"{count:,} x {name}" for name, count in counts.items())
    return listed(f"{count // calls:,} x {name}" if count > calls else name for name, count in counts.items())


def extra_of(kernels: Kernels, others: Kernels) -> dict[str, tuple[int, int]]:
    """Kernels that are more than on the other side, those with the most time first: how many more, and their part of
    the time of their name."""
    left = of_any_build(others)
    found = {}
    for name, (count, ns) in kernels.items():
        plain = plain_name(name)
        both = min(count, left.get(plain, 0))
        if both:
            left[plain] -= both
        if count > both:
            found[name] = count - both, ns * (count - both) // count
    return dict(sorted(found.items(), key=lambda item: (-item[1][1], item[0])))


class Other(NamedTuple):
    """How two sets of kernels differ.

    Attributes:
        kind: `library`, `types`, `tile` or `kernel` where kernels became others; `more`, `fewer` or `counts` where both
            sides run the same kernels but not equally often, or one side runs others beside them.
        what: the kind in words, empty where `text` says it.
        text: which kernels differ.
    """

    kind: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.what}: {self.text}" if self.what else self.text


def other_kernels(first: Kernels, second: Kernels, calls: int = 1) -> Other:
    """How the kernels that only one side runs differ from those that only the other runs.

    Args:
        first, second: kernels of both sides, those with the most time first.
        calls: number of calls that launched them.
    """
    less, more = extra_of(first, second), extra_of(second, first)
    before, after = of_any_build(first), of_any_build(second)
    if before.keys() == after.keys():
        number = sum(after.values()) - sum(before.values())
        kind = "more" if number > 0 else "fewer" if number else "counts"
        changed = [(name, plain_name(name)) for name in {**less, **more}]
        text = listed(f"{before[plain]:,} -> {after[plain]:,} x {called(name)}" for name, plain in changed)
        return Other(kind, "the same kernels, other counts" if text else "", text or "the same kernels")
    if not less or not more:
        extra, kind = (more, "more") if more else (less, "fewer")
        number = sum(count for count, _ in extra.values())
        text = counted(extra) if len({*map(called, extra)}) > 1 else words(extra)
        return Other(kind, "", f"{number:,} {kind}: {text}")
    one, other = _foremost(less), _foremost(more)
    parsed = parse_name(one), parse_name(other)
    kind, what = (_other_field(parsed[0], parsed[1]) if parsed[0] and parsed[1] else None) or ("kernel", "")
    alignment = _other_alignment(one, other)
    if not what and {*map(called, less)} == {*map(called, more)}:
        detail = alignment or difference_of(one, other)
        return Other(kind, "", f"{called(one)}, {detail}" if detail else f"another build of {called(one)}")
    became = _became(_counts(less), _counts(more), calls)
    return Other(kind, what, f"{became}; {alignment}" if alignment else became)


def _other_alignment(one: str, other: str) -> str:
    """Another alignment of operands in two kernels' names: an odd size allows 1 or 2 elements only."""
    found = [_ALIGNMENT.search(name[:_READ]) for name in (one, other)]
    before, after = (int(match[1]) if match else 0 for match in found)
    if before == after or not before or not after:
        return ""
    return f"align{before} became align{after}" + (": an odd size" if after < min(before, _EVEN) else "")


def _became(less: Counter[str], more: Counter[str], calls: int) -> str:
    variants = less & more
    if less - variants and more - variants:
        less, more = less - variants, more - variants
    else:
        variants.clear()
    calls = _even(calls, less, more, variants)
    also = f"; other variants of {_counted(variants, calls)}" if variants else ""
    return f"{_counted(less, calls)} became {_counted(more, calls)}{also}"


def _foremost(kernels: Kernels) -> str:
    """The kernel with the most time that does not only copy or fill, else the first."""
    return next((name for name in kernels if not is_move(name)), next(iter(kernels)))


def _other_field(one: ParsedName, other: ParsedName) -> tuple[str, str] | None:
    compiled = _COMPILED_FAMILY in (one.family, other.family)
    if (one.operation is None) != (other.operation is None) and not compiled:
        return None  # an elementwise kernel against a product: no choice of a library
    is_other_family = one.family != other.family
    if is_other_family and not any({one.family, other.family} <= families for families in _ONE_LIBRARY):
        return "library", "another library"
    family = "another kernel family" if is_other_family else ""
    if one.dtype and other.dtype and one.dtype != other.dtype:
        return "types", ", ".join(filter(None, (f"{one.dtype} became {other.dtype}", family)))
    if family:
        return "kernel", family
    if one.operation == other.operation and one.tile and other.tile and one.tile != other.tile:
        return "tile", "another tile"
    return None


def difference_of(one: str, other: str) -> str:
    """What differs between two kernels' names that are short for the same: function, template arguments or settings."""
    first, second = one[:_READ], other[:_READ]
    short, other = short_name(first), short_name(second)
    if (
        short != other
        and max(len(short), len(other)) <= _LONGEST
        and _template(first, short)
        and _template(second, other)
    ):
        return f"{short} became {other}"
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


def details_of_alike(first: Iterable[str], second: Iterable[str], shown: Callable[[str], str]) -> dict[str, str]:
    """Kernels of the second side that look like one of the first -> what is another there.

    Kernels that both sides run are left out, and each kernel of the first side counts once.
    """
    ones, others = list(dict.fromkeys(first)), list(dict.fromkeys(second))
    common = {*ones} & {*others}
    look: dict[str, list[str]] = {}
    for name in ones:
        if name not in common:
            look.setdefault(shown(name), []).append(name)
    found = {}
    for name in others:
        if name not in common and (alike := look.get(shown(name))):
            found[name] = difference_of(alike.pop(0), name) or "another build"
    return found


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
