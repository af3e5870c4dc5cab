"""What operations and kernels are, told by their names: rules as data, and one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens_graph._lazy import on_first_use as _on_first_use

if TYPE_CHECKING:
    from tracelens_graph.categories.kernel_names import properties as properties
    from tracelens_graph.categories.kernels import KERNEL_RULES as KERNEL_RULES
    from tracelens_graph.categories.kernels import KernelRule as KernelRule
    from tracelens_graph.categories.kernels import KernelRules as KernelRules
    from tracelens_graph.categories.kernels import kernel_categories as kernel_categories
    from tracelens_graph.categories.kernels import kernel_category as kernel_category
    from tracelens_graph.categories.ops import OP_RULES as OP_RULES
    from tracelens_graph.categories.ops import OpRules as OpRules
    from tracelens_graph.categories.ops import Rule as Rule
    from tracelens_graph.categories.ops import op_category as op_category
    from tracelens_graph.tables.names import short_name as short_name

_HOME = {
    "KERNEL_RULES": "categories.kernels",
    "KernelRule": "categories.kernels",
    "KernelRules": "categories.kernels",
    "OP_RULES": "categories.ops",
    "OpRules": "categories.ops",
    "Rule": "categories.ops",
    "kernel_categories": "categories.kernels",
    "kernel_category": "categories.kernels",
    "op_category": "categories.ops",
    "properties": "categories.kernel_names",
    "short_name": "tables.names",
}

__all__ = [
    "KERNEL_RULES",
    "OP_RULES",
    "KernelRule",
    "KernelRules",
    "OpRules",
    "Rule",
    "kernel_categories",
    "kernel_category",
    "op_category",
    "properties",
    "short_name",
]

__getattr__, __dir__ = _on_first_use(__name__, _HOME)
