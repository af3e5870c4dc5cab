"""Which replayer an operation has: one of the user's extension, else one that comes along."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from tracelens_graph.extensions.extension import Replayer, extension_of
from tracelens_graph.replay.custom import aiter, flash_attn, sglang, vllm
from tracelens_graph.replay.custom.entry import Shipped

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window

SHIPPED: Mapping[str, Shipped] = {
    one.op: one for library in (aiter, flash_attn, sglang, vllm) for one in library.ENTRIES
}
"""Name of an operation -> its replayer."""

_NUMBERED = re.compile(r"(sglang_profiler::.+)_\d+", re.ASCII)
"""Names to which SGLang's profiler adds the line of the source."""


@cache
def shipped(op: str) -> Shipped | None:
    """The replayer that comes along for an operation, with its name as it was traced; None for none."""
    numbered = _NUMBERED.fullmatch(op)
    found = SHIPPED.get(numbered[1] if numbered else op)
    if found is None or not numbered:
        return found
    return replace(found, schema=found.schema.replace(found.op, op, 1))


def replayers_of(w: Window) -> Mapping[str, Replayer]:
    """The replayers of the operations of a window, by name."""
    own = extension_of(w).replayers
    known = w.core.once(_shipped)
    return {**known, **own} if own else known


def _shipped(core: Core) -> Mapping[str, Replayer]:
    return {name: found for name in core.names if "::" in name and (found := shipped(name))}
