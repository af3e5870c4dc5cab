"""Graphs as files for `neo4j-admin database import full`, which fills a new database while its server is stopped.

The files hold what a push writes: the same nodes with the same labels and properties, and the same edges. Nodes are
numbered as they come; a node that several traces share is written once, with all that any of them knows of it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import numpy as np

from tracelens_graph.db.connection import DEFAULT_DATABASE
from tracelens_graph.db.image import Edges, Nodes, TraceImage
from tracelens_graph.db.labels import stored
from tracelens_graph.db.statements import schema
from tracelens_graph.errors import OutputError
from tracelens_graph.graph.arrays import distinct_pairs
from tracelens_graph.output.files import unwritable
from tracelens_graph.output.folder import writing_folder
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, EVENT, EVENT_PROPERTIES, KEYS
from tracelens_graph.schema.stored import Stored, Type
from tracelens_graph.stores.frames import Texts
from tracelens_graph.utils.arrays import Rows

ARGUMENTS, SCHEMA, README = "import.args", "schema.cypher", "README.txt"

ROWS_AT_ONCE = 10_000

_IMPORT = f"database import full @{ARGUMENTS} --overwrite-destination"
_BETWEEN, _BETWEEN_NAME = "\x1f", "U+001F"
"""What stands between the entries of a list, and how neo4j-admin calls it."""

_TYPES: Mapping[Type, str] = {"int": "long", "float": "double", "bool": "boolean", "str": "string", "strs": "string[]"}
_LONGEST = 1_000_000
"""Characters of a field that neo4j-admin has room for without being asked, however long they are in UTF-8."""

_ABOUT = f"""\
Graphs of traces, as files for the importer of Neo4j 5; written by tracelens_graph.

Into a server of `tracelens-graph db start`, FOLDER being this folder:

     tracelens-graph db import FOLDER

It stops the server, imports, starts it again, and makes constraints and indexes.

Into another server:

1. Stop it. What its database holds is deleted.
2. In this folder:

     neo4j-admin {_IMPORT}

3. Start it and run {SCHEMA} (drop it into Neo4j Browser, or cypher-shell -f {SCHEMA}): it makes constraints and
   indexes. `tracelens-graph db push` makes them, too.
