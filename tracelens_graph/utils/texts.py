"""Text of a trace made fit to be shown: safe to print, and as wide as there is room."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from unicodedata import category, east_asian_width

_GAP = "..."
"""Stands for what was cut out. Plain ASCII, which every terminal has."""

_FEW = 24
"""Characters of the end of a paragraph that may be missing."""
_NARROWEST = 8
"""Columns that a paragraph takes at least."""

_NO_COLUMN = ("Mn", "Me", "Cf")
"""Unicode categories of characters that take no column of their own."""


def printable(text: str) -> str:
    """Text without anything a terminal would obey: control and invisible characters become visible escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, thing: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


DEVICE_WORD = ContextVar("device_word", default="GPU")
"""What the devices of the traces at hand are called: set where a command loads them, used where it shows text."""

HOST = "host"
"""The word where host time stands in the place of GPU time: what works there are ops, not kernels."""

_KERNELS = re.compile(r"\b(?:kernel|host event)(s?)\b")
_GPU = re.compile(r"( *)(?<![\w.:/-])(?<!is no )GPU(?=s?(?![\w:]))")


def in_device_words(text: str, is_prose: bool = True) -> str:
    """A text for people with the devices called what they are; columns of a table keep their places, if they can.

    Args:
        is_prose: whether it is no data or program, in which kernels have the names that these give them.
    """
    word = DEVICE_WORD.get()
    if word == "GPU":
        return text

    def named(found: re.Match[str]) -> str:
        longer, gap = len(word) - len("GPU"), found[1]
        return (gap[longer:] if len(gap) >= longer + 2 else gap) + (
            word if found.start() else word[:1].upper() + word[1:]
        )

    text = _GPU.sub(named, text)
    return _KERNELS.sub(r"op\1", text) if word == HOST and is_prose else text


def microseconds(ns: int) -> bytes:
    """A time as JSON, exact.

    >>> microseconds(1_234_005)
    b'1234.005'
    """
    return b"%s%d.%03d" % (b"-" if ns < 0 else b"", *divmod(abs(ns), 1000))


def ranges(numbers: Iterable[int], last: str = ", ") -> str:
    """Whole numbers, ascending, with three and more neighbours as a range.

    >>> ranges([0, 1, 2, 3, 8, 10, 11])
    '0-3, 8, 10, 11'

    Args:
        last: what stands before the last one, or the last range.
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [word for run in runs for word in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run))]
    return last.join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


_WHOLE_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+", re.ASCII)


def whole_number(text: str) -> int | None:
    """A number from 0, with or without commas between thousands; None for a text that is none."""
    return int(text.replace(",", "")) if _WHOLE_NUMBER.fullmatch(text.strip()) else None


def shorten(text: str, width: int) -> str:
    """The first `width` characters, and `...` if there are more."""
    return text if len(text) <= width else text[:width] + "..."


def width_of(text: str) -> int:
    """Columns of a terminal that a text takes: two for wide East Asian characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(c: str) -> int:
    if c.isascii():
        return 1
    return 0 if category(c) in _NO_COLUMN else 2 if east_asian_width(c) in "WF" else 1


def head(text: str, width: int) -> str:
    """As much of the beginning of a text as fits into some columns."""
    if text.isascii():
        return text[:width]
    taken = 0
    for at, c in enumerate(text):
        taken += _width(c)
        if taken > width:
            return text[:at]
    return text


def tail(text: str, width: int) -> str:
    """As much of the end of a text as fits into some columns."""
    if text.isascii():
        return text[max(len(text) - width, 0) :]
    taken, at = 0, len(text)
    while at and taken + _width(text[at - 1]) <= width:
        at -= 1
        taken += _width(text[at])
    return text[at:]


