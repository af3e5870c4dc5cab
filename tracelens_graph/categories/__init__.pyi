# Made by docs/make_stub.py of the list in __init__.py.

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

__all__: list[str]
