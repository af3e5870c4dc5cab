"""What an instruction should cost: operations and traffic, by the rules of XLA's own cost analysis or by ours.

XLA's rules are those of `HloCostAnalysis`, which `jax.stages.Compiled.cost_analysis` gives the sums of over the entry
computation. Ours are the same but for the departures that are named here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from math import ceil, log2
from typing import NamedTuple

from tracelens_graph.hlo.attention import TARGETS, attention_flops
from tracelens_graph.hlo.products import convolution_flops, product_of
from tracelens_graph.hlo.program import Computation, Instruction, Program
from tracelens_graph.hlo.shapes import LARGEST, Shape, product


class Departure(StrEnum):
    """Where ours say more of a kernel than those of `HloCostAnalysis` in XLA.

    Attributes:
        trips: the body and the condition of a loop count as often as XLA notes that they run
            (`known_trip_count`); by XLA's rules once.
        libraries: calls of libraries are counted where their arguments give the work, and move what they take and
            make, but for their workspace; XLA writes -1 for operations and bytes of any custom call.
        custom: a fusion of the kind `kCustom` costs what its body does; by XLA's rules what the first gather or
            scatter in it does, where there is one.
        passed: a fusion within a fusion that only passes its parameter on, as products that Triton computes have
            them, hides none of its traffic; by XLA's rules nothing reads that parameter.
        rows: a gather within a fusion reads the rows that it takes; by XLA's rules its whole table.
    """

    trips = "loop trips"
    libraries = "libraries"
    custom = "custom fusions"
    passed = "passed on"
    rows = "gathered rows"


Rules = frozenset[Departure]
"""Rules are XLA's but for these departures."""

OURS: Rules = frozenset(Departure)
XLA: Rules = frozenset()

_MOST_DIGITS = 18


