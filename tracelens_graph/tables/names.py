"""Short names for people: of kernels the function, without what C++ writes around it; of frames the end of the path.

`void at::native::(anonymous namespace)::f<4, g>(int)::{lambda(int)#1}` is `f`. A trace is untrusted, so this is no
parser of C++ but one pass over the brackets of a name, which may be a megabyte long and need not be balanced.
"""

from __future__ import annotations

import re

from tracelens_graph.utils.texts import cut_end, cut_middle, tail, width_of

LONGEST = 160
"""Characters of a short name."""

_READ = 1 << 16
_OPENING = {")": "(", "]": "[", "}": "{", ">": "<"}
_BRACKETS = re.compile(r"->|[<>(){}\[\]]")
_UNNAMED = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}|\(anonymous\)")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|noexcept|__restrict__|mutable)\b|[&*]+")
_NO_NAME = re.compile(r"(?:operator\b.*|'lambda.*|\$_\d+|_GLOBAL__N_\d*|)$", re.DOTALL)
_SUFFIX = re.compile(r"(?:\.kd|\.part\.\d+|\.constprop\.\d+| ?\[clone [^\[\]]*\])+$")
_TENSILE = re.compile(r"(?:Custom_)?Cijk_\w*?_MT\d+x\d+x\d+")
_COPY = re.compile(r"Mem(?:cpy|set)\b")
_PLAIN = re.compile(
    r"(?:[\d.\s]|true|false|bool|char|short|int|long|float|double|unsigned|signed|void|__half|\(\w+\))*u?l*$"
)
_DEVICE = re.compile(r"(?:\w+::)*gfx[\da-f]{3,5}\w*")
"""Tags of devices, which Composable Kernel puts before what runs: `ck_tile::gfx950_t`."""

_WRAPPERS = {
    *("Kernel", "Kernel2", "device_kernel", "kentry", "_kernel_agent", "trampoline_kernel", "kernel_agent"),
    *("CppNode", "enable_sm80_to_sm89", "enable_sm90", "enable_sm90_or_later", "enable_sm100_or_later"),
}
"""Templates that run what their first argument names."""

_WORDS_OF_CPP = 5
"""Words that a declaration has at most outside of brackets, such as `static unsigned long long f`."""

_GENERIC = {"kernel", "run", "Run", "invoke", "globalKernel", "entry", "main", "dispatch", "combine"}
"""Functions whose names say nothing without the namespace or class around them."""


def short_name(name: str) -> str:
    """The name of a kernel's function, without return type, namespaces, template arguments and parameters.

    A lambda is called by the function that it is written in. Where the function only runs what its template argument
    names (`cutlass::Kernel2<T>`), that is the name; a name like `kernel` keeps the namespace before it. A Tensile
    name ends after the macro tile. Names that are not C++ come back as they are, but for the length.
    """
    text = _UNNAMED.sub("", _SUFFIX.sub("", " ".join(name[:_READ].split())))
    if tensile := _TENSILE.match(text):
        found = tensile[0]
    elif text.startswith("_Z"):
        found = _mangled(text)
    elif _COPY.match(text):
        found = text
    else:
        found = _demangled(text)
    found = found or text
    return found if len(found) <= LONGEST else found[: LONGEST - 1] + "…"


_CPP = re.compile(r"_Z|void |(?:[\w:]+ )?[\w:]*(?:\(anonymous namespace\)[\w:]*)?(?:<|(?<=\w)(?<!\w\.py)\((?=.*\)$))")
_FRAME = re.compile(r"(?P<folders>(?:[^/()]*/)+)(?P<rest>[^/]+\.pyx?\(\d+\): .*)", re.DOTALL)

