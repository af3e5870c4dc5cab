from __future__ import annotations

import io

import pytest

from tracelens_graph.tables import terminal
from tracelens_graph.tables.terminal import progress_on_terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


def test_short_work_and_work_that_nobody_sees_show_nothing(clock: list[float]) -> None:
    with progress_on_terminal("reading", io.StringIO()) as show:
        assert show is None
    terminal = Terminal()
    with progress_on_terminal("reading", terminal) as show:
        assert show is not None
        clock[0] += 0.9
        show(2, 2)
    assert terminal.getvalue() == ""


def test_long_work_shows_a_line_and_wipes_it(clock: list[float]) -> None:
    terminal = Terminal()
    with progress_on_terminal("reading x.json", terminal) as show:
        assert show is not None
        clock[0] += 1.5
        show(50_000_000, 200_000_000)
        show(51_000_000, 200_000_000)  # too soon after the other
        clock[0] += 0.2
        show(150_000_000, 200_000_000)
    first, second = "reading x.json: 25 %", "reading x.json: 75 %"
    assert terminal.getvalue().split("\r") == ["", first, second, " " * len(second), ""]


def test_rate_and_time_left(clock: list[float]) -> None:
    terminal = Terminal()
    with progress_on_terminal("pushing x", terminal, unit="rows") as show:
        assert show is not None
        clock[0] += 10
        show(20_000, 300_000)
    assert terminal.getvalue().split("\r")[1] == "pushing x: 6 %, 2,000 rows/s, 2:20 left"
