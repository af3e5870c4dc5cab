"""Where files are kept for the user between commands: the platform's folders for caches and for data of programs.

On Linux and macOS the variables of the XDG specification name other ones. A relative path in such a variable is
ignored, as the specification demands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracelens_graph.errors import OutputError

_PROGRAM = "tracelens_graph"


def cache_folder() -> Path:
    """The folder for what can be made anew: `$TRACELENS_GRAPH_CACHE`, else the platform's. It need not exist.

    Raises:
        OutputError: the user's home folder is not known.
    """
    with _home_in_words():
        if chosen := os.environ.get("TRACELENS_GRAPH_CACHE"):
            return Path(chosen).expanduser().absolute()
        from platformdirs import user_cache_path

        return user_cache_path(_PROGRAM, appauthor=False, opinion=False)


def data_folder() -> Path:
    """The folder for what cannot be made anew. It need not exist.

    Raises:
        OutputError: the user's home folder is not known.
    """
    with _home_in_words():
        from platformdirs import user_data_path

        return user_data_path(_PROGRAM, appauthor=False)


@contextmanager
def _home_in_words() -> Iterator[None]:
    """Turns the error of a home folder that is not known into one of ours."""
    try:
        yield
    except RuntimeError as error:
        raise OutputError(f"no folder to keep files in: {str(error).rstrip('.')}") from None
