"""Why a server ended, in one line of what it left."""

from __future__ import annotations

import re
from pathlib import Path

_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(.+)", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?:Exception in thread \S+ )?(?:[\w$]+\.)+\w*(?:Exception|Error)\w*: (.+)", re.MULTILINE)
_COMPLAINT = re.compile(
    r"^(?!.*warning)[# ]*(.*(?:ERROR|[Ee]rror|insufficient|Unrecognized|Invalid).*\n?.*)", re.MULTILINE
)
LOG = "neo4j.log"
"""Name of the log of one start, of those of a server."""

_LONGEST = 400


def last_words(logs: Path, output: str) -> str:
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