"""


@dataclass(frozen=True)
class Exported:
    """What an export wrote.

    Attributes:
        folder: where to.
        traces, nodes, edges: how many.
        size: bytes of all files.
    """

    folder: Path
    traces: int
    nodes: int
    edges: int
    size: int

    @property
    def command(self) -> str:
        """What imports it, in a shell."""
        return f"cd {shlex.quote(str(self.folder))} && neo4j-admin {_IMPORT}"


class BulkExport:
    """Writes the files of an import, one trace after the other. `import.args` comes last, when all is whole.

    >>> with BulkExport(folder) as export:
    ...     export.add(image)
    >>> export.done.command

    In memory are the image of one trace, and the nodes that are no events of all traces.

    Attributes:
        done: what was written, once the block has ended well.

    Raises:
        OutputError: the folder holds something already, or cannot be written.
    """

    done: Exported

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._fields = _Fields()
        self._files: dict[tuple[str, tuple[Stored, ...]], TextIO] = {}
        self._options: list[str] = []
        self._context: dict[tuple[str, str, str], tuple[int, dict[str, Any]]] = {}
        self._joined: set[tuple[Any, ...]] = set()
        self._paths: set[str] = set()
        self._nodes = self._edges = 0

    def __enter__(self) -> Self:
        self._output = self._stack.enter_context(writing_folder(self._folder, new=True))
        self._stack.push(self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _end(self, kind: object, *_: object) -> None:
        """Write what comes last, unless something failed, and close the files."""
        try:
            if kind is None:
                self._finish()
        except OSError as error:
            raise unwritable(self._folder, error) from None
        finally:
            for file in self._files.values():
                with suppress(OSError):  # of a full disk, which was noticed before
                    file.close()

    def add(self, image: TraceImage, progress: Callable[[int, int], None] | None = None) -> None:
        """Write a trace.

        Args:
            image: the graph.
            progress: called with rows written and rows in all.

        Raises:
            OutputError: the same trace, or another one of its name, was added before; or a file cannot be written.
        """
        trace = image.properties
        if ("Trace", "", trace["id"]) in self._context or trace["path"] in self._paths:
            raise OutputError(f"{trace['path']}: the same trace, or one of this name, is in the export already")
        self._paths.add(trace["path"])
        try:
            self._add(image, progress or (lambda done, size: None))
        except OSError as error:
            raise unwritable(self._folder, error) from None

    def _add(self, image: TraceImage, progress: Callable[[int, int], None]) -> None:
        now, done, uids = time.time_ns(), 0, [np.zeros(0, np.int64)]
        scopes = {"trace": image.properties["id"], "run": image.properties["run"], "": ""}
        self._merge("Trace", scopes, {**image.properties, "state": "complete", "begun_ns": now, "pushed_ns": now})
        for nodes in image.nodes:
            if nodes.labels[0] != EVENT:
                names = [prop.name for prop in nodes.properties]
                for row in nodes.rows(0, len(nodes)):
                    self._merge(nodes.labels[0], scopes, dict(zip(names, row, strict=True)))
                progress(done := done + len(nodes), image.size)
        first = self._nodes
        for nodes in image.nodes:
            if nodes.labels[0] == EVENT:
                uids.append(np.asarray(nodes.columns[0]))
                for low in range(0, len(nodes), ROWS_AT_ONCE):
                    self._write_events(nodes, scopes["trace"], low)
                    progress(done := done + min(ROWS_AT_ONCE, len(nodes) - low), image.size)
        self._fields.forget()
        numbers = _Numbers(np.concatenate(uids), first)
        for edges in image.edges:
            self._write_edges(edges, scopes, numbers)
            progress(done := done + len(edges), image.size)

    def _merge(self, label: str, scopes: Mapping[str, str], values: Mapping[str, Any]) -> None:
        """Add what a trace knows of a node that is not an event; what it does not know stays, as in a push."""
        key = KEYS[label]
        identity = (label, scopes[key.scope], values[key.name])
        if identity not in self._context:
            self._context[identity] = self._nodes, {key.scope: scopes[key.scope]} if key.scope else {}
            self._nodes += 1
        self._context[identity][1].update((name, value) for name, value in values.items() if value is not None)

    def _write_events(self, nodes: Nodes, trace: str, low: int) -> None:
        high = min(low + ROWS_AT_ONCE, len(nodes))
        there = dict(zip((prop.name for prop in nodes.properties), nodes.columns, strict=True))
        fields: list[Iterable[str]] = [map(str, range(self._nodes, self._nodes + high - low))]
        fields.append([self._fields.text(trace)] * (high - low))
        for prop in EVENT_PROPERTIES:
            column = there.get(prop.name)
            fields.append([""] * (high - low) if column is None else self._fields.of(prop, column[low:high]))
        file = self._file("nodes", nodes.labels, (Stored("trace", "str", ""), *EVENT_PROPERTIES))
        file.writelines(f"{row}\n" for row in map(",".join, zip(*fields, strict=True)))
        self._nodes += high - low

    def _write_edges(self, edges: Edges, scopes: Mapping[str, str], numbers: _Numbers) -> None:
        ends = []
        for label, keys in zip((edges.source, edges.target), edges.columns[:2], strict=True):
            if label == EVENT:
                ends.append(numbers.of(np.asarray(keys)))
            else:
                scope = scopes[KEYS[label].scope]
                found = (self._context[label, scope, key][0] for key in keys)
                ends.append(np.fromiter(found, np.int64, len(keys)))
        if not edges.properties:
            ends = list(distinct_pairs(*ends))
        columns = edges.columns[2:]
        if EVENT not in (edges.source, edges.target):  # then another trace may have had the same
            pairs = [(edges.type, *pair) for pair in zip(*(side.tolist() for side in ends), strict=True)]
            new = np.array([pair not in self._joined for pair in pairs], bool)
            ends = [side[new] for side in ends]
            columns = tuple(list(compress(column, new.tolist())) for column in columns)
            self._joined.update(pairs)
        file = self._file("relationships", (edges.type,), edges.properties)
        for low in range(0, len(ends[0]), ROWS_AT_ONCE):
            rows = slice(low, low + ROWS_AT_ONCE)
            fields: list[Iterable[str]] = [map(str, side[rows].tolist()) for side in ends]
            for prop, column in zip(edges.properties, columns, strict=True):
                fields.append(self._fields.of(prop, column[rows]))
            file.writelines(f"{row}\n" for row in map(",".join, zip(*fields, strict=True)))
        self._edges += len(ends[0])

    def _finish(self) -> None:
        for (label, *_), (number, values) in self._context.items():
            key = KEYS[label]
            described = CONTEXT_PROPERTIES[label] + stored(values)
            keys = [Stored(name, "str", "") for name in (key.scope, key.name) if name]
            props = (*(prop for prop in keys if prop.name not in {one.name for one in described}), *described)
            row = [self._fields.of(prop, [values.get(prop.name)])[0] for prop in props]
            self._file("nodes", (label,), props).write(f"{number},{','.join(row)}\n")
        for file in self._files.values():
            file.close()
        statements = [f"{statement};\n" for statement in schema().values()]
        self._write(SCHEMA, "".join(statements))
        self._write(README, _ABOUT)
        # The name of the database comes first: behind a list of files it would be one of them.
        options = [DEFAULT_DATABASE, "--id-type=integer", f"--array-delimiter={_BETWEEN_NAME}", "--bad-tolerance=0"]
        if self._fields.has_breaks:
            options.append("--multiline-fields=true")
        if self._fields.longest > _LONGEST:
            options.append(f"--read-buffer-size={4 * self._fields.longest + 1024}")
        self._write(ARGUMENTS, "\n".join((*options, *self._options, "")))
        size = sum(path.stat().st_size for path in self._output.staged.iterdir())
        self.done = Exported(self._folder, len(self._paths), self._nodes, self._edges, size)

    def _file(self, what: str, labels: Sequence[str], properties: tuple[Stored, ...]) -> TextIO:
        """The file of nodes with these labels, or of edges of this type; its header is a file of its own."""
        key = ("-".join(labels), properties)
        if key not in self._files:
            same = sum(name == key[0] for name, _ in self._files)  # what users call properties differs
            name = f"{key[0]}-{same + 1}" if same else key[0]
            ends = ":ID" if what == "nodes" else ":START_ID,:END_ID"
            header = ",".join((ends, *(f"{prop.name}:{_TYPES[prop.type]}" for prop in properties)))
            self._write(f"{name}.header.csv", f"{header}\n")
            self._files[key] = self._output.open_text(f"{name}.csv")
            self._options.append(f"--{what}={':'.join(labels)}={name}.header.csv,{name}.csv")
        return self._files[key]

    def _write(self, name: str, text: str) -> None:
        with self._output.open_text(name) as file:
            file.write(text)


class _Numbers:
    """Numbers of the events of a trace by uid."""

    def __init__(self, uids: Rows, first: int) -> None:
        self._order = np.argsort(uids)
        self._uids = uids[self._order]
        self._first = first

    def of(self, uids: Rows) -> np.ndarray:
        return self._first + self._order[np.searchsorted(self._uids, uids)]


class _Fields:
    """Values as fields of a CSV file; absent ones are empty, an empty text is quoted.

    Attributes:
        longest: characters of the longest field.
        has_breaks: whether some text holds a line break.
    """

    def __init__(self) -> None:
        self.longest = 0
        self.has_breaks = False
        self._known: dict[int, tuple[Sequence[str], list[str]]] = {}
        self._writers: Mapping[Type, Callable[[Any], str]] = {
            "str": self.text, "strs": self._list, "int": str, "bool": lambda one: "true" if one else "false",
            # As Java reads it.
            "float": lambda one: repr(float(one)).replace("inf", "Infinity").replace("nan", "NaN"),
        }  # fmt: skip

    def forget(self) -> None:
        """Let go of the texts of a trace."""
        self._known.clear()

    def of(self, prop: Stored, column: Any) -> list[str]:
        """The fields of a column, or of a list of values."""
        if isinstance(column, Texts):
            return list(map(self._quoted(column.texts).__getitem__, column.codes.tolist()))
        values = column if isinstance(column, list) else column.tolist()
        write = self._writers[prop.type]
        return ["" if value is None else write(value) for value in values]

    def text(self, text: str) -> str:
        """A text in quotes, those in it doubled."""
        self.longest = max(self.longest, len(text))
        self.has_breaks = self.has_breaks or "\n" in text or "\r" in text
        return '"' + text.replace('"', '""') + '"'

    def _list(self, texts: Sequence[str]) -> str:
        return self.text(_BETWEEN.join(texts))

    def _quoted(self, texts: Sequence[str]) -> list[str]:
        """Texts in quotes, and at the end, for code -1, none; each column's once."""
        if id(texts) not in self._known:
            self._known[id(texts)] = texts, [*map(self.text, texts), ""]
        return self._known[id(texts)][1]