_LINE = re.compile(r"(?:.*[/\\])?(?P<file>[^/\\]+\.pyx?)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)

_CUT = "..."
_NAMESPACE = re.compile(r"\w+::\w")
_PROSE = re.compile(r"(?:[\w,;:()%'-]+ ){4}")
_FROM_THE_START = re.compile(rf"\[|{_PROSE.pattern}")
"""Lists of sizes, and sentences."""


def fitted(name: str, width: int) -> str:
    """A name that fits into some columns of a terminal, cut where it says least.

    Of C++ names first templates, namespaces and parameters go, of frames of Python the outer folders; then, of any
    text, what stands before the end.

    >>> fitted("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)", 40)
    'vectorized_elementwise_kernel'
    >>> fitted("sm90_xmma_gemm_bf16bf16_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas", 40)
    'sm90_xmma...tilesize128x128x64..._cublas'
    >>> fitted("/usr/lib/python3/site-packages/torch/nn/modules/linear.py(134): forward", 30)
    '.../linear.py(134): forward'
    >>> fitted("modeling_qwen2.py(68): apply_rotary_pos_emb", 30)
    'modeling_qwen2.py(68): appl...'
    >>> fitted("aten::convolution_backward", 24)
    '...convolution_backward'
    """
    if width_of(name) <= width:
        return name
    if _CPP.match(name):
        name = short_name(name)
    elif frame := _FRAME.fullmatch(name):
        folders = frame["folders"].split("/")
        while len(folders) > 1 and width_of("/".join(("...", *folders[1:])) + frame["rest"]) > width:
            del folders[0]
        name = "/".join(("...", *folders[1:])) + frame["rest"] if len(folders) > 1 else frame["rest"]
    elif width_of(within := _without_namespaces(name, width - len(_CUT))) <= width - len(_CUT):
        name = _CUT + within
    if _FROM_THE_START.match(name):
        return cut_end(name, width)
    return _around_tile(name, width) or _up_to_line(name, width) or cut_middle(name, width)


_TILE = re.compile(r"(?:MT|tilesize|(?<=_)bt|(?<=_))(\d{2,3}x\d{1,3}(?:x\d{1,3})?)(?:_\d{2,3}x\d{1,2})?(?![\dx])")
"""The tile in a kernel's name, with depth and stages behind it, as Tensile, cuBLAS, MIOpen and CUTLASS write it."""


def _around_tile(name: str, width: int) -> str:
    """A name cut before and behind its tile; empty where it has none, or it does not fit or need not be cut."""
    found = _TILE.search(name) if width_of(name) > width else None
    if found is None:
        return ""
    for tile in (found[0], found[1]):
        behind = name[found.end() :]
        room = width - len(tile) - len(_CUT) - _LEAST_BESIDE
        if len(behind) > room:
            tail = max(0, room - len(_CUT)) // 2
            behind = _CUT + behind[len(behind) - tail :] * (tail > _LEAST_BESIDE)
        behind = behind if len(behind) <= room else ""
        if room >= 0:
            return f"{name[: room + _LEAST_BESIDE - len(behind)]}{_CUT}{tile}{behind}"
    return ""


_AT_LINE = re.compile(r"(?:\.\.\./)?(?P<place>[^/]+?\.pyx?(?:\(\d+\)|:\d+))(?::? .*)?", re.DOTALL)


def _up_to_line(name: str, width: int) -> str:
    """A frame of Python with its line, however much of the file or of the function goes; empty for another name."""
    frame = _AT_LINE.fullmatch(name) if width_of(name) > width > 2 * len(_CUT) else None
    if frame is None:
        return ""
    place = frame["place"]
    if width_of(place) > width:
        return _CUT + tail(place, width - len(_CUT))
    return cut_end(name, width) if width >= width_of(place) + _LEAST_OF_FUNCTION else place


_LEAST_OF_FUNCTION = 9
"""Columns for a function behind its line: a colon, a blank, and no less than four characters of it before a cut."""
_LEAST_BESIDE = 2
"""Characters of a name that stand before its tile at least."""


def frame_caption(name: str) -> str:
    """A frame of Python as file, line and function; other names as they are, but for the length.

    >>> frame_caption("/usr/lib/python3/site-packages/torch/nn/modules/linear.py(134): forward")
    'linear.py:134 forward'
    """
    frame = _LINE.fullmatch(name[:_READ])
    return cut_end(f"{frame['file']}:{frame['line']} {frame['function']}" if frame else name[:_READ], LONGEST)


def _without_namespaces(name: str, width: int) -> str:
    """A name without as many of its outer namespaces as it takes to fit."""
    while _NAMESPACE.match(name) and width_of(name) > width:
        name = name.partition("::")[2]
    return name


def is_prose(text: str) -> bool:
    """Whether a text is a sentence rather than a name."""
    return bool(_PROSE.match(text))


def _demangled(text: str) -> str:
    parts: list[str] = []
    for _ in range(5):
        outside, argument = _outside(text)
        if len(outside.split()) > _WORDS_OF_CPP:
            return text
        parts = _parts(outside)
        if not parts or parts[-1] not in _WRAPPERS or not argument:
            break
        text = argument
    return "::".join(parts[-2:] if parts and parts[-1] in _GENERIC else parts[-1:])


def _outside(text: str) -> tuple[str, str]:
    """What stands outside of all brackets, and the first template argument of the last name that is a type's name."""
    pieces: list[str] = []
    stack: list[str] = []
    still_open = dict.fromkeys(_OPENING.values(), 0)
    start, opened, arguments = 0, 0, ""
    for bracket in _BRACKETS.finditer(text):
        sign, at = bracket[0], bracket.start()
        if not stack:
            pieces.append(text[start:at])
            start, opened = bracket.end(), at
        if sign in still_open:
            still_open[sign] += 1
            stack.append(sign)
            continue
        # Inside of parentheses `>` may be a comparison, so it closes nothing else; `)` closes what `<` left open.
        opening = _OPENING.get(sign, "")
        if not still_open.get(opening) or (sign == ">" and stack[-1] != "<"):
            continue
        while (closed := stack.pop()) != opening:
            still_open[closed] -= 1
        still_open[opening] -= 1
        if not stack:
            start = at + 1
            if sign == ">":
                arguments = text[opened + 1 : at]
    if not stack:
        pieces.append(text[start:])
    elif text[opened] == "<":
        arguments = text[opened + 1 :]
    return "".join(pieces), _first_type(arguments)


def _first_type(arguments: str) -> str:
    """The first of some template arguments that is neither a number, a built-in type nor the tag of a device."""
    depth, start = 0, 0
    for sign in re.finditer(r"[<>(){},]", arguments):
        if sign[0] == "," and depth == 0:
            if _says_something(argument := arguments[start : sign.start()].strip()):
                return argument
            start = sign.end()
        elif sign[0] != ",":
            depth += 1 if sign[0] in "<({" else -1
    last = arguments[start:].strip()
    return last if _says_something(last) else ""


def _says_something(argument: str) -> bool:
    return not (_PLAIN.match(argument) or _DEVICE.fullmatch(argument))


def _parts(outside: str) -> list[str]:
    """Namespaces and function; what is left of lambdas and operators is dropped."""
    words = re.sub(r" ?:: ?", "::", _QUALIFIERS.sub(" ", outside)).split()
    named = [[part for part in word.split("::") if not _NO_NAME.match(part)] for word in words]
    return next((parts for parts in reversed(named) if parts), [])


_SOURCE_NAME = re.compile(r"L[a-z]n?\d{1,20}E|(\d{1,5}+)(?=[A-Za-z_])")


def _mangled(text: str) -> str:
    """The function of a name mangled as the Itanium C++ ABI has it; "" if nothing can be read."""
    at = 0
    names: list[str] = []
    for _ in range(5):
        names, at = _nested(text, at)
        if not names or not (names[-1] in _WRAPPERS or _DEVICE.fullmatch(names[-1])):
            break
    return "::".join(names[-2:] if names and names[-1] in _GENERIC else names[-1:])


def _nested(text: str, at: int) -> tuple[list[str], int]:
    """The next run of names, each behind its length, and where it ends."""
    names: list[str] = []
    while found := _SOURCE_NAME.search(text, at):
        if names and found.start() != at:
            break
        at = found.end()
        if found[1]:
            names.append(text[at : at + int(found[1])])
            at += int(found[1])
    return [name for name in names if not _NO_NAME.match(name)], at
