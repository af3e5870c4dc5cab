"""What operations and kernels are, by their names: rules as data, and one engine."""

from __future__ import annotations

from tracelens_graph._lazy import on_first_use as _on_first_use

_NAMES = {
    "categories.kernel_names": "properties",
    "categories.kernels": "KERNEL_RULES KernelRule KernelRules kernel_categories kernel_category",
    "categories.ops": "OP_RULES OpRules Rule op_category",
    "tables.names": "short_name",
}
"""Module -> the public names that are imported from it; `__init__.pyi` is made of it."""

__getattr__, __dir__, __all__ = _on_first_use(__name__, _NAMES)
