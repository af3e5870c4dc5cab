"""TraceLens's notebook on event replay: its cells, import lines apart, as far as they need no GPU."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from replay_plans import mm, plan_in

from corpus import needs_corpus
from tracelens_graph.compat import EventReplay, EventReplayer, TreePerfAnalyzer
from tracelens_graph.compat.event_replay import tracelens_form
from tracelens_graph.compat.EventReplay.batched_replay import write
from tracelens_graph.errors import CannotReplay, NoTorchError
from tracelens_graph.replay.plan_json import plan_from_json

BESIDE = Path(EventReplay.__file__).parent
ARGUMENTS = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")


def event(name: str = "aten::mm", **args: Any) -> dict[str, Any]:
    told = {
        "Input Dims": [[8, 4], [4, 2]],
        "Input type": ["c10::Half", "c10::Half"],
        "Input Strides": [[4, 1], [2, 1]],
        "Concrete Inputs": ["", ""],
    }
    return {"name": name, "args": told | args}


@pytest.fixture(scope="module")
def analyzer(corpus: Path) -> TreePerfAnalyzer:
    return TreePerfAnalyzer.from_file(str(corpus / "tracelens/mi300/resnet-ddp-checkpointing.json.gz"))


@pytest.fixture(scope="module")
def unique(analyzer: TreePerfAnalyzer) -> pd.DataFrame:
    calls = analyzer.get_df_kernel_launchers(include_kernel_details=True)
    return analyzer.get_df_kernel_launchers_unique_args(calls, include_pct=True)


@needs_corpus
def test_one_event(analyzer: TreePerfAnalyzer, unique: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    row = unique[unique["name"] == "aten::convolution_backward"].iloc[0]
    chosen = analyzer.tree.get_UID2event(row["ex_UID"])
    replayer = EventReplayer(chosen, device="cuda", lazy=True, verbose=True)
    assert "aten::convolution_backward: aten::convolution_backward(Tensor grad_output" in capsys.readouterr().out
    info = replayer.get_repro_info()
    assert replayer.event.get("name") == info["op_name"] == "aten::convolution_backward"
    arguments = info["replay_ir"]["list_pos_args"]
    assert [one["arg_name"] for one in arguments][:3] == ["grad_output", "input", "weight"]
    for at in range(3):
        assert arguments[at]["value"] == {
            "shape": chosen["args"]["Input Dims"][at],
            "dtype": chosen["args"]["Input type"][at],
            "strides": chosen["args"]["Input Strides"][at],
            "init": "normal",
        }
    assert arguments[-1] == {"arg_name": "output_mask", "arg_type": "bool[3]", "value": [True, True, False]}
    assert info["replay_ir"]["list_kwargs"] == []


@needs_corpus
def test_many_events(analyzer: TreePerfAnalyzer, unique: pd.DataFrame, tmp_path: Path) -> None:
    of_interest = unique[unique["name"] == "aten::convolution_backward"]
    events = [analyzer.tree.get_UID2event(uid) for uid in of_interest["ex_UID"]]
    infos = [EventReplayer(one, lazy=True, verbose=False).get_repro_info() for one in events]
    saved = tmp_path / "event_replay_ir.json"
    saved.write_text(json.dumps(infos, indent=4))
    plans = [plan_from_json(one["plan"]) for one in json.loads(saved.read_text())]
    assert len(plans) == len(events) > 5
    assert [plan.recorded.dims for plan in plans] == [
        EventReplayer(one, lazy=True).plan.recorded.dims for one in events
    ]


@needs_corpus
def test_rows_of_a_report(unique: pd.DataFrame) -> None:
    """A sheet holds lists as text."""
    chosen = ["aten::miopen_convolution", "aten::convolution_backward", "aten::native_batch_norm_backward"]
    infos = []
    for _, row in unique[unique["name"].isin(chosen)].iterrows():
        args = {key: ast.literal_eval(str(row[key])) for key in ARGUMENTS}
        infos.append(EventReplayer({"name": row["name"], "args": args}, lazy=True, verbose=False).get_repro_info())
    assert {one["op_name"] for one in infos} == set(chosen)
    assert all(plan_from_json(one["plan"]).recorded.dims for one in json.loads(json.dumps(infos)))


def test_the_program_beside_is_written_as_one_file(tmp_path: Path) -> None:
    write(str(tmp_path / "run.py"))
    assert plan_in((tmp_path / "run.py").read_text(), "full") == []
    assert all((BESIDE / name).is_file() for name in ("utils.py", "batched_replay.py", "batched_replay_readme.md"))


def test_what_cannot_be_replayed() -> None:
    with pytest.raises(CannotReplay):
        EventReplayer(event("my::op"), lazy=True)
    with pytest.raises(CannotReplay):
        EventReplayer({"name": "aten::mm"}, lazy=True)


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NoTorchError, match="^PyTorch is not installed here: [^\n]*$"):
        EventReplayer(event())
    with pytest.raises(NoTorchError):
        EventReplayer(event(), lazy=True).replay()


def test_the_form_of_a_product() -> None:
    left, right = (
        {"shape": shape, "dtype": "c10::BFloat16", "strides": strides, "init": "normal"}
        for shape, strides in (([64, 32], [32, 1]), ([32, 16], [1, 32]))
    )
    assert tracelens_form(mm()) == {
        "op_name": "aten::mm",
        "replay_ir": {
            "list_pos_args": [
                {"arg_name": "self", "arg_type": "Tensor", "value": left},
                {"arg_name": "mat2", "arg_type": "Tensor", "value": right},
            ],
            "list_kwargs": [],
        },
    }
