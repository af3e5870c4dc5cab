"""Tables as a page has them."""

from __future__ import annotations

import numpy as np

from tracelens_graph.reports.html.tables import Texts, table_objects
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.table import Table


def test_kinds_of_cells() -> None:
    about = {
        "op": Column("the op", heading="op", role=Role.key), "ms": Column("time", "ms", heading="GPU ms"),
        "uid": Column("an event", role=Role.instance), "hidden": Column("more"),
        "more": Column("more"),
    }  # fmt: skip
    table = Table(
        "t",
        {
            "op": ["a", "b", "a"], "ms": [1.5, np.nan, 10**400], "more": np.array([1.5, np.nan, np.inf]),
            "uid": [3, None, 5],
            "hidden": [[1, 2], None, "a"], "flag": [True, None, False],
        },
        about, "Title", ["a note"],
    )  # fmt: skip
    texts = Texts()
    (found,) = table_objects({"t": table}, texts)
    columns = {column["name"]: column for column in found["columns"]}
    assert {name: (column["kind"], column["shown"]) for name, column in columns.items()} == {
        "op": ("text", True), "ms": ("number", True), "uid": ("uid", True), "hidden": ("text", False),
        "flag": ("flag", False), "more": ("number", False),
    }  # fmt: skip
    assert columns["ms"]["cells"] == columns["more"]["cells"] == [1.5, None, None]
    assert columns["uid"]["cells"] == [3, None, 5]
    assert [texts.listed[cell] for cell in columns["op"]["cells"]] == ["a", "b", "a"]
    assert columns["hidden"]["cells"][2] == columns["op"]["cells"][0]
    assert (found["rows"], found["notes"], columns["ms"]["heading"]) == (3, ["a note"], "GPU ms")


def test_what_a_path_of_modules_says_is_not_shown_again() -> None:
    columns = {"path": ["A_0/B_1"], "module": ["B_1"], "class": ["B"], "total_us": [1.5]}
    (found,) = table_objects({"modules": Table("modules", columns)}, Texts())
    assert [column["name"] for column in found["columns"] if column["shown"]] == ["path", "total_us"]
    (found,) = table_objects({"t": Table("t", {"module": ["B_1"], "path": ["A_0/B_1"]})}, Texts())
    assert all(column["shown"] for column in found["columns"])


def test_rows_beyond_number_are_counted() -> None:
    (found,) = table_objects({"t": Table("t", {"n": np.arange(5)})}, Texts(), most=2)
    assert found["rows"] == 2
    assert found["columns"][0]["cells"] == [0, 1]
    assert found["notes"] == ["3 more rows: --csv DIR writes them"]
