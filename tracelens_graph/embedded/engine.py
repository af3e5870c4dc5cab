"""The embedded engine: how it is opened, its limits, its errors in one line, and its values as tables hold them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tracelens_graph.embedded.labels import EVENTS, HEAT_COLUMN
from tracelens_graph.embedded.patterns import LONGEST_PATH
from tracelens_graph.embedded.tables import NUMBER
from tracelens_graph.embedded.translation import Translated
from tracelens_graph.errors import DatabaseError, MissingExtraError
from tracelens_graph.schema import GPU_KINDS
from tracelens_graph.schema.database import EVENT, GPU_EVENT

if TYPE_CHECKING:
    import pandas as pd

MEMORY_BYTES = 1024**3
"""Memory of the engine beside what it returns."""

GRACE_S = 0.5
"""How long the engine may need to notice that a statement is given up: it does not while it plans."""

MOST_ROWS = 1_000_000
"""Rows of an answer that are taken."""

_PLACE = re.compile(r"\(line: 1, offset: (\d+)\)")
_REFUSALS = (
    (r"built-in function for given function (\S+?)\((.*?)\)\.", "{0}",
     "{0} does not take {1} here; toString() and toInteger() make one of the other"),
    (r"Function (\S+) did not receive correct", "{0}", "{0} does not take such values"),
    (r"Cast failed\. (?:Could not convert )?(.*?) (?:is not in|to) ", "",
     "{0} is no number; Neo4j alone has null there"),
    (r"Divide by zero", "/", "division by zero"),
    (r"Modulo by zero", "%", "division by zero"),
    (r"Overflow exception", "", "a number is beyond 64 bits"),
)  # fmt: skip
"""What the engine says, what stands in the statement there if once, and what it means to whoever wrote that."""
_UNKNOWN_PROPERTY = re.compile(r"Cannot find property (\S+) for (\S+?)\.")
_GPU = [kind.name for kind in GPU_KINDS]


def _ladybug() -> Any:
    try:
        import ladybug
    except ImportError:
        raise MissingExtraError("ladybug", "cypher") from None
    return ladybug


def version() -> str:
    """Version of the engine.

    Raises:
        MissingExtraError: it is not installed.
    """
    found: str = _ladybug().__version__
    return found


class Engine:
    """A database of the engine, open until the end of a `with`.

    Attributes:
        path: its file.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self._is_lost = False
        ladybug = _ladybug()
        try:
            self._database = ladybug.Database(str(path), buffer_pool_size=MEMORY_BYTES, read_only=read_only)
            self._connection = ladybug.Connection(self._database)
        except RuntimeError as error:
            raise DatabaseError(f"{path}: the engine cannot open it: {_first_line(error)}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_lost:
            self._connection.close()
            self._database.close()

    def run(self, statement: str) -> None:
        """Run a statement of ours."""
        self._connection.execute(statement)

    def copy(self, table: str, frame: pd.DataFrame, options: str = "") -> None:
        """Write the rows of a frame into a table: of nodes by names of columns, of edges, with options, in order."""
        names = ", ".join(f"`{name}`" for name in frame.columns)
        listed = "" if options else f"({names})"
        self._connection.execute(f"COPY `{table}`{listed} FROM $frame {options}", {"frame": frame})

    def answer(
        self, asked: Translated, parameters: Mapping[str, Any], timeout_s: float
    ) -> tuple[list[str], list[list[Any]], int]:
        """The answer to a statement of the user's: names of columns, rows, and how many there would be.

        Raises:
            DatabaseError: the engine refuses, in one line with the place in the text; time or memory is over.
        """
        given = {name: parameters[name] for name in asked.parameters if parameters[name] is not None}
        self._connection.execute(f"CALL var_length_extend_max_depth={LONGEST_PATH}")
        self._connection.set_query_timeout(max(1, round(timeout_s * 1000)))
        found: list[Any] = []
        worker = Thread(target=self._work, args=(asked.text, given, found), daemon=True)
        worker.start()
        try:
            worker.join(timeout_s + GRACE_S)
        finally:
            if worker.is_alive():
                with suppress(RuntimeError):
                    self._connection.interrupt()
                worker.join(GRACE_S)
                self._is_lost = worker.is_alive()
        if self._is_lost:
            raise DatabaseError(f"it took longer than {timeout_s:g} s, and was given up")
        if isinstance(found[0], BaseException):
            raise _in_words(found[0], asked, timeout_s) from None
        result = found[0]
        total = int(result.get_num_tuples())
        names = asked.columns or result.get_column_names()
        rows = [[plain(value) for value in result.get_next()] for _ in range(min(total, MOST_ROWS))]
        return names, rows, total

    def _work(self, text: str, parameters: Mapping[str, Any], found: list[Any]) -> None:
        try:
            found.append(self._connection.execute(text, dict(parameters)))
        except BaseException as error:
            found.append(error)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]


