"""Plans of custom operations: their schemas, and what registers them, come from replayers in a user's extension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tracelens_graph.errors import ExtensionError, TraceLensGraphError
from tracelens_graph.replay.arguments import RULES, Argument, Fill, TensorValue, Value, mapped
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import CannotReplay, ReplayPlan
from tracelens_graph.replay.schemas import Schema, parse
from tracelens_graph.replay.traced_call import traced_call

if TYPE_CHECKING:
    from tracelens_graph.extensions.replayer import Replayer
    from tracelens_graph.graph.core import Core


def plan_custom(core: Core, row: int, replayer: Replayer) -> ReplayPlan:
    """The plan of the call of a custom operation at a row.

    Raises:
        CannotReplay: what was recorded does not fit the replayer's schema.
        ExtensionError: the replayer's schema cannot be read, or it fills an argument that there is not.
    """
    schema = _schema(replayer)
    fills = {name: _fill(replayer, schema, name) for name in replayer.fills}
    call = traced_call(core, row)
    if len(call) and len(call) != len(schema.parameters):
        raise CannotReplay(
            f"its replayer's schema has {len(schema.parameters)} arguments, the trace {len(call)}",
            "the schema of the version that was traced",
        )
    made = plan_of(replace(call, schemas=(schema,)))

    def filled(argument: Argument) -> Argument:
        fill = fills.get(argument.name)
        return argument if fill is None else replace(argument, value=mapped(argument.value, _with(fill)))

    return replace(made.with_arguments(filled), imports=tuple(replayer.imports))


def _with(fill: Fill) -> Callable[[TensorValue, int], Value]:
    return lambda tensor, place: replace(tensor, fill=fill)


def _schema(replayer: Replayer) -> Schema:
    try:
        return parse(replayer.schema.strip())
    except (TraceLensGraphError, ValueError, SyntaxError) as error:
        raise ExtensionError(f"the replayer of {replayer.op}: {error}") from None


def _fill(replayer: Replayer, schema: Schema, name: str) -> Fill:
    if name not in schema.names:
        raise ExtensionError(
            f"the replayer of {replayer.op} fills {name}, and its schema has {', '.join(schema.names)}"
        )
    options = dict(replayer.fills[name])
    rule = options.pop("fill", "normal")
    if rule not in RULES:
        raise ExtensionError(
            f"the replayer of {replayer.op}: nothing fills by {rule!r:.40}: {', '.join(sorted(RULES))}"
        )
    if unknown := sorted(options.keys() - RULES[rule]):
        raise ExtensionError(f"the replayer of {replayer.op}: {rule} takes no {unknown[0]}")
    return Fill(rule, options)
