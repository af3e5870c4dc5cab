"""What an extension says of custom operations that are to be called again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tracelens_graph.errors import ExtensionError
from tracelens_graph.extensions.extension import Extension, Replayer, combined, is_module
from tracelens_graph.extensions.loading import load_extension

SCHEMA = "acme::scaled_mm(Tensor a, Tensor b, *, float scale=1.0) -> Tensor"


@pytest.mark.parametrize("schema", [SCHEMA, "acme::pair.out(Tensor a) -> (Tensor, Tensor)", "a::b::c() -> ()"])
def test_the_op_is_the_name_without_its_overload(schema: str) -> None:
    assert Replayer(schema).op == schema.partition("(")[0].partition(".")[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"schema": "scaled_mm(Tensor a) -> Tensor"}, "is no schema"),
        ({"schema": "acme::op(Tensor a)"}, "is no schema"),
        ({"schema": None}, "None is no schema"),
        ({"schema": SCHEMA, "imports": "acme"}, "list of modules"),
        ({"schema": SCHEMA, "imports": ["acme.ops; import os"]}, "not the name of a module"),
        ({"schema": SCHEMA, "imports": ["acme..ops"]}, "not the name of a module"),
        ({"schema": SCHEMA, "fills": {"a": "normal"}}, "a is filled by a mapping"),
        ({"schema": SCHEMA, "fills": {"a": {"fill=1,b": 2}}}, "a is filled by a mapping"),
    ],
)
def test_what_is_wrong_is_told(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ExtensionError, match=said):
        Replayer(**given)


@pytest.mark.parametrize(
    ("text", "is_one"), [("vllm", True), ("a.b_1", True), ("", False), ("1a", False), ("é", False)]
)
def test_names_of_modules(text: str, is_one: bool) -> None:
    assert is_module(text) is is_one


def test_an_extension_has_replayers_by_the_name_of_their_op() -> None:
    replayer = Replayer(SCHEMA)
    with pytest.raises(ExtensionError, match="the replayer of acme::mm has the schema of acme::scaled_mm"):
        Extension(replayers={"acme::mm": replayer})
    with pytest.raises(ExtensionError, match="is no Replayer"):
        Extension(replayers={"acme::scaled_mm": SCHEMA})  # type: ignore[dict-item]
    one = Extension(replayers={"acme::scaled_mm": replayer}, name="one")
    with pytest.raises(ExtensionError, match="one and two both have a replayer of acme::scaled_mm"):
        combined([one, Extension(replayers={"acme::scaled_mm": replayer}, name="two")])
    assert combined([one, Extension(name="two")]).replayers == {"acme::scaled_mm": replayer}


def test_a_file_can_define_them(tmp_path: Path) -> None:
    file = tmp_path / "acme.py"
    file.write_text(
        "from tracelens_graph import Extension, Replayer\n"
        f"extension = Extension(replayers={{'acme::scaled_mm': Replayer({SCHEMA!r}, imports=['acme.ops'])}})\n"
    )
    assert load_extension(file).replayers["acme::scaled_mm"].imports == ["acme.ops"]