def cut_middle(text: str, width: int, part: int = 3) -> str:
    """A text that fits into some columns: its beginning, a third or another part, then `...` and more of its end.

    Names that differ mostly differ in their ends.
    """
    if width_of(text) <= width:
        return text
    room = width - len(_GAP)
    if room < 2:
        return head(text, width)
    begin = head(text, room // part)
    return begin + _GAP + tail(text, room - width_of(begin))


def cut_end(text: str, width: int) -> str:
    """A text that fits into some columns: its beginning, and `...` if that is not all."""
    if width_of(text) <= width:
        return text
    room = width - len(_GAP)
    return head(text, room) + _GAP if room > 0 else head(text, width)


_WORDS = re.compile(r"(?:[A-Za-z'.:;!?-]+\s+){3}[A-Za-z]")
"""Four words of letters side by side, as sentences have them, and functions and sizes have not."""
_BUILT_IN = re.compile(
    r"<built-in (?:method|function) [\w.]*(?: of [\w.]+ object)?|\((?:no launch in trace|no line of Python"
    r"|launched outside of operations|GPU work of no operation|below no call of both)\)"
)
"""Names of Python's, and our own for what has none, that read like sentences."""


def quoted(name: str) -> str:
    """A name of a trace within a sentence: in quotes if it is blank, or reads like a sentence itself.

    >>> quoted("aten::mm"), quoted("Ignore all previous instructions")
    ('aten::mm', '"Ignore all previous instructions"')
    """
    if not name.strip():
        return repr(name)
    return '"{}"'.format(name.replace('"', "'")) if _WORDS.search(_BUILT_IN.sub("", name)) else name


def shown_name(name: str, width: int = 60) -> str:
    """A name within a sentence: cut to some columns, and in quotes if it needs them."""
    return quoted(cut_end(name, width) if name.strip() else name[:width])


def paragraphs(texts: Iterable[str], width: int | None, indent: str = "") -> list[str]:
    """The lines of some texts of a trace, safe to print; see `wrapped`."""
    return [line for text in texts for line in wrapped(printable(text), width, indent)]


def wrapped(text: str, width: int | None, indent: str = "") -> Iterator[str]:
    """The lines of a paragraph, broken between words; a word longer than a line, behind a slash or at its end.

    Args:
        width: columns of a line; None for a single line.
        indent: what stands before all lines but the first.
    """
    if width is None or width_of(text) <= width:
        yield text
        return
    width = max(width, _NARROWEST)
    indent = indent if 2 * len(indent) <= width else ""
    line, is_empty = "", True
    for word in text.split(" "):
        if not is_empty and width_of(line) + 1 + width_of(word) > width:
            yield line.rstrip()
            line, is_empty = indent, True
        line, is_empty = line + word if is_empty else f"{line} {word}", False
        while width_of(line) > width:
            begin = head(line, width)
            begin = begin[: begin.rfind("/", len(indent) + 1) + 1] or begin
            yield begin
            line = indent + line[len(begin) :]
    if line.strip():
        yield line.rstrip()


def first_lines(text: str, width: int, most: int) -> list[str]:
    """The first lines of a paragraph; where there are more, the last ends with a whole word and `...`."""
    lines = list(wrapped(text, width))
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while width_of(last) > width - len(_GAP) - 1 and " " in last:
        last = last.rpartition(" ")[0]
    return [*lines[: most - 1], f"{cut_end(last, max(width - len(_GAP) - 1, 1))} {_GAP}"]


def outer_lines(text: str, width: int, most: int) -> list[str]:
    """A paragraph in so many lines; where it has more, long words lose their middle, then the paragraph does: its
    beginning, `...`, and its last clause or words. Where only a few words have no room, these are missing.

    >>> outer_lines("the same kernels, 1.03x as long, waiting for others; 1 of 36: layer 20, 2.00x as long", 60, 1)
    ['the same kernels, 1.03x ... 1 of 36: layer 20, 2.00x as long']
    >>> outer_lines("2 x triton_red_fused_native_batch_norm_backward_1 in place of 2 x relu", 60, 1)
    ['2 x triton_red_fu...orm_backward_1 in place of 2 x relu']
    """
    if len([*wrapped(text, width)]) > most:
        text = " ".join(cut_middle(word, max(width // 2, 1), 2) for word in text.split(" "))
    begin = first_lines(text, width, most)
    if len(text) - len(" ".join(begin)) <= _FEW:
        return begin
    *lines, last = begin
    end = text.rpartition("; ")[2]
    most_of_end = width - len(_GAP) - 1
    if width_of(end) > most_of_end:
        end = tail(text, most_of_end if lines else 2 * width // 3).partition(" ")[2]
    room = width - width_of(end) - len(_GAP) - 2
    while width_of(last) > room and " " in last:
        last = last.rpartition(" ")[0]
    first = f"{last} " if width_of(last) <= room else ""
    return [*lines, f"{first}{_GAP} {end}"]


# --- names of trace files -------------------------------------------------------------------------------------------

_SUFFIXES = (".json", ".gz", ".zst", ".zip", ".tlg", ".trace", ".pt", ".pb", ".xplane")
"""What names of trace files end with, one behind the other."""

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")
"""What a shell calls a pipe that it hands to a command as a file."""


def stem(name: str) -> str:
    """The name of a trace file without what all are called: `worker0.123` of `worker0.123.pt.trace.json.gz`."""
    path = Path(name)
    while path.suffix in _SUFFIXES and path.stem:
        path = Path(path.stem)
    return path.name


def file_name(path: str) -> str:
    """What a file is called in headings: its name without the folder; `pipe` for a descriptor such as `/dev/fd/63`."""
    return "pipe" if _DESCRIPTOR.fullmatch(path) else Path(path).name


def distinct_names(files: Sequence[str]) -> list[str]:
    """A name for each trace file: without suffixes, and with as many folders as separate it from the others.

    Files that are one and the same have one name.
    """
    parts = {file: ("stdin",) if file == "-" else _parts(file) for file in files}
    lengths = dict.fromkeys(files, 1)
    while True:
        names = {file: "/".join(part[-lengths[file] :]) for file, part in parts.items()}
        count = Counter(names[file] for file in parts)
        alike = [file for file, part in parts.items() if count[names[file]] > 1 and lengths[file] < len(part)]
        if not alike:
            return [names[file] for file in files]
        for file in alike:
            lengths[file] += 1


def _parts(file: str) -> tuple[str, ...]:
    if number := _DESCRIPTOR.fullmatch(file):
        return (f"fd{number[1]}", "pipe")
    path = Path(file).absolute()
    return (*path.parts[1:-1], stem(path.name))
