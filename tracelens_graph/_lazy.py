"""Public names of a package that are imported when they are first used, so that importing the package costs nothing."""

from __future__ import annotations

import sys
from importlib import import_module

# typing takes longer to import than all the rest, which counts at the start of every command.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def on_first_use(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The functions `__getattr__` and `__dir__` of a package, and its `__all__`.

    Args:
        package: its `__name__`.
        names: module, below `tracelens_graph` -> the public names that are imported from it. A module of the package
            that has a name itself stands for itself.
    """
    homes = homes_of(names)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(f"tracelens_graph.{homes[name]}")
        value = home if home.__name__ == f"{package}.{name}" else getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        own = vars(sys.modules[package])
        return sorted({*homes, *(name for name in own if name.startswith("__"))})

    return get, listed, sorted(homes, key=lambda name: (not name.isupper(), name))


def homes_of(names: Mapping[str, str]) -> dict[str, str]:
    """Public name -> module that it is imported from."""
    return {name: module for module, listed in names.items() for name in listed.split()}
