"""Compiled programs that a profile of JAX ran, and which ops are instances of their instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.utils.arrays import Codes

RUNS = ("any", "once")
"""How often each execution of a program runs an instruction: one in the body of a loop or in a branch any number of
times, all others once."""


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled program.

    Attributes:
        name: such as `jit_step`.
        fingerprint: what separates it from all others, in all profiles (`graph.hlo.fingerprint`).
        instructions: number of its instructions, those in bodies of fusions and loops included.
        replicas, partitions: it runs on replicas x partitions devices.
        shapes: types and dims of its parameters and results, such as `f32[8,16], 2 x s32[] -> f32[8]`.
        compiler_fingerprint: what XLA noted as its fingerprint in this profile; "" for nothing. Of one program it
            differs between versions.
        numbers: by which this profile names it, ascending; several where it was compiled several times.
        xla_flops, xla_transcendentals, xla_bytes: what an execution costs by XLA's own rules (`graph.hlo.rules`):
            what `jax.stages.Compiled.cost_analysis` says. None where that is not known.
    """

    name: str
    fingerprint: str
    instructions: int = 0
    replicas: int = 1
    partitions: int = 1
    shapes: str = ""
    compiler_fingerprint: str = ""
    numbers: tuple[int, ...] = ()
    xla_flops: int | None = None
    xla_transcendentals: int | None = None
    xla_bytes: int | None = None


@dataclass(frozen=True)
class CompiledPrograms:
    """The compiled programs of a profile.

    Attributes:
        listed: those that ops are of, each once.
        code: per op, in row order: 2n + 1 for the n-th of `listed`, from 1 on, where each execution runs the op's
            instruction once; 2n where it runs it any number of times; 0 where the profile does not hold the program.
        sources: lines of source that instructions come from, as `/opt/train.py:44`, each once.
        source: per op, in row order: n + 1 where its instruction comes from the n-th of `sources`, 0 where that is not
            known. None stands for 0 everywhere.
    """

    listed: tuple[CompiledProgram, ...]
    code: Codes
    sources: tuple[str, ...] = ()
    source: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.source is None or not self.sources:
            object.__setattr__(self, "source", np.broadcast_to(np.uint8(0), len(self.code)))

    @property
    def source_place(self) -> np.ndarray:
        """Per op the place of its line in `sources`, -1 for none."""
        assert self.source is not None
        return self.source.astype(np.int32) - 1

    @property
    def place(self) -> np.ndarray:
        """Per op the place of its program in `listed`, -1 for none."""
        return self.code.astype(np.int32) // 2 - 1

    @property
    def runs(self) -> np.ndarray:
        """Per op the place in `RUNS` that says how often an execution of its program runs its instruction."""
        return self.code & 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompiledPrograms):
            return NotImplemented
        return (
            self.listed == other.listed
            and np.array_equal(self.code, other.code)
            and [*self._source_of_ops()] == [*other._source_of_ops()]
        )

    def _source_of_ops(self) -> Iterator[str]:
        """The line of each op; "" for none. The order of the lines is no matter."""
        lines = (*self.sources, "")
        return (lines[place] for place in self.source_place.tolist())

    __hash__ = None  # type: ignore[assignment]


def code_type(programs: int) -> np.dtype[Any]:
    """The narrowest type that has room for the codes of so many programs."""
    return np.dtype(np.uint8 if 2 * programs + 1 <= np.iinfo(np.uint8).max else np.int32)


def source_type(sources: int) -> np.dtype[Any]:
    """The narrowest type that has room for the codes of so many lines of source."""
    return np.dtype(np.uint8 if sources <= np.iinfo(np.uint8).max else np.int32)
