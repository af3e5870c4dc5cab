"""Tables that count calls and need no times: what there is to say of an execution trace alone."""

from __future__ import annotations

from tracelens_graph.schema.tables.shared import count, key, text, uid
from tracelens_graph.tables.column import About, Column, Role, TableSchema

_CALLS = count("number of calls", "calls")
_PERCENT = Column("share of all calls of ops", "%", Role.share, "% of all calls")
_PERCENT_OF_THESE = Column("share of all calls of ops with arguments", "%", Role.share, "% of these")
_TOP = count("how many of them are not inside of another op", "outermost")

CALLS_BY_CATEGORY: About = {
    "category": key("category of the ops", "category"),
    "calls": _CALLS,
    "percent": _PERCENT,
    "outermost": _TOP,
    "ops": Column("number of different names", heading="ops"),
}

CALLS_BY_OP: About = {
    "op": key("name of the op", "op"),
    "category": text("its category", "category"),
    "calls": _CALLS,
    "percent": _PERCENT,
    "outermost": _TOP,
    "argument_sets": Column("number of different sets of arguments", heading="argument sets"),
    "threads": Column("number of threads that call it", heading="threads"),
    "uid": uid("the first call"),
}

CALLS_BY_ARGUMENTS: About = {
    "op": key("name of the op", "op"),
    "input_dims": key("sizes of its arguments, JSON", "sizes", cells="list"),
    "input_types": key("types of its arguments, JSON", "types", cells="list"),
    "input_strides": key("strides of its arguments, JSON; absent where not recorded", cells="list"),
    "concrete_inputs": key("values of its arguments that are no tensors, JSON", cells="list"),
    "calls": _CALLS,
    "percent": _PERCENT_OF_THESE,
    "uid": uid("the first call"),
}

SCHEMAS = {
    "calls_by_category": TableSchema("What kinds of ops are called, without times.", CALLS_BY_CATEGORY),
    "calls_by_op": TableSchema("Which ops are called, and how often, without times.", CALLS_BY_OP),
    "calls_by_arguments": TableSchema("With which arguments ops are called, without times.", CALLS_BY_ARGUMENTS),
}
