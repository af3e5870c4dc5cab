"""From chunks of JSON to columns of numbers: the first pass over a trace.

Every chunk is decoded into typed records, these are sorted into families, and each field of a family becomes a
numpy array; nothing of a chunk survives but numbers, interned names and interned argument sets. A chunk with an
odd event is decoded event by event; a chunk that is no JSON goes through the repair path.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from tracelens_graph.graph.flows import DEPENDENCY_ID, FlowEnds
from tracelens_graph.graph.info import OLD_MEMORY
from tracelens_graph.loaders.kineto.generic import FUNCTION, as_function
from tracelens_graph.loaders.kineto.records import (
    CATEGORIES,
    OTHER_ACCELERATORS,
    CollectiveEvent,
    Family,
    Head,
    OldOpArgs,
    arguments,
    is_host_collective,
    records,
)
from tracelens_graph.loaders.kineto.times import (
    LONGEST_NS,
    UNREADABLE_NS,
    as_floats,
    digits_to_ns,
    floats_need_digits,
    floats_to_ns,
)
from tracelens_graph.schema import Flag
from tracelens_graph.schema.categories import KINDS_BY_NAME
from tracelens_graph.utils.arrays import Codes, Ns, Numbering, Rows

_RAW_LIST = msgspec.json.Decoder(list[Raw])
_ANY = msgspec.json.Decoder()
_KEYS = msgspec.json.Decoder(dict[str, Raw])
_COLLECTIVE = msgspec.json.Decoder(CollectiveEvent)
_HEAD = msgspec.json.Decoder(Head)
_TIME = re.compile(rb'"?-?\d+(\.\d*)?([eE][+-]?\d{1,2})?"?')
_FIRST_HUGE = -(2**62)
"""Ids that are no int64 (text, or larger) get codes from here downwards: distinct, and unlike any real id."""

_NUMERIC = (" id", "correlation", "number", "stream", "device", "bytes")
"""Ends of the names of arguments that are read as integers."""

NODE_FAMILIES = (
    Family.python, Family.op, Family.runtime, Family.gpu, Family.annotation,
    Family.device_annotation, Family.sync, Family.overhead, Family.memory,
)  # fmt: skip

_CONTEXT = ("process_name", "process_labels", "thread_name")
"""Names of the metadata events that are kept."""

_FIRST_TIMES = 8
"""How many starts are kept to find the earliest: some of them may be damaged."""

_FEW = 32
"""Events tried together where a whole chunk does not fit: only those with an odd one are taken one by one."""

_CATEGORY = re.compile(rb'"cat"\s*:\s*"([ -!#-\[\]-~]{1,100})"')
_MOST_CATEGORIES = 64

_PLACE = {family: number for number, family in enumerate(NODE_FAMILIES)}

_ID_ARGUMENTS = {
    Family.op: ("external_id", "sequence", "forward_thread"),
    Family.runtime: ("external_id", "correlation"),
    Family.gpu: ("external_id", "correlation", "device", "stream"),
    Family.sync: ("external_id", "correlation", "device", "stream"),
    Family.annotation: ("external_id",),
    Family.device_annotation: ("external_id",),
    Family.memory: ("device",),
}
"""Arguments of each family that are ids, and columns of the same name."""

_DRAWN = {*"BbnCiIR"}
"""Phases, beside `X` with a duration, of entries that Perfetto UI draws: its time begins with the first of them. Names
of threads and arrows do not count. (`trace_bounds` of its trace processor: slices and counters.)"""

_NO_DURATION_IS_FINE = (Family.memory,)


_SMALL = {"kind": np.uint8, "flags": np.uint8, "name": np.int32, "thread": np.int32, "argset": np.int32}


def dtype_of(column: str) -> np.dtype[Any]:
    """Type of a column while it is collected."""
    return np.dtype(_SMALL.get(column, np.int64))


@dataclass
class Chunk:
    """Where the events first..first+count-1 stand in the decompressed file."""

    offset: int
    length: int
    first: int
    count: int
    repaired: bool = False


@dataclass
class Collected:
    """Columns of one stretch of a trace, in file order within each family; can be pickled.

    Columns grow as bytes, family by family: thousands of small arrays would cost more than what is in them.
    """

    events: int = 0
    columns: dict[str, dict[str, bytearray]] = field(default_factory=dict)
    names: Numbering = field(default_factory=Numbering)
    threads: Numbering = field(default_factory=Numbering)
    argsets: Numbering = field(default_factory=Numbering)
    odd_ids: Numbering = field(default_factory=Numbering)
    chunks: list[Chunk] = field(default_factory=list)
    metadata_events: list[dict[str, Any]] = field(default_factory=list)
    autograd_flows: FlowEnds = field(default_factory=FlowEnds)
    collectives: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    launch_flows: int = 0
    big_flows: bool = False
    accelerators: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    lost_events: int = 0
    lost_bytes: int = 0
    doubtful_from: int | None = None
    """Uid from which on more events may be lost than counted."""
    first_times: list[int] = field(default_factory=list)
    """The earliest starts, ascending, of the entries that became no node and that viewers draw."""

    def note_first(self, times: Iterable[int]) -> None:
        """Take note of starts of entries that became no node."""
        self.first_times = sorted({*self.first_times, *times})[:_FIRST_TIMES]


class Collector:
    """Takes chunks in file order and fills a `Collected`. Feed it through `Walker.walk`."""

    def __init__(self, on_progress: Callable[[int], None] | None = None, is_generic: bool = False) -> None:
        self.out = Collected()
        self._is_generic = is_generic
        self._records = records(False)
        self._beyond_floats = False
        self._on_progress = on_progress

    def chunk(self, text: memoryview, offset: int) -> None:
        """Take one chunk `[event, ...]`; raises what msgspec raises where it is no JSON."""
        str(text, "utf-8")  # msgspec does not look into what it skips
        odd: dict[int, Any] = {}
        try:
            events = self._records.events.decode(text)
        except msgspec.ValidationError:
            events = self._one_by_one(_RAW_LIST.decode(text), odd)
        first = self.out.events
        if not self._take(events, np.arange(first, first + len(events)), odd, lambda: _RAW_LIST.decode(text)):
            return self.chunk(text, offset)
        self._close_chunk(offset, len(text) - 2, len(events), False)
        return None

    def broken(self, text: bytes, offset: int, last: bool) -> bytes | None:
        """Take what can be saved of a stretch that is no JSON, and count what cannot."""
        from tracelens_graph.loaders.kineto.repair import repair_events

        repaired = repair_events(text, last=last)
        raws = [Raw(event) for event in repaired.events]
        odd: dict[int, Any] = {}
        events = self._one_by_one(raws, odd)
        positions = np.asarray(repaired.positions, np.int64) + self.out.events
        if not self._take(events, positions, odd, lambda: raws):
            return self.broken(text, offset, last)
        self.out.repairs.update(repaired.counts)
        self.out.lost_events += repaired.lost_events
        self.out.lost_bytes += repaired.lost_bytes
        if repaired.doubtful_from is not None and self.out.doubtful_from is None:
            self.out.doubtful_from = self.out.events + repaired.doubtful_from
        self._close_chunk(offset, len(text), repaired.pieces, True)
        return repaired.tail

    def forget(self) -> None:
        """Forget all that was taken."""
        self.out = Collected()

    def _close_chunk(self, offset: int, length: int, count: int, repaired: bool) -> None:
        self.out.chunks.append(Chunk(offset, length, self.out.events, count, repaired))
        self.out.events += count
        if self._on_progress:
            self._on_progress(offset + length)

    def _one_by_one(self, raws: list[Raw], odd: dict[int, Any]) -> list[Any]:
        """Records of events where some do not fit; what fits nowhere is None, and `odd` says why."""
        events: list[Any] = []
        for begin in range(0, len(raws), _FEW):
            few = raws[begin : begin + _FEW]
            try:
                events += self._records.events.decode(b"[" + b",".join(few) + b"]")
            except (msgspec.ValidationError, RecursionError):
                if not self._is_generic and self._learn_categories(few):
                    odd.clear()
                    return self._one_by_one(raws, odd)
                events += [self._one(raw, begin + index, odd) for index, raw in enumerate(few)]
                if self._beyond_floats and not self._records.exact:
                    self._records = records(True, self._records.unknown)
                    odd.clear()
                    return self._one_by_one(raws, odd)
        return events

    def _one(self, raw: Raw, index: int, odd: dict[int, Any]) -> Any:
        try:
            return self._records.event.decode(raw)
        except (msgspec.ValidationError, RecursionError):
            return self._odd_event(raw, index, odd)

    def _learn_categories(self, raws: list[Raw]) -> bool:
        """Add unknown categories to the table, so that a frequent one is not slow for ever; whether any was new."""
        found = set(self._records.unknown)
        for raw in raws:
            match = _CATEGORY.search(bytes(raw))
            category = match.group(1).decode() if match else ""
            if category and category not in CATEGORIES and len(found) < _MOST_CATEGORIES:
                found.add(category)
        if found == self._records.unknown:
            return False
        self._records = records(self._records.exact, frozenset(found))
        return True

    def _odd_event(self, raw: Raw, index: int, odd: dict[int, Any]) -> Any:
        """An event that fits no record: metadata, something without category, or fields of the wrong type."""
        try:
            event = _ANY.decode(raw)
        except msgspec.ValidationError:  # a number that no float holds
            event, self._beyond_floats = None, True
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = None
        if not isinstance(event, dict):
            odd[index] = "not an event"
            return None
        category = event.get("cat")
        if event.get("ph") == "M":
            odd[index] = event
            return None
        if not isinstance(category, str) or category not in CATEGORIES:
            if not self._is_generic or event.get("ph") != "X":
                missing = OLD_MEMORY if event.get("name") == "[memory]" else "no category"
                odd[index] = missing if category is None else "other category"
                return None
            category, event = FUNCTION, as_function(event)
        record = self._records.by_category[category]
        try:
            if self._records.exact:
                digits = _KEYS.decode(raw)
                event.update({key: digits[key] for key in ("ts", "dur") if event.get(key) is not None})
            return msgspec.json.decode(msgspec.json.encode(_tidied(event)), type=record, strict=False)
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
            odd[index] = "unreadable"
            return None

    def _take(self, events: list[Any], uids: np.ndarray, odd: dict[int, Any], raws: Callable[[], list[Raw]]) -> bool:
        """Spread the records of one chunk over the columns of their families.

        False, with nothing taken, where floats cannot carry the times to the nanosecond: then the same events are
        to be decoded again, with the digits of their times kept, as all later ones will be.
        """
        family_of, category_of = self._records.family, self._records.category
        types = list(map(type, events))
        present = [record for record in dict.fromkeys(types) if record is not type(None)]
        place = {record: _PLACE.get(family_of[record], 255) for record in present}
        place[type(None)] = 255
        codes = np.frombuffer(bytes(map(place.__getitem__, types)), np.uint8)
        listed = np.fromiter(events, object, len(events))
        families = []
        for number in sorted(set(place.values()) - {255}):
            here = np.flatnonzero(codes == number)
            picked = listed[here].tolist()
            families.append((NODE_FAMILIES[number], picked, here, [e.ts for e in picked]))
        # Looked at before anything is taken, so that nothing has to be undone to decode again.
        if not self._records.exact and any(floats_need_digits(as_floats(times)) for *_, times in families):
            self._records = records(True, self._records.unknown)
            return False
        for reason in odd.values():
            if isinstance(reason, dict):
                self.out.metadata_events += _context_event(reason)
                reason = "metadata"
            self.out.left_out[reason] += 1
        if any(isinstance(reason, str) for reason in odd.values()):
            texts = raws()
            self._meet([texts[i] for i, reason in odd.items() if isinstance(reason, str)])
            # What has no time of its own may have lost it together with whole events, where the rest fits together.
            timeless = [i for i, reason in odd.items() if reason == "unreadable" and b'"ts"' not in bytes(texts[i])]
            if timeless and self.out.doubtful_from is None:
                self.out.doubtful_from = int(uids[min(timeless)]) + 1
        for family, picked, here, times in families:
            self._take_family(family, picked, times, uids[here], raws, here)
        for record in present:
            if place[record] == 255:
                self._take_flows([e for e in events if type(e) is record], family_of[record], category_of[record])
        return True

    def _take_flows(self, events: list[Any], family: Family, category: str) -> None:
        """Keep the arrows between the passes, count the other entries that become no node."""
        if family is Family.other:
            self.out.left_out[f"category {category}"] += len(events)
            drawn = [e for e in events if e.ph in _DRAWN or (e.ph == "X" and _is_given(e.dur))]
            self._meet_times(self._times([e.ts for e in drawn if _is_given(e.ts)]))
        elif family is Family.launch_flow:
            self.out.launch_flows += len(events)
            try:
                self.out.big_flows |= max([e.id for e in events]) >= DEPENDENCY_ID
            except TypeError:
                # Ids of text cannot be compared: arrows are read then, to be on the safe side.
                self.out.big_flows = True
        elif family is Family.autograd_flow:
            times = self._times([e.ts for e in events])
            threads = [self.out.threads[e.pid, e.tid] for e in events]
            self.out.autograd_flows.add([e.ph for e in events], [e.id for e in events], threads, times.tolist())

    def _meet(self, raws: list[Raw]) -> None:
        """Take note of the times of entries that fit no record."""
        heads = []
        for raw in raws:
            try:
                heads.append(_HEAD.decode(raw))
            except (msgspec.MsgspecError, RecursionError):
                continue
        drawn = [h for h in heads if h.ph in _DRAWN or (h.ph == "X" and h.dur is not None)]
        self._meet_times(digits_to_ns([h.ts for h in drawn if _TIME.fullmatch(bytes(h.ts))]))

    def _meet_times(self, times: np.ndarray) -> None:
        times = times[times != UNREADABLE_NS]
        if len(times):
            self.out.note_first(np.sort(times)[:_FIRST_TIMES].tolist())

    def _take_family(
        self,
        family: Family,
        events: list[Any],
        times: list[Any],
        uids: np.ndarray,
        raws: Callable[[], list[Raw]],
        positions: Rows,
    ) -> None:
        start, (dur, flags) = self._times(times), self._durations([e.dur for e in events], family)
        if (unreadable := (start == UNREADABLE_NS) | (dur == UNREADABLE_NS)).any():
            self.out.left_out["unreadable"] += int(unreadable.sum())
            kept = np.flatnonzero(~unreadable)
            events, uids, positions = [events[i] for i in kept.tolist()], uids[kept], positions[kept]
            start, dur, flags = start[kept], dur[kept], flags[kept]
        if negative := int(np.count_nonzero(flags & Flag.negative_duration)):
            self.out.repairs["negative_duration"] += negative
        count = len(events)
        places = zip([e.pid for e in events], [e.tid for e in events], strict=True)
        columns = {
            "uid": uids,
            "kind": self._kinds(events),
            "name": np.fromiter(map(self.out.names.__getitem__, [e.name for e in events]), np.int32, count),
            "thread": np.fromiter(map(self.out.threads.__getitem__, places), np.int32, count),
            "start_ns": start,
            "dur_ns": dur,
            "flags": flags,
        }
        if family not in (Family.python, Family.overhead):
            args = [e.args for e in events]
            columns |= self._arguments(family, args)
            # One join shows whether any event of the chunk is a collective: few chunks are decoded again.
            if family in (Family.op, Family.gpu) and b"".join([a.collective for a in args]):
                texts = raws()
                for i, a in enumerate(args):
                    if len(memoryview(a.collective)):
                        found = _COLLECTIVE.decode(texts[positions[i]]).args
                        self.out.collectives.append((int(uids[i]), msgspec.structs.asdict(found)))
            if family is Family.annotation:
                on_host = [i for i, event in enumerate(events) if is_host_collective(event.name)]
                texts = raws() if on_host else []
                for i in on_host:
                    self.out.collectives.append((int(uids[i]), arguments(events[i].name, texts[positions[i]])))
        target = self.out.columns.setdefault(family.value, {})
        for name, values in columns.items():
            target.setdefault(name, bytearray()).extend(values.astype(dtype_of(name), copy=False).tobytes())

    def _kinds(self, events: list[Any]) -> Codes:
        categories = {record: self._records.category[record] for record in set(map(type, events))}
        for category in categories.values():
            named = (name for start, name in OTHER_ACCELERATORS.items() if category.startswith(start))
            self.out.accelerators.update(named)
        kinds = {record: CATEGORIES[category][1] or 0 for record, category in categories.items()}
        by_name = {record: KINDS_BY_NAME[one] for record, one in categories.items() if one in KINDS_BY_NAME}
        if by_name:
            found = (by_name.get(type(e), {}).get(e.name, kinds[type(e)]) for e in events)
            return np.fromiter(found, np.uint8, len(events))
        if len(kinds) == 1:
            return np.full(len(events), next(iter(kinds.values())), np.uint8)
        return np.fromiter((kinds[type(e)] for e in events), np.uint8, len(events))

    def _arguments(self, family: Family, args: list[Any]) -> dict[str, np.ndarray]:
        """The columns that come from the arguments of a family's events."""
        if OldOpArgs in set(map(type, args)):
            for a in args:
                if type(a) is OldOpArgs:
                    a.renew()
        columns = {name: self._ids(list(map(attrgetter(name), args))) for name in _ID_ARGUMENTS[family]}
        if family is Family.gpu:
            original = self._ids([a.original_stream for a in args])
            columns["stream"] = np.where(original != -1, original, columns["stream"])
        if family in (Family.gpu, Family.memory):
            columns["bytes"] = _numbers([a.bytes for a in args], _byte_count)
        if family is Family.op:
            # JSON has no bare control characters, so joined parts cannot be mistaken for others.
            keys = [b"\x1f".join((a.dims, a.types, a.strides, a.concrete, a.instruction)) for a in args]
            columns["argset"] = np.fromiter(map(self.out.argsets.__getitem__, keys), np.int32, len(args))
        return columns

    def _times(self, values: list[Any]) -> Ns:
        return digits_to_ns(values) if self._records.exact else floats_to_ns(as_floats(values))

    def _durations(self, values: list[Any], family: Family) -> tuple[Ns, np.ndarray]:
        """Durations in ns, with absent and negative ones set to zero and flagged; UNREADABLE_NS where out of range."""
        flags = np.zeros(len(values), np.uint8)
        if self._records.exact:
            absent = np.fromiter((not len(memoryview(v)) for v in values), bool, len(values))
            dur = digits_to_ns([Raw(b"0") if gone else v for v, gone in zip(values, absent.tolist(), strict=True)])
        else:
            lasted = as_floats(values)
            # A record without a duration holds NaN, which no number in JSON is.
            absent = np.isnan(lasted)
            dur = floats_to_ns(np.where(absent, 0.0, lasted) if absent.any() else lasted)
        if family not in _NO_DURATION_IS_FINE and absent.any():
            flags[absent] |= Flag.no_duration.value
        if len(dur) and (dur.min() < 0 or dur.max() > LONGEST_NS):
            beyond, negative = np.abs(dur) > LONGEST_NS, dur < 0
            flags[negative] |= Flag.negative_duration.value
            dur = np.where(beyond | (dur == UNREADABLE_NS), UNREADABLE_NS, np.maximum(dur, 0))
        return dur, flags

    def _ids(self, values: list[Any]) -> np.ndarray:
        """Ids as int64; -1 for none; ids that are text or too large get codes that stand for them."""
        return _numbers(values, self._odd_id)

    def _odd_id(self, value: Any) -> int:
        if value is None or value == "":
            return -1
        if isinstance(value, str):
            try:
                value = int(value)
            except ValueError:
                return _FIRST_HUGE - self.out.odd_ids[value]
        return value if -(2**61) < value < 2**63 else _FIRST_HUGE - self.out.odd_ids[value]


