"""Pages are put together from modules, and from columns that come back as they were."""

from __future__ import annotations

import zlib
from base64 import b64decode
from importlib.resources import files

import numpy as np
import pytest
from html_pages import unpacked
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.reports.html.shell import Packed, bundle, modules, packed

NUMBERS = st.lists(st.integers(0, 2**62))
SIGNED = st.lists(st.integers(-(2**61), 2**61))

MODULES = {
    "page-it.js": """// @ts-check
// What is shown.
import { Base, other } from "./the-base.js";
import {
  long,
} from "./deep.js";

const text = `text // no comment
`; // a comment that stays
/** @type {Base} */
const made = new Base(/** @type {any} */ (other), long);
""",
    "the-base.js": """import { long } from "./deep.js";
/**
 * One that is exported.
 */
export class Base {}
  // within
export const other = long;
const hidden = 1;
""",
    "deep.js": "export const long = 1;\n",
}

SCRIPT = """const $deep = (() => {
const long = 1;
return { long };
})();
const $the_base = (() => {
const { long } = $deep;
class Base {}
const other = long;
const hidden = 1;
return { Base, other };
})();
const $page_it = (() => {
const { Base, other } = $the_base;
const {
  long,
} = $deep;

const text = `text // no comment
`; // a comment that stays
const made = new Base(/** @type {any} */ (other), long);
return {  };
})();
"""


def test_modules_are_one_script_each_in_a_scope_behind_what_it_imports() -> None:
    assert modules("page-it.js", MODULES.__getitem__) == ["deep.js", "the-base.js", "page-it.js"]
    assert bundle("page-it.js", MODULES.__getitem__) == SCRIPT


@pytest.mark.parametrize(
    "text",
    ["export default 1;\n", 'import * as all from "./deep.js";\n', "export function f() {}\n", "export let one = 1;\n",
     'import { a } from "./page-it.js";\n', 'import { b } from "other";\n'],
)  # fmt: skip
def test_what_a_page_cannot_have_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"page-it\.js"):
        bundle("page-it.js", {"page-it.js": text}.__getitem__)


def test_every_file_is_on_a_page() -> None:
    names = {one.name for one in (files("tracelens_graph.reports.html") / "page").iterdir()}
    scripts = {name for name in names if name.endswith(".js")}
    entries = {name for name in scripts if name.startswith("page-")} | {"worker.js"}
    assert {name for entry in entries for name in modules(entry)} == scripts


@given(NUMBERS, SIGNED)
def test_columns_come_back(plain: list[int], growing: list[int]) -> None:
    described, text = packed(
        {"plain": Packed(np.array(plain, np.int64)), "growing": Packed(np.array(growing, np.int64), True)}
    )
    found = unpacked(described, zlib.decompress(b64decode(text)))
    assert found["plain"].tolist() == plain
    assert found["growing"].tolist() == growing


@pytest.mark.parametrize(("greatest", "planes"), [(0, 0), (1, 1), (255, 1), (256, 2), (2**24, 4), (2**53, 7)])
def test_no_more_planes_than_are_needed(greatest: int, planes: int) -> None:
    described, _ = packed({"x": Packed(np.array([0, greatest]))})
    assert described == [{"name": "x", "n": 2, "planes": planes, "delta": False}]


def test_lowest_bytes_come_first() -> None:
    _, text = packed({"x": Packed(np.array([0x0102, 0x0304])), "y": Packed(np.array([5]))})
    assert zlib.decompress(b64decode(text)) == bytes([2, 4, 1, 3, 5])
