"""Python's search for garbage, paused while many objects are made; memory that is free, given back."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Millions of new objects, none of them garbage: looking through them takes three quarters of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


MANY = 1 << 20
"""Events from which on memory is given back between the steps of loading."""


def give_memory_back() -> None:
    """Give freed memory back to the system.

    The C library of Linux keeps what arrays of up to 32 MiB leave between others that live on, which can be as much as
    these. Elsewhere this does nothing.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return
    trim(ctypes.c_size_t(0))