def _context_event(event: dict[str, Any]) -> list[dict[str, Any]]:
    """The metadata event if it names a process or thread, with no more than that takes."""
    args = event.get("args")
    if event.get("name") not in _CONTEXT or not isinstance(args, dict):
        return []
    place = {key: value if isinstance(value := event.get(key), int | str) else str(value) for key in ("pid", "tid")}
    return [{"name": event["name"], "args": {"name": str(args.get("name", args.get("labels", "")))}, **place}]


def _is_given(value: Any) -> bool:
    """Whether a time, as digits or as a number, was in the file."""
    return len(memoryview(value)) > 0 if isinstance(value, Raw) else value == value


def _numbers(values: list[Any], odd: Callable[[Any], int]) -> np.ndarray:
    """Numbers as int64; where one is none, all as `odd` reads them."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(odd, values), np.int64, len(values))


def _byte_count(value: Any) -> int:
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        return -(2**63)
    return count if abs(count) < 2**63 else -(2**63)


def _tidied(event: dict[str, Any]) -> dict[str, Any]:
    """The event with fields of unexpected types brought to the types of the records, where that is safe."""
    tidy: dict[str, Any] = {key: event[key] for key in ("cat", "ph", "id", "ts") if key in event}
    name = event.get("name", "")
    tidy["name"] = name if isinstance(name, str) else str(name)
    for key in ("pid", "tid"):
        value = event.get(key, "")
        tidy[key] = value if isinstance(value, int | str) and not isinstance(value, bool) else str(value)
    if event.get("dur") not in (None, ""):
        tidy["dur"] = event["dur"]
    args = event.get("args")
    tidy["args"] = {key: _tidied_arg(value, key) for key, value in args.items()} if isinstance(args, dict) else {}
    return tidy


def _tidied_arg(value: Any, key: str) -> Any:
    """A number for an id or a size where the file has something else, and no integer beyond 64 bits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if key.lower().endswith(_NUMERIC) and not isinstance(value, int | str | type(None)):
        return int(value) if isinstance(value, float) and value.is_integer() else str(value)
    return value
