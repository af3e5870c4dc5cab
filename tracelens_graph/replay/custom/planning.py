"""Plans of custom operations, whose schemas come from replayers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_field
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tracelens_graph.errors import CannotReplay, ExtensionError, TraceLensGraphError
from tracelens_graph.perf.scalar_types import torch_dtype
from tracelens_graph.replay.calls import Call, sizes
from tracelens_graph.replay.choosing import SCALAR
from tracelens_graph.replay.custom.entry import Shipped
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import NORMAL, RULES, Argument, Fill, Recorded, ReplayPlan
from tracelens_graph.replay.schemas import Schema, parse

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Replayer

_SIZE = re.compile(r"(\w+)\.(\d)")
NOT_RUN = "its program was not run on its library yet; --reference runs plain torch in its place"
"""What a program of a replayer that comes along says of itself."""


def plan_custom(call: Call, replayer: Replayer) -> ReplayPlan:
    """The plan of a call of a custom operation; its schema comes from a replayer.

    Raises:
        CannotReplay: what was recorded does not fit the replayer's schema.
        ExtensionError: the replayer's schema cannot be read, or it fills an argument that there is not.
    """
    known = replayer if isinstance(replayer, Shipped) else Shipped(replayer.schema, replayer.imports, replayer.fills)
    every = [_schema(text, replayer) for text in known.schemas]
    _check_fills(known, every[0])
    recorded = _completed(call.recorded, every[0], known)
    schema = next((one for one in every if len(one.parameters) == len(recorded.types)), None)
    if schema is None and len(call):
        counts = " or ".join(str(len(one.parameters)) for one in every)
        raise CannotReplay(
            f"its replayer's schema has {counts} arguments, the trace {len(call)}",
            "the schema of the version that was traced: a replayer in an extension",
        )
    schema = schema or every[0]
    with_texts = _with_texts(schema, recorded, known)
    made = plan_of(with_field(call, recorded=recorded, schemas=(with_texts,)))
    held = {one: _fill_of(known, one, made) for one in known.fills}

    def filled(one: Argument) -> Argument:
        changed = one.changed(lambda tensor, place: replace(tensor, fill=held[one.name])) if one.name in held else one
        return replace(changed, assumed=changed.assumed or known.assumes.get(one.name, ""))

    return replace(
        made.with_arguments(filled), schema=schema.text, recorded=call.recorded, imports=tuple(known.imports),
        notes=(*made.notes, *([NOT_RUN] if known.reference else ())),
    )  # fmt: skip


def _schema(text: str, replayer: Replayer) -> Schema:
    try:
        return parse(text.strip())
    except (TraceLensGraphError, ValueError, SyntaxError) as error:
        raise ExtensionError(f"the replayer of {replayer.op}: {error}") from None


def _completed(recorded: Recorded, schema: Schema, known: Shipped) -> Recorded:
    """What was recorded, with entries for what the trace lacks at its end, where it has all before that."""
    lacking = schema.parameters[len(recorded.types) :]
    if not recorded.types or not known.absent or (lacking[:1] and lacking[0].name not in known.absent):
        return recorded
    dims, types, values = list(recorded.dims), list(recorded.types), list(recorded.values)
    for parameter in lacking:
        like, what = known.absent.get(parameter.name, ("", ""))
        at = schema.names.index(like) if like else -1
        number = what or ("" if parameter.default is None or parameter.kind.base == "Tensor" else parameter.default)
        dims.append(dims[at] if like else ())
        types.append(what if like else SCALAR if number else "")
        values.append("" if like else number)
    return Recorded(tuple(dims), tuple(types), (), tuple(values))


def _with_texts(schema: Schema, recorded: Recorded, known: Shipped) -> Schema:
    """The schema with defaults for texts, which stand for what no profiler records."""
    text = schema.text
    for name, (other, kinds) in known.texts.items():
        dtype = torch_dtype(recorded.types[schema.names.index(other)]) if recorded.types else ""
        text = text.replace(f"str {name}", f'str {name}="{kinds.get(dtype, kinds[""])}"')
    return parse(text)


def _check_fills(known: Shipped, schema: Schema) -> None:
    for name, options in known.fills.items():
        if name not in schema.names:
            raise ExtensionError(
                f"the replayer of {known.op} fills {name}, and its schema has {', '.join(schema.names)}"
            )
        rule = options.get("fill", NORMAL.rule)
        if rule not in RULES:
            raise ExtensionError(
                f"the replayer of {known.op}: nothing fills by {rule!r:.40}: {', '.join(sorted(RULES))}"
            )
        if unknown := sorted(options.keys() - RULES[rule] - {"fill"}):
            raise ExtensionError(f"the replayer of {known.op}: {rule} takes no {unknown[0]}")


def _fill_of(known: Shipped, name: str, made: ReplayPlan) -> Fill:
    """What a tensor holds; sizes of arguments in it as numbers."""
    options = {key: _number(value, made) for key, value in known.fills[name].items() if key != "fill"}
    return Fill(known.fills[name].get("fill", NORMAL.rule), options)


def _number(value: Any, made: ReplayPlan) -> Any:
    if not isinstance(value, str):
        return value
    shapes: Mapping[str, Sequence[int]] = {
        one.name: found for one in made.arguments if (found := sizes(getattr(one.value, "shape", None))) is not None
    }
    factors = [_SIZE.fullmatch(part.strip()) or int(part) for part in value.split("*")]
    return prod(one if isinstance(one, int) else shapes[one[1]][int(one[2])] for one in factors)
