"""What Neo4j Browser takes over when it is dropped on its page: the library as favourites, and a style."""

from __future__ import annotations

from importlib.resources import files
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from tracelens_graph.cypher import library
from tracelens_graph.output.folder import writing_folder

FAVOURITES, STYLE = "queries.zip", "tracelens.grass"


def favourites() -> bytes:
    """The library as an archive that Neo4j Browser imports: a folder per theme, each query under its title."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for query in library().values():
            archive.writestr(ZipInfo(f"{query.theme}/{query.name}.cypher"), query.text)
    return packed.getvalue()


def style() -> bytes:
    """The style: a colour and a size for each kind of node, short names as captions, the hottest nodes larger."""
    return (files("tracelens_graph.cypher") / "browser" / STYLE).read_bytes()


def write_browser_files(folder: Path) -> list[Path]:
    """Write both into a folder.

    Returns:
        The files.

    Raises:
        OutputError: they cannot be written.
    """
    with writing_folder(folder, [FAVOURITES, STYLE]) as output:
        for name, content in ((FAVOURITES, favourites()), (STYLE, style())):
            with output.file(name) as file:
                file.write(content)
    return output.paths