def _in_words(error: BaseException, asked: Translated, timeout_s: float) -> BaseException:
    """What the engine says, in one line, with the place in the user's own text."""
    if not isinstance(error, (RuntimeError, ValueError, TypeError)):
        return error
    line = _first_line(error)
    if line.startswith("Interrupted"):
        return DatabaseError(f"it took longer than {timeout_s:g} s, and was given up")
    if line.startswith("Buffer manager exception"):
        return DatabaseError(f"it needs more than the {MEMORY_BYTES / 1024**2:,.0f} MB that it may take")
    if place := _PLACE.search(line):
        return DatabaseError(
            f"{asked.place(int(place[1]))}: here the engine cannot read on: the statement is cut short, or needs Neo4j"
        )
    if unknown := _UNKNOWN_PROPERTY.search(line):
        from tracelens_graph.embedded.labels import LABELS, properties_of
        from tracelens_graph.utils.suggest import did_you_mean

        meant = did_you_mean(unknown[1], {prop.name for label in LABELS for prop in properties_of(label)}, cutoff=0.75)
        return DatabaseError(f"{unknown[2]} has no property {unknown[1]}" + (f"; {meant}" if meant else ""))
    for pattern, sign, words in _REFUSALS:
        if refused := re.search(pattern, line):
            return DatabaseError(asked.placed(sign.format(*refused.groups()), words.format(*refused.groups())))
    return DatabaseError(f"the engine refuses: {line.partition(' exception: ')[2] or line}")


def plain(value: Any) -> Any:
    """A value that every table can hold: nodes and edges as dictionaries, a path as a list of its nodes."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)
    if "_NODES" in value:
        nodes, edges = value["_NODES"], value["_RELS"]
        return [plain(one) for one in (nodes if len(nodes) > len(edges) else edges)]
    if value.keys() == {"offset", "table"}:
        return f"{value['table']}:{value['offset']}"
    label = value.get("_LABEL")
    facts = {
        name: plain(one) for name, one in value.items() if not _is_inner(name) and (label is None or one is not None)
    }
    if label is None:
        return facts
    return (
        {"type": label, **facts} if "_SRC" in value else {"labels": labels_of(label, value.get(HEAT_COLUMN)), **facts}
    )


def labels_of(label: str, heat: str | None) -> list[str]:
    """All labels that Neo4j gives a node of a table, the one that says what it is first."""
    shared = [*([EVENT] if label in EVENTS else []), *([GPU_EVENT] if label in _GPU else []), *([heat] if heat else [])]
    return [label, *shared]


def _is_inner(name: str) -> bool:
    return name in ("_ID", "_LABEL", "_SRC", "_DST", NUMBER, HEAT_COLUMN)


def names_in(columns: Sequence[str]) -> list[str]:
    """Names of columns, each once: a table has no two of one name."""
    found: list[str] = []
    for name in columns:
        number = 2
        one = name
        while one in found:
            one, number = f"{name} ({number})", number + 1
        found.append(one)
    return found
