"""The process of a local server: begun, found again, ended, and why it ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_INTERVAL_S = 0.05
_AFTER_KILL_S = 10.0


def environment() -> dict[str, str]:
    """What a program of Neo4j may know of our environment: no password, and no settings of another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("NEO4J_")}


def spawn(command: list[str], environment: Mapping[str, str], output: Path) -> int:
    """Start a program in a session of its own, with what it prints in a file; its process id.

    It inherits none of our files: one that a shell opened, a lock or the end of a pipe, would stay open with it.
    """
    with open(output, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as printed:
        started = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    started.returncode = 0  # it outlives us, and nobody waits for it
    with suppress(ProcessLookupError):  # it has ended already
        while not arguments(started.pid):  # which the system shows only a moment after the start
            os.kill(started.pid, 0)
            time.sleep(_INTERVAL_S)
    return started.pid


def arguments(pid: int) -> str:
    """How a living process was called, or nothing if there is none of this id."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # until then a child that has ended is still listed
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    done = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout


def end(pid: int, argument: str, patience_s: float) -> bool:
    """End the process of this id, if `argument` is in its arguments; whether it is gone.

    It is asked first. One that is not gone in time is killed: a server whose disk is full waits for room for ever. What
    was committed stands in its log of transactions.
    """
    for how, seconds in ((signal.SIGTERM, patience_s), (signal.SIGKILL, _AFTER_KILL_S)):
        deadline = time.monotonic() + seconds
        if argument in arguments(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, how)
        while argument in arguments(pid) and time.monotonic() < deadline:
            time.sleep(_INTERVAL_S)
    return argument not in arguments(pid)


_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(.+)", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?:Exception in thread \S+ )?(?:[\w$]+\.)+\w*(?:Exception|Error)\w*: (.+)", re.MULTILINE)
_COMPLAINT = re.compile(
    r"^(?!.*warning)[# ]*(.*(?:ERROR|[Ee]rror|insufficient|Unrecognized|Invalid).*\n?.*)", re.MULTILINE
)
LOG = "neo4j.log"
"""Name of the log of one start, of those of a server."""

_LONGEST = 400


def why_ended(logs: Path, output: str) -> str:
    """Why a server ended: what Java printed, else the error in its log.

    Args:
        logs: folder of its logs.
        output: name of the file among them that holds what it printed.
    """
    return reason_in(_text(logs / output)) or reason_in(_text(logs / LOG)) or f"it does not say why; look into {logs}"


def reason_in(text: str) -> str:
    """The innermost two causes of a stack trace, else its message, else the line that complains and its next."""
    causes = _CAUSE.findall(text)[-2:]
    if len(causes) == 2 and causes[1] in causes[0]:
        causes.pop()
    for pattern in (_EXCEPTION, _COMPLAINT):
        causes = causes or pattern.findall(text)[:1]
    return ": ".join(" ".join(cause.split()) for cause in causes)[:_LONGEST]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
