from __future__ import annotations

from growth import cost
from handmade import span

from tracelens_graph.analyses.diagnosis.account import account_of
from tracelens_graph.loading.one import load_core


def test_gaps_of_one_device_are_held_once() -> None:
    """A gap has a time for each cause, 96 bytes, and every kernel may end one."""
    count = 20_000
    kernels = [span("kernel", "k", 10 * at, 1, device=0, stream=7) for at in range(count)]
    account_of(load_core({"traceEvents": kernels}).everything)
    window = load_core({"traceEvents": kernels}).everything
    assert cost(lambda: account_of(window).parts(in_span=True)).peak < 320 * count


def test_causes_in_the_span_leave_out_its_edges() -> None:
    step = span("user_annotation", "ProfilerStep#1", 0, 100)
    kernels = [span("kernel", "k", at, 10, device=0, stream=7) for at in (20, 50)]
    account = account_of(load_core({"traceEvents": [step, *kernels]}).everything)
    assert account.at_edges.tolist() == [False, True, True]
    assert account.causes_in_span.sum() == 20_000
    assert account.causes.sum() == 80_000