def trips(one: Instruction) -> int | None:
    """How often XLA noted that a loop runs its body; None where it does not know."""
    # A search in the text is cheap: the config is parsed only where it is worth it.
    if one.opcode != "while" or '"known_trip_count"' not in one.backend_config:
        return None
    try:
        noted = str(json.loads(one.backend_config)["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return int(noted) if noted.isdecimal() and len(noted) <= _MOST_DIGITS else None


TRANSCENDENTAL = frozenset(
    (
        "acos", "acosh", "asin", "asinh", "atan2", "atanh", "cbrt", "cosine", "cosh", "erf", "exponential",
        "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "rsqrt", "sine", "sinh", "sqrt",
        "tan", "tanh", "rng",
    )
)  # fmt: skip
"""Counted apart from FLOPs, one each."""

ELEMENTWISE = frozenset(
    (
        "abs", "add", "and", "bitcast-convert", "ceil", "clamp", "clz", "compare", "complex", "convert",
        "count-leading-zeros", "divide", "floor", "imag", "is-finite", "maximum", "minimum", "multiply",
        "negate", "not", "or", "popcnt", "real", "reduce-precision", "remainder", "round-nearest-afz",
        "round-nearest-even", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign",
        "stochastic-convert", "subtract", "xor",
    )
)  # fmt: skip
"""One operation for each element of the result."""

FREE = frozenset(
    (
        "parameter", "constant", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id",
        "opt-barrier", "add-dependency", "domain",
    )
)  # fmt: skip
"""Neither work nor traffic."""

COLLECTIVES = frozenset(
    (
        "all-reduce", "all-reduce-start", "reduce-scatter",
    )
)  # fmt: skip
"""What combines values of devices: one operation for each element, as if there were two of them."""


class Work(NamedTuple):
    """Work and traffic, `LARGEST` at most. By XLA's rules -1 stands for what it does not know, and adds up as that.

    Attributes:
        flops: operations but for transcendental ones.
        transcendentals: those.
        bytes: least traffic to and from memory.
    """

    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0

    def times(self, count: int) -> Work:
        """That of so many."""
        return _capped(number * count for number in self)


UNKNOWN = Work(-1, 0, -1)
"""What XLA says of a custom call."""


def _capped(numbers: Iterable[int]) -> Work:
    return Work(*(max(min(number, LARGEST), -LARGEST) for number in numbers))


def _total(found: Iterable[Work]) -> Work:
    return _capped(map(sum, zip(*found, strict=True)))


def work(program: Program, one: Instruction, rules: Rules = OURS) -> Work:
    """What an instruction should cost.

    Args:
        rules: in what the rules depart from XLA's.
    """
    if one.opcode in FREE:
        return Work()
    if one.opcode == "fusion":
        body = program.body(one)
        if Departure.custom not in rules and one.fusion_kind == "kCustom" and (first := _first_indexed(program, body)):
            return work(program, first, rules)
        done = _sum(program, body, rules)
        return _capped((done.flops, done.transcendentals, _fusion_bytes(program, one, body, rules)))
    if one.opcode in ("while", "call", "async-start", "conditional"):
        return _called(program, one, rules)
    if one.opcode == "custom-call" and Departure.libraries not in rules:
        return UNKNOWN
    return _capped((*_operations(program, one, rules), _bytes(program, one)))


def _first_indexed(program: Program, body: Computation | None) -> Instruction | None:
    """The first gather or scatter in a computation; None for none."""
    if body is None:
        return None
    key = "first indexed", body.id
    if key not in program.known:
        program.known[key] = next((one for one in body.instructions if one.opcode in ("gather", "scatter")), None)
    return program.known[key]


def by_xla(program: Program, one: Instruction) -> tuple[Work, list[Departure]]:
    """What an instruction costs by XLA's rules, and the departures of ours that make a difference.

    One departure after the other is given up, in their order, until the rules are XLA's: named are those that change
    a figure then.
    """
    theirs, before = work(program, one, XLA), work(program, one)
    if theirs == before:
        return theirs, []
    rules, named = OURS, []
    for departure in Departure:
        rules -= {departure}
        after = work(program, one, rules)
        if after != before:
            named.append(departure)
        before = after
    return theirs, named


def entry_work(program: Program, rules: Rules = OURS) -> Work:
    """The work of the instructions of a program's entry computation: by XLA's rules what its analysis says."""
    return _sum(program, program.computations.get(program.entry), rules)


def _sum(program: Program, body: Computation | None, rules: Rules) -> Work:
    """The work of all instructions of a computation; of one that calls itself, which only damage makes, once."""
    if body is None:
        return Work()
    if ("work", rules, body.id) not in program.known:
        for computation in _callees_first(program, body, ("work", rules), Work()):
            found = _total(work(program, one, rules) for one in computation.instructions)
            program.known["work", rules, computation.id] = found
    return program.known["work", rules, body.id]


def _callees_first(
    program: Program, top: Computation, what: tuple[str, Rules], nothing: object
) -> Iterator[Computation]:
    """A computation and those below it that are not fully known yet, callees before their callers.

    However deep they are nested: what is found out about a computation needs that of its callees alone. One that is
    met stands for `nothing` until its turn, which ends circles.
    """
    program.known[*what, top.id] = nothing
    waiting = [(top, _callees(program, top))]
    while waiting:
        computation, callees = waiting[-1]
        below = next((one for one in callees if (*what, one.id) not in program.known), None)
        if below is None:
            waiting.pop()
            yield computation
        else:
            program.known[*what, below.id] = nothing
            waiting.append((below, _callees(program, below)))


def _callees(program: Program, computation: Computation) -> Iterator[Computation]:
    ids = (id for one in computation.instructions for id in one.called)
    return (program.computations[id] for id in ids if id in program.computations)


def _called(program: Program, one: Instruction, rules: Rules) -> Work:
    found = [_sum(program, program.computations[id], rules) for id in one.called if id in program.computations]
    if not found:
        return Work()
    if one.opcode == "conditional":
        return Work(*map(max, zip(*found, strict=True)))
    count = trips(one) if Departure.trips in rules else None
    return _total(found) if count is None else _total(found).times(count)


def _operations(program: Program, one: Instruction, rules: Rules) -> tuple[int, int]:
    shape = one.shape.parts[0] if one.shape.parts else one.shape
    count = shape.elements
    if one.opcode in ELEMENTWISE:
        return count, 0
    if one.opcode in TRANSCENDENTAL:
        return 0, count
    if one.opcode in COLLECTIVES:
        return one.shape.elements, 0
    operands = program.operands(one)
    first = operands[0].shape.elements if operands else 0
    if multiplied := product_of(program, one):
        return multiplied.flops, 0
    if one.opcode == "convolution":
        return convolution_flops(program, one), 0
    repeats = {
        "reduce": first - count,
        "reduce-window": count * (product(d.size for d in one.window) - 1),
        "select-and-scatter": (operands[1].shape.elements if len(operands) > 1 else 0)
        * (product(d.size for d in one.window) - 1),
        "scatter": operands[-1].shape.elements if operands else 0,
        "map": count,
    }
    if one.opcode in repeats:
        each = _sum(program, program.body(one), rules).times(max(repeats[one.opcode], 0))
        return each.flops, each.transcendentals
    if one.opcode == "sort":
        return first * ceil(log2(first)) if first > 1 else 0, 0
    if one.opcode == "custom-call":
        return library_flops(program, one), 0
    return 0, 0


# --- traffic -------------------------------------------------------------------------------------------------------


def _bytes(program: Program, one: Instruction) -> int:
    operands = [operand.shape for operand in program.operands(one)]
    result = one.shape.bytes
    if one.opcode == "tuple":
        return result
    if one.opcode == "slice":
        return 2 * result
    if one.opcode == "dynamic-slice":
        return 2 * result + sum(shape.bytes for shape in operands[1:])
    if one.opcode == "dynamic-update-slice" and len(operands) > 1:
        return 2 * operands[1].bytes + sum(shape.bytes for shape in operands[2:])
    if one.opcode == "gather" and len(operands) > 1:
        return 2 * result + operands[1].bytes
    if one.opcode == "scatter" and len(operands) > 2:
        # Updates are read, and the places that they go to are read and written.
        return 3 * operands[-1].bytes + operands[1].bytes
    if one.opcode == "custom-call":
        return sum(shape.all_bytes for shape in operands) + sum(shape.bytes for shape in _results(one))
    return result + sum(shape.bytes for shape in operands)


def _results(one: Instruction) -> list[Shape]:
    """The arrays that a custom call makes, without the workspace of bytes that libraries ask for at the end."""
    found = list(one.shape.arrays())
    if len(found) > 1 and found[-1].name in ("u8", "s8") and len(found[-1].dims) == 1:
        found.pop()
    return found


def _fusion_bytes(program: Program, one: Instruction, body: Computation | None, rules: Rules) -> int:
    if body is None:
        return one.shape.all_bytes + sum(operand.shape.all_bytes for operand in program.operands(one))
    return sum(_read_bytes(program, body, rules).values()) + _written(program, body.result)


def _read_bytes(program: Program, body: Computation, rules: Rules) -> dict[int, int]:
    """Position of each parameter of a fusion's body -> bytes of it that are read: of one that is sliced, the slices."""
    if ("read", rules, body.id) not in program.known:
        for computation in _callees_first(program, body, ("read", rules), {}):
            program.known["read", rules, computation.id] = _read_inside(program, computation, rules)
    return program.known["read", rules, body.id]


def _read_inside(program: Program, body: Computation, rules: Rules) -> dict[int, int]:
    users: dict[int, list[Instruction]] = {}
    for user in body.instructions:
        for operand in dict.fromkeys(user.operands):
            users.setdefault(operand, []).append(user)
    passes = Departure.passed in rules
    result = body.result if passes else None
    return {
        one.parameter: _bytes_of_users(
            program,
            one,
            _readers(program, one, users) if passes else ((one.id, user) for user in users.get(one.id, ())),
            one is result,
            rules,
        )
        for one in body.instructions
        if one.opcode == "parameter"
    }


def _readers(
    program: Program, parameter: Instruction, users: dict[int, list[Instruction]]
) -> Iterator[tuple[int, Instruction]]:
    """What reads a parameter, each with the id of the operand that holds it there.

    A fusion whose result is a parameter of its own reads nothing; those do that use the fusion's result.
    """
    waiting, met = [parameter.id], {parameter.id}
    while waiting:
        held = waiting.pop()
        for user in users.get(held, ()):
            if _passed_on(program, user) != held:
                yield held, user
            elif user.id not in met:
                met.add(user.id)
                waiting.append(user.id)


def _passed_on(program: Program, one: Instruction) -> int | None:
    """The id of the operand that a fusion's result is, unchanged; None of anything else."""
    body = program.body(one) if one.opcode == "fusion" else None
    result = body.result if body else None
    if result is None or result.opcode != "parameter" or not 0 <= result.parameter < len(one.operands):
        return None
    return one.operands[result.parameter]


def _bytes_of_users(
    program: Program,
    parameter: Instruction,
    users: Iterable[tuple[int, Instruction]],
    is_result: bool,
    rules: Rules,
) -> int:
    sliced = ("dynamic-slice", "gather") if Departure.rows in rules else ("dynamic-slice",)
    total, whole = (parameter.shape.all_bytes, True) if is_result else (0, False)
    for held, user in users:
        is_first = bool(user.operands) and user.operands[0] == held
        if user.opcode == "fusion" and (inner := program.body(user)) is not None:
            read = _read_bytes(program, inner, rules)
            total += sum(read.get(at, 0) for at, operand in enumerate(user.operands) if operand == held)
        elif user.opcode == "slice" or (is_first and user.opcode in sliced):
            total += user.shape.bytes
        elif is_first and user.opcode == "dynamic-update-slice":
            continue  # it is changed in place
        elif user.opcode in ("broadcast", "reshape"):
            total += parameter.shape.bytes
        elif not whole:
            whole = True
            total += parameter.shape.all_bytes
    return min(total, LARGEST)


def _written(program: Program, root: Instruction | None) -> int:
    if root is None:
        return 0
    if root.opcode == "tuple":
        return sum(_written(program, part) for part in program.operands(root) if part.opcode != "tuple")
    if root.opcode == "dynamic-update-slice" and len(update := program.operands(root)) > 1:
        return update[1].shape.bytes
    return root.shape.all_bytes


# --- libraries -----------------------------------------------------------------------------------------------------


def library_flops(program: Program, one: Instruction) -> int:
    """Operations of a call of a library that is known; 0 for any other."""
    return next((count(program, one) for pattern, count in _LIBRARIES if pattern.search(one.target)), 0)


_LIBRARIES: tuple[tuple[re.Pattern[str], Callable[[Program, Instruction], int]], ...] = (
    (TARGETS, attention_flops),
    (re.compile(r"^__(?:cudnn|miopen)\$conv"), convolution_flops),
)
"""Targets of custom calls, and what they compute."""
