"""Which operations may be called: those whose schemas are known, and that reach nothing but tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.extensions.replayer import Replayer
from tracelens_graph.replay.schemas import Schema, parse, schemas_of

REACHES_OUT = "it reaches files or other processes"
"""Why an operation cannot be called again."""

_PLACES = re.compile(
    r"(.*_)?(file|files|path|paths|dir|directory|folder|url|uri|host|address|cmd|command|program|library|script|code)"
    r"(_?name)?|fname|filenames?"
)
"""Names of parameters that say where something is, or what is to be run, if they are texts."""
_TEXTS = frozenset({"str", "Storage", "Stream"})
_VERBS = re.compile(r"_?(save|load|open|import|system|exec|eval|fork|spawn)(_.*)?")
"""Names of operations that read, write or start something, if they take a text."""


def reaches_out(schema: Schema) -> bool:
    """Whether an operation reads, writes or starts what is outside of its tensors, as far as its schema tells."""
    texts = [one for one in schema.parameters if one.kind.base in _TEXTS]
    verb = _VERBS.fullmatch(schema.op.rpartition("::")[2])
    return any(verb or _PLACES.fullmatch(one.name) for one in texts)


def why_not(op: str, overload: str = "", replayers: Sequence[Replayer] = ()) -> str:
    """Why a program may not call an operation; empty where it may.

    Args:
        op: its name with the namespace.
        overload: the overload, empty for the default one.
        replayers: custom operations that the user knows of.
    """
    call = f"{op}.{overload}".rstrip(".")
    known = [one for one in (*schemas_of(op), *_of(replayers, op)) if one.overload == overload]
    if not known:
        return f"{call} is neither an operation of PyTorch nor one of the extension that is given"
    return f"{call}: {REACHES_OUT}" if any(map(reaches_out, known)) else ""


def _of(replayers: Sequence[Replayer], op: str) -> list[Schema]:
    found = []
    for one in replayers:
        if one.op == op:
            try:
                found.append(parse(one.schema.strip()))
            except (TraceLensGraphError, ValueError, SyntaxError):
                continue
    return found
