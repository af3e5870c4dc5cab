"""Graphs for other programs: GraphML, Parquet, CSV."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO
from xml.sax.saxutils import escape

import numpy as np

from tracelens_graph.errors import MissingExtraError, OutputError
from tracelens_graph.graph.arguments import ARGSET_PARTS, INSTRUCTION
from tracelens_graph.graph.core import Core
from tracelens_graph.output.files import COMMENT, GENERATOR, is_stdout, replacing
from tracelens_graph.output.folder import writing_folder
from tracelens_graph.schema import FLAG_MEANING, Flag
from tracelens_graph.stores.frames import Frame, Texts, edge_columns, node_columns, recorded_columns
from tracelens_graph.utils.suggest import did_you_mean, there_are

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ROWS_AT_ONCE = 8192


def write_graphml(core: Core, file: BinaryIO) -> int:
    """Write all event nodes and edges.

    A node's id is its uid. Absent values are left out, lists are JSON text. Each edge has its type twice: as
    `key`, which networkx takes for the key of the edge, and as `label`, which graph viewers show.

    Returns:
        How many characters that XML cannot hold were replaced by U+FFFD.
    """
    nodes, edges = _attributes(core), edge_columns(core)
    ends = [edges["source"], edges["target"]]
    types: Frame = {"key": edges["type"], "label": edges["type"]}
    numbers = [
        name for place, name in enumerate(("pid", "tid")) if all(map(_is_long, (t[place] for t in core.threads)))
    ]
    file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n' + COMMENT.encode())
    file.write(b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
    file.write("".join([*_keys("node", nodes, numbers), *_keys("edge", types)]).encode())
    file.write(b'<graph edgedefault="directed">\n')
    replaced = _elements(file, '<node id="%d">', [core.columns.uid], nodes, "</node>\n")
    replaced += _elements(file, '<edge source="%d" target="%d">', ends, types, "</edge>\n")
    file.write(b"</graph>\n</graphml>\n")
    return replaced


def _attributes(core: Core) -> Frame:
    """What `Node.attributes()` gives of every node, under the same names."""
    names = {**ARGSET_PARTS, INSTRUCTION.lower(): INSTRUCTION}
    columns = {names.get(name, name): column for name, column in recorded_columns(core).items()}
    flags, rule = core.columns.flags.astype(np.int32), core.columns.owner_rule.astype(np.int32)
    words = [[FLAG_MEANING[flag] for flag in Flag if bits & flag] for bits in range(flags.max(initial=0) + 1)]
    columns["flags"] = Texts(np.where(flags, flags, -1), [json.dumps(found) for found in words])
    rules = columns["owner_rule"]
    assert isinstance(rules, Texts)
    columns["owner_rule"] = Texts(np.where(rule, rules.codes, -1), rules.texts)
    return columns


def _keys(of: str, columns: Frame, numbers: Sequence[str] = ()) -> Iterator[str]:
    for name, column in columns.items():
        kind = "string" if isinstance(column, Texts) and name not in numbers else "long"
        yield f'<key id="{_id(name)}" for="{of}" attr.name="{name}" attr.type="{kind}"/>\n'


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _id(name: str) -> str:
    return name.replace(" ", "_")


def _elements(file: BinaryIO, opening: str, ids: list[np.ndarray | Texts], columns: Frame, closing: str) -> int:
    """One element per row, a data element in it per value; the number of replaced characters."""
    replaced = 0
    for name, column in columns.items():
        if isinstance(column, Texts):
            legal, places = column.without(_NOT_XML)
            columns[name] = Texts(legal.codes, [escape(text, {"\r": "&#13;"}) for text in legal.texts])
            replaced += places
    for begin in range(0, len(ids[0]), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        parts = [[opening % one for one in zip(*(values[rows].tolist() for values in ids), strict=True)]]
        for name, column in columns.items():
            before = f'<data key="{_id(name)}">'
            values = column[rows].tolist()
            parts.append(["" if value is None else f"{before}{value}</data>" for value in values])
        file.write("".join(map("".join, zip(*parts, repeat(closing), strict=False))).encode())
    return replaced


FORMATS = ("graphml", "graphml.gz", "parquet", "csv")
"""Formats by name; each is also the suffix that stands for it."""

_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Exported:
    """What an export wrote.

    Attributes:
        paths: the files.
        nodes, edges: how many are in them.
        replaced: characters that the format cannot hold and that are U+FFFD in the files.
    """

    paths: list[Path]
    nodes: int
    edges: int
    replaced: int


def export_graph(core: Core, path: str | os.PathLike[str], format: str | None = None) -> Exported:
    """Write event nodes and the edges between them for another program.

    GraphML is one file. Parquet and CSV are a table of nodes and one of edges: `run.parquet` stands for
    `run-nodes.parquet` and `run-edges.parquet`, a path without that suffix for a folder with `nodes.parquet` and
    `edges.parquet`. CSV holds texts as they are, which a spreadsheet may take for formulas.

    Args:
        format: one of FORMATS; by default the suffix of `path` decides.

    Raises:
        OutputError: there is no such format, or a file cannot be written.
        MissingExtraError: Parquet needs the extra `parquet`.
        AnalysisError: the graph is that of an execution trace, which has no times.
    """
    core.info.check_times()
    path = Path(path)
    format = export_format(path, format)
    if format.startswith("graphml"):
        with replacing(path) as file:
            replaced = _graphml_gz(core, file) if format.endswith("gz") else write_graphml(core, file)
        return Exported([path], len(core.columns), len(edge_columns(core)["type"]), replaced)
    write = _parquet_writer() if format == "parquet" else _write_csv
    frames = {"nodes": node_columns(core), "edges": edge_columns(core)}
    folder, names = _table_files(path, format, list(frames))
    replaced = sum(map(_without_surrogates, frames.values()))
    with writing_folder(folder, names) as output:
        for name, frame in zip(names, frames.values(), strict=True):
            with output.file(name) as file:
                write(frame, file)
    return Exported(output.paths, len(core.columns), len(frames["edges"]["type"]), replaced)


def export_format(path: Path, format: str | None = None) -> str:
    """The one of FORMATS that an export has.

    Args:
        format: the format, if it is not the suffix of `path` that decides.

    Raises:
        OutputError: there is no such format, or it cannot be written there.
    """
    if format is not None:
        wanted, found, what = format, format.lower().removeprefix("."), "format"
    else:
        name = path.name.lower()
        found = next((known for known in FORMATS if name.endswith(f".{known}")), path.suffix.lower().lstrip("."))
        wanted, what = path.suffix, "suffix"
    if found in FORMATS:
        _check_place(path, found)
        return found
    hints = filter(None, (did_you_mean(found, FORMATS), there_are(FORMATS)))
    raise OutputError(f"{path}: no export has the {what} {wanted!r}; {' '.join(hints)}")


def _check_place(path: Path, format: str) -> None:
    is_one = format.startswith("graphml")
    if is_stdout(path) and not is_one:
        raise OutputError(f"{path}: is standard output, which takes one file; {format} is two: name a folder")
    if (is_one or _names_files(path, format)) and not path.absolute().parent.is_dir():
        raise OutputError(f"{path}: cannot be written: there is no folder {path.parent}")


def _names_files(path: Path, format: str) -> bool:
    """Whether a path stands for two files beside one another, not for a folder."""
    return path.name.lower().endswith(f".{format}") and not path.is_dir()


def _table_files(path: Path, format: str, tables: list[str]) -> tuple[Path, list[str]]:
    """The folder of the tables, and the names of their files."""
    if _names_files(path, format):
        return path.parent, [f"{path.stem}-{table}{path.suffix}" for table in tables]
    return path, [f"{table}.{format}" for table in tables]


def _graphml_gz(core: Core, file: BinaryIO) -> int:
    from isal import igzip

    with igzip.open(file, "wb", compresslevel=1) as packed:
        return write_graphml(core, packed)


def _without_surrogates(frame: Frame) -> int:
    """Make texts fit for UTF-8, in place; how many characters were replaced."""
    replaced = 0
    for name, column in frame.items():
        if isinstance(column, Texts):
            frame[name], places = column.without(_SURROGATES)
            replaced += places
    return replaced


def _write_csv(frame: Frame, file: BinaryIO) -> None:
    text = TextIOWrapper(file, "utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame)
    for begin in range(0, len(next(iter(frame.values()))), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        writer.writerows(zip(*(column[rows].tolist() for column in frame.values()), strict=True))
    text.detach()


def _parquet_writer() -> Callable[[Frame, BinaryIO], None]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None

    def arrow(column: np.ndarray | Texts) -> Any:
        if isinstance(column, Texts):
            codes = pa.array(column.codes, mask=column.codes < 0)
            return pa.DictionaryArray.from_arrays(codes, pa.array(column.texts, pa.string()))
        return pa.array(np.ma.getdata(column), mask=np.ma.getmaskarray(column))

    def write(frame: Frame, file: BinaryIO) -> None:
        table = pa.table({name: arrow(column) for name, column in frame.items()})
        parquet.write_table(table.replace_schema_metadata({"generator": GENERATOR}), file)

    return write
