"""Schemas of operations, and which of them may be called."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_calls import NOTHING, call, scalar

from tracelens_graph.errors import CannotReplay, TraceLensGraphError
from tracelens_graph.extensions.extension import Replayer
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.schemas import (
    REACHES_OUT,
    TypeParts,
    literal,
    parse,
    reaches_out,
    schemas_of,
    type_parts,
    version_key,
    why_not,
)


def test_a_schema_is_read_with_aliases_defaults_and_keywords() -> None:
    text = (
        'aten::add_.Tensor(Tensor(a!) self, Tensor? other=None, SymInt[2] pad=1, *, str mode="a, (b)", float? x=1e-05)'
        " -> Tensor(a!)"
    )
    schema = parse(text, "1.13", "2.15")
    assert (schema.op, schema.overload, schema.qualified) == ("aten::add_", "Tensor", "aten::add_.Tensor")
    assert schema.names == ("self", "other", "pad", "mode", "x")
    assert [one.declared for one in schema.parameters] == ["Tensor(a!)", "Tensor?", "SymInt[2]", "str", "float?"]
    assert [one.is_written for one in schema.parameters] == [True, False, False, False, False]
    assert [one.is_keyword for one in schema.parameters] == [False, False, False, True, True]
    assert [one.default_value for one in schema.parameters] == [None, None, [1, 1], "a, (b)", 1e-05]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Tensor", TypeParts("Tensor")),
        ("Tensor?", TypeParts("Tensor", is_optional=True)),
        ("Tensor?[]", TypeParts("Tensor", is_list=True, has_optional_elements=True)),
        ("SymInt[2]?", TypeParts("SymInt", is_list=True, length=2, is_optional=True)),
    ],
)
def test_types_have_parts(text: str, parts: TypeParts) -> None:
    assert type_parts(text) == parts


@pytest.mark.parametrize(
    "text", ["", "aten::mm", "aten::mm(Tensor", "mm(Tensor self) -> Tensor", "aten::mm(!) -> Tensor"]
)
def test_what_is_no_schema_is_an_error(text: str) -> None:
    with pytest.raises(TraceLensGraphError, match="no (schema|parameter|type)"):
        parse(text)


def test_words_of_the_listing_are_numbers() -> None:
    assert literal("Mean") == 1
    assert literal("contiguous_format") == 0
    assert literal("[1, 1]") == [1, 1]


_NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
_TYPES = st.sampled_from(
    ["Tensor", "Tensor(a!)", "Tensor?", "Tensor?[]", "int[2]", "SymInt[]?", "Scalar", "str?", "float"]
)


@given(_NAMES, _NAMES, st.lists(st.tuples(_TYPES, _NAMES), unique_by=lambda pair: pair[1]), st.integers(0, 9))
def test_what_is_written_is_read(op: str, overload: str, given_: list[tuple[str, str]], keywords: int) -> None:
    listed = [f"{kind} {name}" for kind, name in given_]
    if keywords < len(listed):
        listed.insert(keywords, "*")
    schema = parse(f"aten::{op}.{overload}({', '.join(listed)}) -> ()")
    assert [(one.declared, one.name) for one in schema.parameters] == given_
    assert [one.is_keyword for one in schema.parameters] == [at >= keywords for at in range(len(given_))]


def test_the_table_has_old_and_new_forms() -> None:
    counts = {len(one.parameters): (one.first, one.last) for one in schemas_of("aten::_flash_attention_forward")}
    assert 15 in counts
    assert version_key(counts[15][1]) < (2, 15)
    assert {one.overload for one in schemas_of("aten::add")} >= {"Tensor", "Scalar", "out"}
    assert schemas_of("aten::no_such_operator") == ()
    assert schemas_of("prims::add")


def test_newer_schemas_come_first() -> None:
    versions = [version_key(one.last) for one in schemas_of("aten::scaled_dot_product_attention")]
    assert versions == sorted(versions, reverse=True)


# --- Operations that may be called are those that reach nothing but tensors


def why(call: str, known: Sequence[Replayer] = ()) -> str:
    op, _, overload = call.rpartition(".")
    return why_not(op.replace(".", "::"), "" if overload == "default" else overload, [one.schema for one in known])


@pytest.mark.parametrize("name", ["aten.mm.default", "aten.add.Tensor", "aten.div.Tensor_mode", "prims.sin.default"])
def test_operations_of_pytorch(name: str) -> None:
    assert why(name) == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aten.from_file.default", REACHES_OUT),
        ("aten.from_file.out", REACHES_OUT),
        ("aten.save.default", "neither"),
        ("aten.mm.other", "neither"),
        ("acme.fused.default", "neither"),
        ("inductor._reinterpret_tensor.default", "neither"),
        ("aten.mm", "neither"),
        ("mm", "neither"),
    ],
)
def test_others_are_refused(name: str, reason: str) -> None:
    assert reason in why(name)


def test_operations_of_an_extension() -> None:
    known = [Replayer("acme::fused(Tensor x) -> Tensor"), Replayer("acme::dump(Tensor x, str out_file) -> ()")]
    assert why("acme.fused.default", known) == ""
    assert "neither" in why("acme.fused.other", known)
    assert "neither" in why("acme.more.default", known)
    assert REACHES_OUT in why("acme.dump.default", known)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("a::b(str filename) -> ()", True),
        ("a::b(str? save_path=None) -> ()", True),
        ("a::b(str[] cmd) -> ()", True),
        ("a::save(Tensor x, str to) -> ()", True),
        ("a::load(Storage x) -> ()", True),
        ("a::save(Tensor x) -> ()", False),
        ("a::einsum(str equation, int[]? path=None) -> ()", False),
        ("a::b(str profile) -> ()", False),
    ],
)
def test_names_of_parameters_tell(schema: str, expected: bool) -> None:
    assert reaches_out(parse(schema)) is expected


def test_no_plan_is_made_of_them() -> None:
    recorded = call("from_file", NOTHING, scalar("True"), scalar("8"), *[NOTHING] * 4)
    with pytest.raises(CannotReplay, match=REACHES_OUT):
        plan_of(recorded)
