"""The hooks of TraceLens's extension files."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from extended import categories, tables_of, trace

from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.compat.report import generate_perf_report_pytorch
from tracelens_graph.errors import ExtensionError
from tracelens_graph.extensions.loading import load_extension
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core


@pytest.fixture
def core() -> Core:
    return load_core(trace())


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes an extension file."""

    def written(text: str, name: str = "my_ext.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return written


HOOKS = """
    import pandas as pd

    class Norm:
        category = "MyNorm_fwd"

        def __init__(self, event, arch=None, python_path=None):
            assert event["name"] == "my::norm" and event["kernel_names"] == [k["name"] for k in event["kernel_details"]]
            self.rows, self.width = event["args"]["Input Dims"][0]
            self.param_details = {"rows": self.rows, "kernel": event["kernel_names"][0]}

        def flops(self):
            return 3.0 * self.rows * self.width

        def bytes(self):
            return None

    perf_model_extension = {"my::norm": Norm}
    op_category_extension = {"aten::mm": "products"}

    def tree_postprocess_extension(tree):
        for event in tree.events:
            if event["name"] == "aten::mm":
                event["mark"] = "seen"
            if event["name"].endswith("_kernel<1>"):
                event["name"] = event["name"].replace("<1>", "<0>")
        first = tree.get_UID2event(tree.name2event_uids["my::norm"][0])
        first["args"]["Input Dims"] = [[2, 3]]

    def get_additional_dataframes_extension(tree):
        marked = [event["UID"] for event in tree.events if event.get("mark") == "seen"]
        return {"Marked": pd.DataFrame({"uid": marked})}
"""


def test_hooks_work(core: Core, write: Callable[..., Path]) -> None:
    tables = tables_of(core, load_extension(write(HOOKS)))
    assert categories(tables) == {"MyNorm_fwd": 2, "products": 1}
    rows = {row["param: rows"]: row for row in tables["MyNorm_fwd"].records()}
    assert {rows[2]["GFLOPS_first"], rows[4]["GFLOPS_first"]} == {18e-9, 96e-9}
    assert {row["param: kernel"] for row in rows.values()} == {"norm_kernel<0>"}
    assert rows[2]["Compute Spec"] == "vector_bf16"
    assert rows[2]["Data Moved (MB)_first"] is None
    assert tables["Marked"]["uid"].tolist() == [8]
    assert list(tables)[-1] == "Marked"
    assert "norm_kernel<1>" not in tables["kernel_summary"]["Kernel name"]
    assert "norm_kernel<1>" in report_tables(core)["kernel_summary"]["Kernel name"]
    windowed = tables_of(core.window(step=2), load_extension(write(HOOKS)))["Marked"]
    assert windowed.notes == ["of the whole trace, not only step 2"]


def test_hooks_of_older_files(core: Core, write: Callable[..., Path]) -> None:
    extension = load_extension(
        write(
            """
            class Norm:
                def __init__(self, event): pass
                def flops(self): return 8
                def bytes(self): return 4
                def flops_bwd(self): raise NotImplementedError
                def bytes_bwd(self): raise NotImplementedError
                def get_maf_type(self): return "matrix"
                def get_compute_precision(self): return "fp8"

            perf_model_extension = {"my::norm": Norm}
            dict_cat2names_extension = {"Norms": ["my::norm"]}

            def categorize_extension(row, plugin):
                return None
            """
        )
    )
    tables = tables_of(core, extension)
    assert categories(tables) == {"Norms": 2, "GEMM": 1}
    assert tables["Norms"]["Compute Spec"] == ["matrix_fp8"]
    (note,) = extension.notes
    assert "categorize_extension is not a known hook" in note


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("perf_model_extension = {'a': 'GEMM'}", "the model of a has to be a class, not str"),
        (
            "class M:\n    def flops(self): pass\nperf_model_extension = {'a': M}",
            "M, the model of a, has no method bytes",
        ),
        ("perf_model_extension = []", "perf_model_extension has to be a dictionary, not list"),
        ("op_category_extension = {'a': 1}", "the category of a has to be text, not int"),
        ("tree_postprocess_extension = {}", "tree_postprocess_extension has to be a function, not dict"),
    ],
)
def test_hooks_that_are_none(write: Callable[..., Path], text: str, message: str) -> None:
    with pytest.raises(ExtensionError, match=re.escape(message)):
        load_extension(write(text))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("event['children'] = []", "children of an event cannot be changed"),
        ("event['ts'] = 0", "ts of an event cannot be changed"),
        ("event['name'] = 3", "the name of an event is text"),
        ("del event['args']", "cannot be deleted"),
        ("tree.rebuild()", "AttributeError: 'WritableTree' object has no attribute 'rebuild'"),
    ],
)
def test_the_tree_is_not_rebuilt(core: Core, write: Callable[..., Path], statement: str, message: str) -> None:
    path = write(f"def tree_postprocess_extension(tree):\n    event = tree.events[0]\n    {statement}\n")
    with pytest.raises(ExtensionError, match=re.escape(message)):
        tables_of(core, load_extension(path))


def test_the_report_takes_a_file(core: Core, write: Callable[..., Path], tmp_path: Path) -> None:
    frames = generate_perf_report_pytorch(core, output_csvs_dir=tmp_path / "out", extension_file=str(write(HOOKS)))
    assert set(frames["ops_summary_by_category"]["op category"]) == {"MyNorm_fwd", "products"}
    assert frames["Marked"]["uid"].tolist() == [8]
    assert frames["MyNorm_fwd"]["name_count"].sum() == 2
    assert (tmp_path / "out" / "Marked.csv").read_text().split() == ["uid", "8"]
    plain = generate_perf_report_pytorch(core, output_csvs_dir=tmp_path / "plain")
    assert plain.keys() & {"Marked", "MyNorm_fwd"} == set()
    with pytest.raises(ExtensionError, match="no.py: cannot be read"):
        generate_perf_report_pytorch(core, output_csvs_dir=tmp_path / "plain", extension_file="no.py")
