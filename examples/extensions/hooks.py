"""An extension by the names that TraceLens gives its hooks: works with `--extension`, and with TraceLens itself."""

import pandas as pd


class Swiglu:
    """silu(gate) * up, both halves of one tensor: 5 operations per result; both halves are read, one is written."""

    category = "UnaryElementwise"

    def __init__(self, event, arch=None, python_path=None):
        rows, width = event["args"]["Input Dims"][0][-2:]
        self.param_details = {"rows": rows, "width": width // 2}

    def flops(self):
        return 5 * self.param_details["rows"] * self.param_details["width"]

    def bytes(self):
        return 3 * 2 * self.param_details["rows"] * self.param_details["width"]

    def get_maf_type(self):
        return "vector"

    def get_compute_precision(self):
        return "bf16"


perf_model_extension = {"mylib::swiglu": Swiglu}
op_category_extension = {"aten::embedding": "Embedding"}


def tree_postprocess_extension(tree):
    for event in tree.events:
        if event["name"].startswith("mylib::v2::"):
            event["name"] = event["name"].replace("v2::", "")


def get_additional_dataframes_extension(tree):
    marks = [event for event in tree.events if event["name"].startswith("ProfilerStep#")]
    steps = [mark for mark in marks if mark["cat"] == "user_annotation"]
    return {"steps": pd.DataFrame([{"name": step["name"], "ms": step["dur"] / 1000} for step in steps])}
