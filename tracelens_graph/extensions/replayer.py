"""How custom operations are replayed: what a user's extension says of those whose schema PyTorch does not have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracelens_graph.errors import ExtensionError

NAMESPACES = ("aten::", "prims::")
"""How names of operations begin whose schemas are known without a replayer."""

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_SCHEMA = re.compile(r"([A-Za-z_]\w*(?:::[A-Za-z_]\w*)+)(?:\.\w+)?\(.*\) *-> *\S.*", re.ASCII | re.DOTALL)
_OPTION = re.compile(r"[a-z_]+")


@dataclass(frozen=True)
class Replayer:
    """What is needed to call a custom operation again.

    Attributes:
        schema: its schema, as `torch.library` or `TORCH_LIBRARY` registers it:
            `acme::scaled_mm(Tensor a, Tensor b, float scale=1.0) -> Tensor`.
        imports: modules that register it when they are imported; a program imports them before it calls.
        fills: argument -> what tensors given for it hold, in the words of programs: `{"fill": "integers", "high": 8}`.
            Without an entry they hold what their type and name suggest.

    Raises:
        ExtensionError: the schema is none, or something else is not a name.
    """

    schema: str
    imports: Sequence[str] = ()
    fills: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.schema, str) or not _SCHEMA.fullmatch(self.schema.strip()):
            raise ExtensionError(f"{self.schema!r:.100} is no schema: acme::op(Tensor x) -> Tensor is one")
        if isinstance(self.imports, str):
            raise ExtensionError(f"imports is a list of modules, not the text {self.imports!r:.60}")
        for module in self.imports:
            if not is_module(module):
                raise ExtensionError(f"{module!r:.60} is no name of a module")
        for argument, options in self.fills.items():
            if not isinstance(options, Mapping) or not all(_OPTION.fullmatch(str(option)) for option in options):
                raise ExtensionError(f"{argument} is filled by a mapping such as {{'fill': 'normal'}}: {options!r:.60}")

    @property
    def op(self) -> str:
        """Name of the operation, with its namespace and without its overload."""
        found = _SCHEMA.fullmatch(self.schema.strip())
        assert found is not None
        return found[1]


def is_module(text: object) -> bool:
    """Whether a text is the dotted name of a module, and nothing else."""
    return isinstance(text, str) and _MODULE.fullmatch(text) is not None
