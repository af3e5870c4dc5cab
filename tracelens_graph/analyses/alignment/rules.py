"""What may explain a place, as rules: the first that has evidence answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracelens_graph.analyses.alignment.cause_words import called, counted, is_move, listed, words
from tracelens_graph.analyses.alignment.evidence import Evidence, times
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.reasons import Reason, Why
from tracelens_graph.analyses.alignment.whole_evidence import CONTENDED, Whole
from tracelens_graph.analyses.shared.common_factor import CLOCK
from tracelens_graph.analyses.shared.gpu_work import communication_names
from tracelens_graph.graph.autograd import autograd_of

_MOVES = {
    "aten::_to_copy": "casts", "aten::to": "casts", "aten::copy_": "copies", "aten::clone": "copies",
    "aten::contiguous": "copies", "aten::fill_": "fills", "aten::zero_": "fills",
}  # fmt: skip
"""Ops that compute nothing, and what they do."""

_CLOCK_WITHIN = 0.03
"""How far from the factor of all kernels that of a place may be to be explained by it."""
_OTHER_NUMBER = {"more": Reason.more_kernels, "fewer": Reason.fewer_kernels, "counts": Reason.other_kernel}
"""How sides of the same kernels differ in their number -> the reason."""


def _are_close(one: float, other: float) -> bool:
    """Whether two ratios hardly differ; the same the other way round."""
    return max(one, other) <= (1 + _CLOCK_WITHIN) * min(one, other)


Rule = Callable[[Evidence, Whole], Why | None]


def _is_the_same(evidence: Evidence, _: Whole) -> Why | None:
    place = evidence.place
    equal = place.ns[0] == place.ns[1] and evidence.is_of_equal_kernels
    return Why(Reason.same, "the same") if equal and not evidence.arguments else None


def _is_moved(evidence: Evidence, _: Whole) -> Why | None:
    """The same calls, before others on one side and behind them on the other."""
    if not evidence.place.points[0].is_moved or evidence.is_communication:
        return None
    names = evidence.diff.names
    where = "to another place"
    for here, there, side in (("behind", "before", 0), ("before", "behind", 1)):
        if passed := evidence.passed(side):
            where = f"from {here} {passed} in {names[0]} to {there} it in {names[1]}"
    took = evidence.took if evidence.is_of_equal_kernels else evidence.with_shares(str(evidence.other))
    return Why(Reason.moved, f"moved {where}: {took}")


def _is_captured(evidence: Evidence, _: Whole) -> Why | None:
    captured = [side for side in range(2) if evidence.is_captured(side)]
    if not captured:
        return None
    where = " and ".join(evidence.diff.names[side] for side in captured)
    text = f"recorded into a graph in {where}, so it did not run there"
    if len(captured) == 1 and evidence.only is None:
        other = 1 - captured[0]
        how = "replayed from a graph" if evidence.is_graph_launch(other) else "run"
        text += f"; in {evidence.diff.names[other]} {how}: {words(evidence.place.kernels[other])}"
    return Why(Reason.captured, text)


def _is_of_one_side(evidence: Evidence, _: Whole) -> Why | None:
    side = evidence.only
    if side is None:
        return None
    only, kernels = f"only in {evidence.diff.names[side]}", evidence.place.kernels[side]
    what = f"{evidence.place.events(side):,} x {words(kernels)}" if len(kernels) == 1 else words(kernels)
    core, rows, ops = evidence.sides[side].window.core, evidence.rows(side), evidence.ops(side)
    if len(rows) and autograd_of(core).recompute[rows].all():
        return Why(Reason.recomputation, f"{only}: recomputation of activations, {what}")
    communication_ns = sum(ns for name, (_, ns) in kernels.items() if name in communication_names(core))
    if 2 * communication_ns > evidence.place.ns[side] or evidence.is_communication:
        return Why(Reason.communication, f"{only}: {evidence.collectives(side)}, {what}")
    if (ops and ops <= _MOVES.keys()) or all(map(is_move, kernels)):
        size = evidence.moved(side)
        return Why(Reason.moves, f"{only}: {_moved(ops | {evidence.place.names[side]}, kernels)}, {what}{size}")
    if evidence.is_graph_launch(side):
        return Why(Reason.graph_launch, f"{only}: launched as a graph, {what}")
    if modules := evidence.place.whole_modules:
        whole = "a module with all below it" if modules == 1 else "modules with all below them"
        events = evidence.place.events(side)
        return Why(Reason.module, f"{only}: {what}; {whole}, {events:,} GPU event{'s' if events > 1 else ''}")
    return Why(Reason.only_one, f"{only}: {what}")


def _moved(ops: set[str], kernels: dict[str, tuple[int, int]]) -> str:
    found = {_MOVES[op] for op in ops if op in _MOVES}
    found |= {"fills" if name.startswith("Memset") else "copies" for name in kernels if name.startswith("Mem")}
    if "casts" in found:  # they call aten::copy_, and copy by a kernel; between devices they are copies
        found.discard("casts" if any(name.startswith("Memcpy") for name in kernels) else "copies")
    return " and ".join(sorted(found)) or "copies, casts or fills"


def _is_launched_otherwise(evidence: Evidence, _: Whole) -> Why | None:
    """The same work, launched as a graph on one side and op by op on the other."""
    graphs = [side for side in range(2) if evidence.is_graph_launch(side)]
    if len(graphs) != 1:
        return None
    names = evidence.diff.names
    text = f"launched as a graph in {names[graphs[0]]}, one by one in {names[1 - graphs[0]]}"
    if evidence.is_of_equal_kernels:
        return Why(Reason.graph_launch, f"{text}; {evidence.took}")
    return Why(Reason.graph_launch, f"{text}; {evidence.other}")


def _is_communication(evidence: Evidence, whole: Whole) -> Why | None:
    if not evidence.is_communication or not evidence.is_of_equal_kernels:
        return None
    detail = f"; {evidence.arguments[1]}" if evidence.arguments else _outliers(evidence)
    what = f"the same {evidence.collectives(0)}, {times(evidence.ratio)}"
    return Why(Reason.communication, f"{what}, waiting for other ranks included{detail}")


def _is_joined(evidence: Evidence, _: Whole) -> Why | None:
    """Calls of one op that became one call with the sizes of all, or the other way round."""
    place, ops = evidence.place, evidence.ops(0)
    number, counts = len(place.points), tuple(map(len, evidence.leaves))
    if not place.points[0].is_replaced or len(ops) != 1 or ops != evidence.ops(1) or counts[0] == counts[1]:
        return None
    (op,), reason = ops, Reason.fused if counts[1] < counts[0] else Reason.unfused
    before, after = (f"{count / number:,.3g}" for count in counts)
    sizes = f", {evidence.arguments[1].partition(': ')[2]}" if evidence.arguments else ""
    first, second = (dict.fromkeys(called(name) for name in kernels if not is_move(name)) for kernels in place.kernels)
    kernels = listed(first) if first.keys() == second.keys() else f"{listed(first)} became {listed(second)}"
    return Why(reason, f"{reason}: {after} {op} in place of {before}{sizes}; {kernels}")


def _has_other_arguments(evidence: Evidence, _: Whole) -> Why | None:
    if not evidence.arguments:
        return None
    what, text = evidence.arguments
    return Why(Reason[f"other_{what}"], f"{text}; {evidence.took if evidence.is_of_equal_kernels else evidence.other}")


def _outliers(evidence: Evidence) -> str:
    """Which of equal layers or calls stand out, behind what else there is to say; empty for none."""
    odd = evidence.place.among
    return "" if odd is None or odd.ratio is None else f"; {odd}"


def _copies_otherwise(evidence: Evidence, whole: Whole) -> Why | None:
    """Copies or fills alone, whose bytes are recorded: how many, and how fast."""
    if evidence.copied is None or not evidence.is_of_equal_kernels:
        return None
    what, text = evidence.copied
    reason = Reason.copied_bytes if what == "bytes" else Reason.copy_rate
    return Why(reason, text + _outliers(evidence))


def _takes_other_time(evidence: Evidence, whole: Whole) -> Why | None:
    """Mostly the same kernels for another time: with other communication beside them, on another device, all alike."""
    if not evidence.is_of_time:
        return None
    before, after = (whole.overlap(side, evidence.place) for side in range(2))
    is_contended = (after - before if evidence.ratio > 1 else before - after) >= CONTENDED
    if is_contended and not whole.is_so_elsewhere(evidence.place):
        share = f"{100 * before:.0f} -> {100 * after:.0f} % of the time communication runs beside it"
        return Why(Reason.contention, f"{evidence.took}; {share}{evidence.beside}")
    if odd := _outliers(evidence):
        return Why(Reason.outlier, f"{evidence.same}{odd}{evidence.parts}{evidence.beside}")
    if whole.is_other_device:
        return Why(Reason.other_device, f"{evidence.took}, on another device{evidence.beside}")
    if whole.clock is not None and _are_close(evidence.ratio, whole.clock):
        return Why(Reason.clock, f"{evidence.took}, as all kernels: {CLOCK}{evidence.beside}")
    usual = f", all others {whole.clock:.2f}x" if whole.clock is not None else ""
    return Why(Reason.other_time, f"{evidence.took}{usual}; the traces do not show why{evidence.beside}")


def _is_other_work(evidence: Evidence, _: Whole) -> Why | None:
    """Communication on one side only: what stands on the other in its place does not replace it."""
    kernels = evidence.place.kernels
    has_communication = [
        not communication_names(side.window.core).isdisjoint(names)
        for side, names in zip(evidence.sides, kernels, strict=True)
    ]
    if has_communication[0] == has_communication[1]:
        return None
    texts = [words(names) for names in kernels]
    side = int(has_communication[1])
    texts[side] = f"{evidence.collectives(side)} ({texts[side]})"
    text = " and ".join(f"{one} in {name}" for one, name in zip(texts, evidence.diff.names, strict=True))
    return Why(Reason.other_work, f"other work between the same neighbours: {text}")


def _is_fused(evidence: Evidence, _: Whole) -> Why | None:
    """One kernel that does the work of several, since a compiler or an op put them together."""
    if evidence.fused_side is None:
        return None
    side, by = evidence.fused_side
    number = len(evidence.place.points)
    per_call = " -> ".join(f"{count / number:,.3g}" for count in evidence.extra_counts)
    reason = Reason.fused if side else Reason.unfused
    fused, parts = (counted(evidence.extra[one], number) for one in (side, 1 - side))
    how = f"{reason} by {by}" if side else f"{reason}, {by} had fused them"
    what = f"{fused} in place of {parts}" if side else f"{parts} in place of {fused}"
    return Why(reason, evidence.with_shares(f"{how}, {per_call} kernels: {what}"))


def _has_more_kernels(evidence: Evidence, _: Whole) -> Why | None:
    if evidence.other.kind not in _OTHER_NUMBER:
        return None
    less, more = evidence.extra
    text = str(evidence.other)
    if all(map(is_move, {**less, **more})):
        return Why(Reason.moves, evidence.with_shares(f"copies, casts or fills, {text}"))
    return Why(_OTHER_NUMBER[evidence.other.kind], evidence.with_shares(text))


def _is_another_op(evidence: Evidence, _: Whole) -> Why | None:
    first, second = evidence.place.names
    if first == second:
        return None
    return Why(Reason.other_op, f"{first} became {second}; {_without_library(evidence)}")


def _without_library(evidence: Evidence) -> str:
    """How the kernels differ; other ops run other kernels, so that another library is no news."""
    return evidence.other.text if evidence.other.kind == "library" else str(evidence.other)


def _is_another_algorithm(evidence: Evidence, _: Whole) -> Why | None:
    """The kernels with the most time do other things: attention became a product and a softmax."""
    if not all(evidence.extra_leaves):
        return None
    longest = [
        max(leaves, key=lambda leaf: (side.ns[leaf], -leaf))
        for side, leaves in zip(evidence.sides, evidence.extra_leaves, strict=True)
    ]
    categories = [int(side.category[leaf]) for side, leaf in zip(evidence.sides, longest, strict=True)]
    if categories[0] == categories[1] or any(is_move(next(iter(kernels))) for kernels in evidence.extra):
        return None
    if evidence.is_replaced_by_ops and len(evidence.extra_ops(0)) == len(evidence.extra_ops(1)) == 1:
        return _by_other_ops(evidence)
    return Why(Reason.other_algorithm, evidence.with_shares(f"another algorithm: {evidence.other.text}"))


def _by_other_ops(evidence: Evidence) -> Why:
    """Below one call, other ops launch other kernels."""
    first, second = (listed(sorted(evidence.extra_ops(side))) for side in range(2))
    return Why(Reason.other_op, evidence.with_shares(f"{first} became {second}; {_without_library(evidence)}"))


def _has_another_kernel(evidence: Evidence, _: Whole) -> Why | None:
    if evidence.other.kind == "kernel" and evidence.is_replaced_by_ops:
        return _by_other_ops(evidence)
    counts = evidence.place.events(0), evidence.place.events(1)
    number = f"; {counts[0]:,} -> {counts[1]:,} GPU events" if counts[0] != counts[1] else ""
    return Why(Reason[f"other_{evidence.other.kind}"], evidence.with_shares(str(evidence.other)) + number)


RULES: Sequence[Rule] = (
    _is_moved,
    _is_the_same,
    _is_captured,
    _is_of_one_side,
    _is_launched_otherwise,
    _is_communication,
    _is_joined,
    _has_other_arguments,
    _copies_otherwise,
    _takes_other_time,
    _is_other_work,
    _is_fused,
    _has_more_kernels,
    _is_another_op,
    _is_another_algorithm,
    _has_another_kernel,
)
"""What may explain a place, in the order in which it is asked; the last always answers."""


class Reasons(Whole):
    """Reasons for the places of a comparison."""

    def of(self, place: Place) -> Why:
        """Why the sides differ at a place."""
        evidence = self.evidence(place)
        why = next(why for rule in RULES if (why := rule(evidence, self)) is not None)
        if place.among is None or place.among.ratio is not None:
            return why
        return why._replace(text=f"{place.among}: {why.text}")
