"""Code of the user's own: what it raises becomes one line that names file and line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any

from tracelens_graph.errors import ExtensionError
from tracelens_graph.perf.cost import CannotModel

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


@contextmanager
def user_code(file: str) -> Iterator[None]:
    """Within it code of the user's own runs: what that raises becomes one line that names file and line.

    Raises:
        ExtensionError: it raised something. That a model does not apply is none of this.
    """
    try:
        yield
    except (ExtensionError, CannotModel):
        raise
    except (Exception, SystemExit) as error:
        raise ExtensionError(_in_one_line(error, file)) from error


def _in_one_line(error: BaseException, file: str) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{file}:{error.lineno}: {type(error).__name__}: {error.msg}"
    place = _place(error.__traceback__, file)
    return f"{place}: {text}"


def _place(traceback: TracebackType | None, file: str) -> str:
    """The innermost line of a file that an error passed, else the innermost outside of this package."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(traceback)]
    inside = [line for name, line in frames if name == file]
    if inside:
        return f"{file}:{inside[-1]}"
    outside = [(name, line) for name, line in frames if not name.startswith(_PACKAGE)]
    return f"{file}: {outside[-1][0]}:{outside[-1][1]}" if outside else file


def guarded(function: Callable[..., Any], name: str, file: str | None = None, returns: type = object) -> Any:
    """The function within `user_code`.

    Args:
        function: a function; one of this package stays as it is unless a file is given.
        name: what messages call it where it tells no file.
        file: the file that it comes from; by default the one that it is written in.
        returns: what it has to return.
    """
    written = getattr(getattr(function, "__code__", None), "co_filename", "")
    if file is None and written.startswith(_PACKAGE):
        return function
    shown_file = file or written or name

    @wraps(function)
    def call(*given: Any) -> Any:
        with user_code(shown_file):
            found = function(*given)
        if not isinstance(found, returns):
            raise ExtensionError(f"{shown_file}: a {returns.__name__} is wanted of a model, not {found!r:.60}")
        return found

    return call
