"""What a table of a library says of an operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracelens_graph.extensions.extension import Replayer


@dataclass(frozen=True)
class Shipped(Replayer):
    """A replayer that comes along, with a reference in plain torch.

    Options of `fills` may be texts such as `key_cache.0 * key_cache.1`: a product of numbers and sizes of arguments.

    Attributes:
        reference: function of `replay.program.references` that computes the same.
        library: function there that calls the library where what was traced is no operation of PyTorch; else empty.
        other: schemas of other versions of the library, which differ in the number of arguments.
        texts: argument that is a text, which no profiler records -> the argument whose dtype shows it, and dtype ->
            text, `""` for any other.
        absent: argument that some traces lack -> the argument whose sizes it has, its dtype as a profiler writes it,
            or for a number `""` and its value.
        assumes: argument -> why it holds what `fills` says, where that shows in the time.
        is_changed: whether it reads what it writes, so that this gets its contents back between calls.
    """

    reference: str = ""
    library: str = ""
    other: tuple[str, ...] = ()
    texts: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    absent: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    assumes: Mapping[str, str] = field(default_factory=dict)
    is_changed: bool = False

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas of all versions."""
        return (self.schema, *self.other)
