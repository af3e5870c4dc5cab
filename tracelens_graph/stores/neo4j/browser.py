"""What Neo4j Browser takes over when it is dropped on its page: the library as favourites, and a style."""

from __future__ import annotations

from importlib.resources import files
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from tracelens_graph.cypher import library
from tracelens_graph.errors import OutputError
from tracelens_graph.files import check_outputs, replacing

FAVOURITES, STYLE = "queries.zip", "tracelens.grass"


def favourites() -> bytes:
    """The library as an archive that Neo4j Browser imports: a folder per theme, each query under its title."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for query in library().values():
            archive.writestr(ZipInfo(f"{query.theme}/{query.name}.cypher"), query.text)
    return packed.getvalue()


def style() -> bytes:
    """The style: a colour for each kind of node, names as captions, the hottest nodes larger."""
    return (files("tracelens_graph.cypher") / "browser" / STYLE).read_bytes()


def write_browser_files(folder: Path) -> list[Path]:
    """Write both into a folder.

    Returns:
        The files.

    Raises:
        OutputError: they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made a folder: {(error.strerror or str(error)).lower()}") from None
    written = [folder / FAVOURITES, folder / STYLE]
    check_outputs(written)
    for path, content in zip(written, (favourites(), style()), strict=True):
        with replacing(path, listed=True) as file:
            file.write(content)
    return written
