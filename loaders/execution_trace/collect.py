"""From chunks of JSON to columns of nodes: the first pass over an execution trace."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter, mul
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from tracelens_graph.execution.sides import NO_FORM, Sides
from tracelens_graph.graph.info import NOT_A_NODE
from tracelens_graph.loaders.execution_trace.records import FACTS, SCHEMA, OldNode, decoders
from tracelens_graph.loaders.execution_trace.repair import repair_nodes
from tracelens_graph.utils.arrays import Numbering

NO_PARENT = -1
_ODD_ID = 2**62
"""Ids that are no numbers of 62 bits get codes from here upwards, so that they stand behind all others."""
_MOST_KINDS = 256
"""Further attributes that are learned."""

_RAW_LIST = msgspec.json.Decoder(list[Raw])
_ANY = msgspec.json.Decoder()
_KEYS = msgspec.json.Decoder(dict[str, Raw])
_ATTRIBUTE = re.compile(rb'\{\s*"name"\s*:\s*"(\w{1,64})"\s*,\s*"type"\s*:')
_PARTS = ("shapes", "types", "strides")
_SIDE = attrgetter("values", *_PARTS)
_OLD_INPUTS, _OLD_OUTPUTS = (
    attrgetter(f"{side}s", *(f"{side}_{part}" for part in _PARTS)) for side in ("input", "output")
)
_NO_ARGUMENTS = (b"", b"null", b"[]")
_ABSENT = ("", 0, None)
"""Values of further attributes that say nothing."""
_OWN = frozenset(("ctrl_deps", "parent", "inputs", "outputs", "attrs", "rf_id", "op_schema"))
"""An entry that is a node has at least one of these keys."""
_DIGITS = re.compile(r"-?\d{1,18}")


class _SideCollector:
    """Arguments on one side, as the columns of `Sides`."""

    def __init__(self, forms: Numbering, repairs: Counter[str]) -> None:
        self._forms, self._repairs = forms, repairs
        self._form: array[int] = array("i")
        self._length: array[int] = array("q")
        self._texts: list[bytes] = []

    def add(self, read: Iterable[tuple[Raw, Raw, Raw, Raw]]) -> None:
        """Append sides: values, shapes, types and strides."""
        sides = list(read)
        texts = [bytes(values) for values, _, _, _ in sides]
        given = [text[:1] == b"[" and text != b"[]" for text in texts]
        if bad := given.count(False) - sum(map(texts.count, _NO_ARGUMENTS)):
            self._repairs["bad_arguments"] += bad
        self._form.extend([
            self._forms[bytes(shapes), bytes(types), bytes(strides)] if has_values else 0
            for (_, shapes, types, strides), has_values in zip(sides, given, strict=True)
        ])  # fmt: skip
        texts = list(map(mul, texts, given))
        self._length.extend(map(len, texts))
        self._texts.append(b"".join(texts))

    def sides(self) -> Sides:
        """All of them, once the trace is read."""
        end = np.cumsum(np.frombuffer(self._length, np.int64))
        text = np.frombuffer(b"".join(self._texts), np.uint8)
        self._texts = []
        return Sides(
            list(self._forms), np.frombuffer(self._form, np.int32), text, end - np.frombuffer(self._length, np.int64),
            end,
        )  # fmt: skip


class NodeCollector:
    """Takes chunks in file order and keeps what is in their nodes. Feed it through `Walker.walk`.

    Attributes:
        entries: number of entries of the list, lost ones included.
        place, id, parent: of each node that was read, in file order; ids as `number_of_id` gives them.
        facts: name of a fact -> numbers.
        name, schema: codes into names and schemas.
        names, schemas: tables of texts.
        inputs, outputs: arguments.
        more: (place of the node among those read, name, value) of further attributes.
        odd_ids: ids that are no numbers of 62 bits -> their place among these.
        left_out: why -> number of entries that are not nodes.
        repairs: fault -> number of nodes with it.
        lost_nodes, lost_bytes: what could not be read.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all that was taken."""
        self.entries = 0
        self.place, self.id, self.parent = (array("q") for _ in range(3))
        self.facts: dict[str, array[int]] = {name: array("q") for name in FACTS}
        self.name: array[int] = array("i")
        self.schema: array[int] = array("i")
        self.names, self.schemas = Numbering(), Numbering({"": 0})
        forms = Numbering({NO_FORM: 0})
        self.repairs: Counter[str] = Counter()
        self.inputs, self.outputs = (_SideCollector(forms, self.repairs) for _ in range(2))
        self.more: list[tuple[int, str, Any]] = []
        self.odd_ids = Numbering()
        self.left_out: Counter[str] = Counter()
        self.lost_nodes = self.lost_bytes = 0
        self._known: frozenset[str] = frozenset()
        self._is_old = False

    def chunk(self, text: memoryview, offset: int) -> None:
        """Take one chunk `[node, ...]`; raises what msgspec raises where it is no JSON."""
        str(text, "utf-8")  # msgspec does not look into what it skips
        nodes = self._typed(text)
        if nodes is None:
            self._one_by_one(_RAW_LIST.decode(text))
        else:
            self._take(nodes)

    def broken(self, text: bytes, offset: int, last: bool) -> bytes | None:
        """Take what can be saved of a stretch that is no JSON, and count what cannot."""
        repaired = repair_nodes(text, last=last)
        self._one_by_one([None if one is None else Raw(one) for one in repaired.nodes])
        self.repairs.update(repaired.counts)
        self.lost_bytes += repaired.lost_bytes
        return repaired.tail

    def _typed(self, text: memoryview | bytes) -> list[Any] | None:
        """The nodes of a chunk as records; None if they fit none."""
        for _ in range(2):
            known = decoders(self._known)
            for is_old in (self._is_old, not self._is_old):
                try:
                    nodes: list[Any] = (known.old if is_old else known.new).decode(text)
                except (msgspec.ValidationError, RecursionError):
                    continue
                self._is_old = is_old
                return nodes
            if not self._learn(bytes(text)):
                break
        return None

    def _learn(self, text: bytes) -> bool:
        """Take in names of attributes that are not known; whether there are any."""
        found = {name.decode() for name in set(_ATTRIBUTE.findall(text))} - self._known - {*FACTS, SCHEMA}
        found -= set(decoders(self._known).attributes.values())
        if not found or len(self._known) + len(found) > _MOST_KINDS:
            return False
        self._known |= found
        return True

    def _take(self, nodes: list[Any]) -> None:
        """Spread the records of a chunk over the columns."""
        if not nodes:
            return
        first = len(self.id)
        self.place.extend(range(self.entries, self.entries + len(nodes)))
        self.entries += len(nodes)
        self.id += self._ids([node.id for node in nodes])
        self.name.extend([self.names[node.name] for node in nodes])
        if isinstance(nodes[0], OldNode):
            self.parent += self._ids([node.parent for node in nodes])
            for name, column in self.facts.items():
                column += self._numbers([getattr(node, name) for node in nodes], FACTS[name])
            self.schema.extend([self.schemas[node.op_schema] for node in nodes])
            self.inputs.add(map(_OLD_INPUTS, nodes))
            self.outputs.add(map(_OLD_OUTPUTS, nodes))
            return
        self.parent += self._ids([node.ctrl_deps for node in nodes])
        self.inputs.add(map(_SIDE, [node.inputs for node in nodes]))
        self.outputs.add(map(_SIDE, [node.outputs for node in nodes]))
        self._take_attributes(first, [node.attrs for node in nodes])

    def _take_attributes(self, first: int, lists: list[list[Any]]) -> None:
        """The facts of nodes, which stand in lists of attributes; mostly in one order."""
        classes = decoders(self._known).attributes
        kinds, flat = list(map(type, lists[0])), list(chain.from_iterable(lists))
        columns: dict[str, list[Any]] = {}
        if len(set(kinds)) == len(kinds) and list(map(type, flat)) == kinds * len(lists):
            given = [one.value for one in flat]
            columns = {classes[kind]: given[place :: len(kinds)] for place, kind in enumerate(kinds)}
        else:
            for place, one in enumerate(lists):
                for attribute in one:
                    name = classes[type(attribute)]
                    if name not in columns:
                        columns[name] = [FACTS.get(name, "")] * len(lists)
                    columns[name][place] = attribute.value
        for name, absent in FACTS.items():
            self.facts[name] += self._numbers(columns.pop(name, []) or [absent] * len(lists), absent)
        self.schema.extend([self.schemas[text] for text in columns.pop(SCHEMA, []) or [""] * len(lists)])
        for name, values in columns.items():
            if values.count("") < len(values):
                self.more += [(first + at, name, value) for at, value in enumerate(values) if value not in _ABSENT]

    def _numbers(self, values: list[int], absent: int) -> array[int]:
        """Numbers as a column; those that it cannot hold are counted, and taken for absent."""
        try:
            return array("q", values)
        except OverflowError:
            fits = [-(2**63) <= value < 2**63 for value in values]
            self.repairs["bad_value"] += fits.count(False)
            return array("q", [value if fit else absent for value, fit in zip(values, fits, strict=True)])

    def _ids(self, values: list[int]) -> array[int]:
        """Ids as numbers; those that no column holds get codes."""
        if not (values and min(values) > -_ODD_ID and max(values) < _ODD_ID):
            values = [value if -_ODD_ID < value < _ODD_ID else self._odd_id(value) for value in values]
        return array("q", values)

    def _odd_id(self, given: Any) -> int:
        return _ODD_ID + self.odd_ids[str(given)]

    def _one_by_one(self, raws: Sequence[Raw | None]) -> None:
        """Take entries where some fit no record; None is one that is lost."""
        for raw in raws:
            node = None if raw is None else self._typed(b"[" + bytes(raw) + b"]")
            if node is not None:
                self._take(node)
                continue
            if raw is None:
                self.lost_nodes += 1
            elif not self._take_odd(raw):
                self.left_out[NOT_A_NODE] += 1
            else:
                continue
            self.entries += 1

    def _take_odd(self, raw: Raw) -> bool:
        """Take a node with fields of unexpected types, or with fields missing; whether it is one at all."""
        try:
            keys = _KEYS.decode(raw)
            given = {key: _ANY.decode(value) for key, value in keys.items() if key not in ("inputs", "outputs")}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if given.get("id") is None or isinstance(given["id"], bool | list | dict) or _OWN.isdisjoint(keys):
            return False
        facts, further = dict(FACTS), {}
        attributes = given.get("attrs")
        if not isinstance(attributes, list | None):
            self.repairs["bad_value"] += 1
        for one in attributes if isinstance(attributes, list) else ():
            if isinstance(one, dict) and isinstance(one.get("name"), str):
                further[one["name"]] = one.get("value")
        further = {**{key: given[key] for key in (*FACTS, SCHEMA) if key in given}, **further}
        for key, absent in facts.items():
            if key in further:
                facts[key] = self._number(further.pop(key), absent)
        schema = further.pop(SCHEMA, "")
        parent = given.get("ctrl_deps", given.get("parent"))
        if isinstance(parent, list):
            parent = parent[0] if parent else None
        name = given.get("name", "")
        self.more += [(len(self.id), key, value) for key, value in further.items() if value not in _ABSENT]
        self.place.append(self.entries)
        self.entries += 1
        self.id.append(self._id_of(given["id"]))
        self.parent.append(NO_PARENT if parent is None else self._id_of(parent))
        for key, value in facts.items():
            self.facts[key].append(value)
        self.name.append(self.names[name if isinstance(name, str) else str(name)])
        self.schema.append(self.schemas[schema if isinstance(schema, str) else ""])
        self.inputs.add([_odd_side(keys, "inputs", "input")])
        self.outputs.add([_odd_side(keys, "outputs", "output")])
        return True

    def _id_of(self, given: Any) -> int:
        is_digits = isinstance(given, str) and _DIGITS.fullmatch(given)
        if is_digits or (isinstance(given, float) and given.is_integer() and abs(given) < 2**53):
            given = int(given)
        if type(given) is int and -_ODD_ID < given < _ODD_ID:
            return given
        return self._odd_id(given)

    def _number(self, given: Any, absent: int) -> int:
        if isinstance(given, str) and _DIGITS.fullmatch(given):
            return int(given)
        if isinstance(given, int | float) and abs(given) < _ODD_ID and given == int(given):
            return int(given)
        self.repairs["bad_value"] += 1
        return absent


def _odd_side(keys: dict[str, Raw], whole: str, part: str) -> tuple[Raw, Raw, Raw, Raw]:
    """One side of a node that fits no record."""
    given = keys.get(whole, Raw())
    try:
        inside = _KEYS.decode(given)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        inside = {"values": given, **{one: keys.get(f"{part}_{one}", Raw()) for one in _PARTS}}
    values, shapes, types, strides = (inside.get(one, Raw()) for one in ("values", *_PARTS))
    return values, shapes, types, strides
