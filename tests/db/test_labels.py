"""Labels are typed by how they are written, and come back as they were given."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.db.labels import labels_of, texts_of
from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema.database import LABEL

WRITTEN = {
    "64": 64, "-3": -3, "0.5": 0.5, "1e-05": 1e-05, "true": True, "false": False, '"64"': "64", '"true"': "true",
    "007": "007", "3.10": "3.10", "1e5": "1e5", "null": "null", "NaN": "NaN", "Infinity": "Infinity", "[1]": "[1]",
    "3f2a9c": "3f2a9c", "": "", "a=b": "a=b", "9223372036854775808": "9223372036854775808", '"': '"', " 1": " 1",
    "[" * 100_000: "[" * 100_000,
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), WRITTEN.items(), ids=lambda one: str(one)[:20])
def test_values_are_typed_by_how_they_are_written(text: str, value: Any) -> None:
    assert [(type(one), one) for one in labels_of([f"k={text}"]).values()] == [(type(value), value)]


NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()


@given(st.dictionaries(st.from_regex(r"[\w.-]+", fullmatch=True), NUMBERS | st.text() | st.sampled_from([*WRITTEN])))
def test_any_labels_come_back(labels: dict[str, Any]) -> None:
    trace = {LABEL + key: value for key, value in labels_of(labels).items()}
    again = labels_of(texts_of({"path": "run/name", **trace}))
    assert [(key, type(one), one) for key, one in again.items()] == [
        (key, type(labels[key]), labels[key]) for key in sorted(labels)
    ]


@pytest.mark.parametrize(
    "labels", [["x"], ["=x"], ["a b=1"], ["a=1", "a=2"], {"a": None}, {"a": [1]}, {"a": 2**63}], ids=str
)
def test_what_is_no_label_is_refused(labels: Any) -> None:
    with pytest.raises(DatabaseError, match=r"^label [^\n]*$"):
        labels_of(labels)
