"""Files that are hard to read, each made at any size: what loading one costs has to grow with its size and no faster.

python benchmarks/hard_files.py                        seconds and memory of all, at 4, 8 and 16 MB
python benchmarks/hard_files.py quotes --size 16       of one, at 16, 32 and 64 MB
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

_LOAD = """
import json, resource, sys, time
begin = time.perf_counter()
from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.loading.one import load_core
try:
    core = load_core(sys.argv[1])
    end = f"{len(core.columns):,} nodes, {core.info.lost_events:,} lost"
except TraceLensGraphError as error:
    end = str(error).removeprefix(sys.argv[1])[:60]
# The kernel counts what the process that started this one held towards `ru_maxrss`, not towards VmHWM.
own = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
peak = max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
print(json.dumps([time.perf_counter() - begin, peak / 1024, end]))
"""

_KERNEL = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":1,"args":{"device":0,"stream":7%s}}'


def _events(piece: bytes, before: bytes = b"", behind: bytes = b"") -> Callable[[int], bytes]:
    """The same text again and again in the event list."""
    return _text(piece, b'{"traceEvents":[' + before, behind + b"]}")


def _text(piece: bytes, before: bytes = b"", behind: bytes = b"") -> Callable[[int], bytes]:
    """The same text again and again."""
    return lambda size: before + piece * max(size // len(piece), 1) + behind


def _numbered(piece: bytes, before: bytes = b"", behind: bytes = b"", between: bytes = b",") -> Callable[[int], bytes]:
    """A text with a number in it, another one each time."""

    def make(size: int) -> bytes:
        count = max(size // (len(piece) + 6), 1)
        return before + between.join(piece.replace(b"#", b"%d" % number) for number in range(count)) + behind

    return make


_OPEN = b'{"traceEvents":['
_FIRST = _KERNEL % (1, b"")
_FULL = _OPEN + _FIRST + b"]"

SHAPES: dict[str, Callable[[int], bytes]] = {
    # One thing without end.
    "string": _text(b"x", _OPEN + b'{"ph":"'),
    "escapes": _text(b"\\\\", _OPEN + b'{"ph":"'),
    "escaped quotes": _text(b'\\"', _OPEN + b'{"ph":"'),
    "controls": _text(b"\x01", _OPEN + b'{"ph":"'),
    "controls in a string": _events(b"\x01", b'{"ph":"X","name":"', b'"}'),
    "unicode": _events("é😀".encode(), b'{"ph":"X","name":"', b'"}'),
    "bad utf8": _events(b"\xff\xfe", b'{"ph":"X","name":"', b'"}'),
    "surrogates": _events(b"\\ud83d\\ude00", b'{"ph":"X","name":"', b'"}'),
    "backslashes": _events(b"\\"),
    "quotes": _events(b'"'),
    "brackets": _events(b"["),
    "closing brackets": _events(b"]"),
    "brackets and ends": _events(b"]}", b"", b',{"ph":"X"}'),
    "braces": _events(b"{"),
    "closing braces": _events(b"}"),
    "commas": _events(b","),
    "colons": _events(b":"),
    "space": _events(b" "),
    "zeros": _events(b"\0"),
    "byte order marks": _events(b"\xef\xbb\xbf"),
    "digits of an element": _events(b"1"),
    "phases": _events(b'"ph":'),
    "numbers": _events(b"1,"),
    "empty objects": _events(b"{},", behind=b"{}"),
    "empty lists": _events(b"[],"),
    "event list keys": _text(b'"traceEvents":[', b"{"),
    "event list keys in a string": _text(b'"traceEvents":[', b'{"a":"'),
    # Events.
    "half events": _events(b'{"ph":"X","name":"a'),
    "events that open only": _events(b'{"ph":"X",'),
    "nested events": _events(b'{"ph":['),
    "nested objects": _events(b'{"a":'),
    "events in a list": _events(b'{"name": [{"name": 1}, '),
    "objects in a list": _events(b'{"ph": [{"b": 1}, '),
    "quotes in events": _events(b'{"ph": "X", "x": "(x"y", "b": '),
    "lists in events": _events(b'{"args": {"x": [1, '),
    "separators": _events(b'}, {"ph": "X'),
    "events without separators": _numbered(_KERNEL % (0, b',"x":#'), _OPEN, b"]}", b""),
    "events with other first keys": _numbered(b'{"x":#,' + _FIRST[1:], _OPEN, b"]}"),
    "kernels": _numbered(_KERNEL.replace(b"%d", b"#") % b"", _OPEN, b"]}"),
    "names": _numbered(_FIRST.replace(b'"k"', b'"k#"'), _OPEN, b"]}"),
    "threads": _numbered(_FIRST.replace(b'"tid":7', b'"tid":#'), _OPEN, b"]}"),
    "processes": _numbered(_FIRST.replace(b'"pid":0', b'"pid":#'), _OPEN, b"]}"),
    "categories": _numbered(_FIRST.replace(b"kernel", b"kernel#"), _OPEN, b"]}"),
    "no categories": _numbered(b'{"ph":"X","name":"#","ts":#}', _OPEN, b"]}"),
    "metadata events": _numbered(b'{"ph":"M","pid":0,"tid":#,"name":"thread_name","args":{"name":"t#"}}', _OPEN, b"]}"),
    "shapes of arguments": _numbered(
        b'{"ph":"X","cat":"cpu_op","name":"a","pid":0,"tid":0,"ts":1,"dur":1,"args":{"Input Dims":[[#]]}}', _OPEN, b"]}"
    ),
    "text for ids": _numbered(_KERNEL % (1, b',"correlation":"c#"'), _OPEN, b"]}"),
    "times out of range": _events(_KERNEL.replace(b"%d", b"1e999990") % b"" + b",", behind=_FIRST),
    # One event.
    "many keys": _numbered(b'"k#":0', _OPEN + _FIRST[:-2] + b",", b"}}]}"),
    "many keys, broken": _numbered(b'"k#":0', _OPEN + _FIRST[:-2] + b',"x":inf,', b"}}]}"),
    "list in arguments": _events(b"0,", _FIRST[:-2] + b',"x":[', b"0]}}"),
    "lists in arguments": _events(b"[],", _FIRST[:-2] + b',"x":[', b"0]}}"),
    "objects in arguments": _events(b"{},", _FIRST[:-2] + b',"x":[', b"0]}}"),
    "list in arguments, broken": _events(b"0,", _FIRST[:-2] + b',"x":[', b"inf]}}"),
    "lists in arguments, broken": _events(b"[],", _FIRST[:-2] + b',"x":[', b"inf]}}"),
    "values missing": _events(b'"a":,', _FIRST[:-2] + b",", b'"b":0}}'),
    "list of a metadata event": _events(b"[],", b'{"ph":"M","name":"thread_name","args":{"name":[', b"0]}}," + _FIRST),
    "digits of a time": _events(
        b"9", _FIRST + b',{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"dur":1,"ts":', b"}"
    ),
    "digits of a duration": _events(
        b"9", _FIRST + b',{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":', b"}"
    ),
    "digits of an id": _events(b"9", _FIRST[:-2] + b',"correlation":', b"}}"),
    # Keys beside the events.
    "value before": _text(b"x", b'{"a":"', b'",' + _FULL[1:] + b"}"),
    "list before": _text(b"[],", b'{"a":[', b"0]," + _FULL[1:] + b"}"),
    "depth before": lambda size: b'{"a":' + b"[" * (size // 2) + b"]" * (size // 2) + b"," + _FULL[1:] + b"}",
    "keys before": _numbered(b'"k#":0', b"{", b"," + _FULL[1:] + b"}"),
    "commas before": _text(b",", b'{"a":1', _FULL[1:] + b"}"),
    "digits before": _text(b"9", b'{"baseTimeNanoseconds":', b"," + _FULL[1:] + b"}"),
    "value behind": _text(b"x", _FULL + b',"a":"', b'"}'),
    "list behind": _text(b"[],", _FULL + b',"a":[', b"0]}"),
    "depth behind": lambda size: _FULL + b',"a":' + b"[" * (size // 2) + b"]" * (size // 2) + b"}",
    "keys behind": _numbered(b'"k#":0', _FULL + b",", b"}"),
    "keys behind, broken": _numbered(b'"k#":inf', _FULL + b",", b"}"),
    "commas behind": _text(b",", _FULL, b'"a":1}'),
    "events behind": _events(_FIRST + b",", _FIRST + b'],"a":[', b"0"),
    "cut off behind": _text(b"x", _FULL + b',"a":"'),
}
"""Name -> the bytes of a file of about that many bytes."""


def measure(text: bytes) -> tuple[float, float, str]:
    """Seconds, MiB at most, and how it ended, of a process that loads a file (Linux only)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(text)
        done = subprocess.run([sys.executable, "-c", _LOAD, str(path)], check=True, stdout=subprocess.PIPE)
    seconds, peak, end = json.loads(done.stdout)
    return seconds, peak, end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", help="names of shapes, all by default")
    parser.add_argument(
        "--size", type=float, default=4, help="MB of the smallest file; the others are 2 and 4 times it"
    )
    given = parser.parse_args()
    for name in given.shapes or SHAPES:
        costs = [measure(SHAPES[name](int(given.size * factor * 1e6))) for factor in (1, 2, 4)]
        seconds = "  ".join(f"{one[0]:6.2f} s" for one in costs)
        peaks = "  ".join(f"{one[1]:6.0f} MiB" for one in costs)
        print(f"{name:30} {seconds}   {peaks}   {costs[-1][2]}", flush=True)


if __name__ == "__main__":
    main()
