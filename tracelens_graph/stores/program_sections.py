"""The compiled programs of a graph, as sections of its saved file; graphs of PyTorch's traces have none."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from tracelens_graph.graph.programs import CompiledProgram, CompiledPrograms, code_type, source_type
from tracelens_graph.schema import Kind
from tracelens_graph.stores.sections import Sections, SectionWriter
from tracelens_graph.utils.arrays import Codes

_MOST = 2**63
"""The first number that columns have no room for."""


def write_programs(writer: SectionWriter, programs: CompiledPrograms) -> None:
    """Write programs, of which of them each op is, and which line of source it comes from."""
    writer.json("programs", [asdict(one) for one in programs.listed])
    writer.array("programs.code", programs.code)
    writer.strings("programs.sources", programs.sources)
    writer.array("programs.source", (programs.source_place + 1).astype(source_type(len(programs.sources))))


def read_programs(sections: Sections, kind: Codes) -> CompiledPrograms:
    """The compiled programs in a saved graph.

    Args:
        sections: the file.
        kind: kinds of the rows.

    Raises:
        TraceError: they are damaged.
    """
    listed = tuple(sections.json("programs", list[CompiledProgram]))
    numbers = (
        value
        for one in listed
        for value in (
            one.instructions, one.replicas, one.partitions, *one.numbers, one.xla_flops, one.xla_transcendentals,
            one.xla_bytes,
        )
    )  # fmt: skip
    if not all(value is None or -_MOST <= value < _MOST for value in numbers):
        raise sections.damaged("programs")
    code = sections.array("programs.code")
    ops = np.count_nonzero(kind == Kind.Op)
    if code.shape != (ops,) or code.dtype != code_type(len(listed)):
        raise sections.damaged("programs.code")
    if ops and not 0 <= code.min() <= code.max() <= 2 * len(listed) + 1:
        raise sections.damaged("programs.code")
    sources, source = tuple(sections.strings("programs.sources")), sections.array("programs.source")
    if source.shape != (ops,) or source.dtype != source_type(len(sources)):
        raise sections.damaged("programs.source")
    if ops and not 0 <= source.min() <= source.max() <= len(sources):
        raise sections.damaged("programs.source")
    return CompiledPrograms(listed, code, sources, source)
