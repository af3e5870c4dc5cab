"""The server for coding assistants, asked by the SDK's own client over standard streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from handmade import Run, hostile_trace, small_trace, span

from tracelens_graph.cli.mcp import LONGEST, Traces, answer, bounded
from tracelens_graph.errors import TraceError

start_blocking_portal = pytest.importorskip("anyio.from_thread").start_blocking_portal
mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")


PROGRAM = [sys.executable, "-c", "from tracelens_graph.cli import main; main()", "mcp"]


class Answer(NamedTuple):
    text: str
    failed: bool


class Call(NamedTuple):
    """A client of a running server."""

    portal: Any
    server: Any

    def __call__(self, tool: str, /, **arguments: Any) -> Answer:
        result = self.portal.call(self.server.call_tool, tool, arguments)
        return Answer("".join(part.text for part in result.content), bool(result.is_error))


def client(folder: Path, temporary: Path) -> Any:
    """A client that starts a server of a folder, which puts what it keeps in another one."""
    command, *words = *PROGRAM, str(folder)
    return mcp.Client(mcp.StdioServerParameters(command=command, args=words, env={"TMPDIR": str(temporary)}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of traces, sound and broken, with links that lead out; beside it what nobody may read."""
    root = tmp_path_factory.mktemp("mcp")
    (root / "secret.json").write_text(json.dumps(small_trace()))
    inside = root / "traces"
    (inside / "pair").mkdir(parents=True)
    for name in ("small.json", "pair/rank0.json"):
        (inside / name).write_text(json.dumps(small_trace()))
    (inside / "hostile.json").write_bytes(hostile_trace())
    (inside / "cut.json").write_text(json.dumps(small_trace())[:-700])
    (inside / "none.json").write_text("[1, 2")
    (inside / "out.json").symlink_to(root / "secret.json")
    (inside / "circle.json").symlink_to(inside / "circle.json")
    (inside / "linked").mkdir()
    (inside / "linked" / "out.json").symlink_to(root / "secret.json")
    return inside


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server puts what it caches."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def call(folder: Path, temporary: Path) -> Iterator[Call]:
    """Calls a tool of a server that all tests share."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client(folder, temporary)) as server:
        yield Call(portal, server)


def test_six_tools_that_only_read(call: Call) -> None:
    tools = call.portal.call(call.server.list_tools).tools
    assert [tool.name for tool in tools] == ["load", "report", "ask", "tree", "compare", "cypher"]
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in tools) < 4 * 1500


SAME = {
    "report": ({"traces": ["small.json"]}, "report small.json"),
    "report explain": ({"traces": ["small.json"], "explain": "headline"}, "explain small.json headline"),
    "ask": ({"question": "ops_summary", "traces": ["small.json"], "top": 3}, "ask ops_summary small.json --top 3"),
    "tree": ({"trace": "small.json", "name": "/mm/"}, "tree small.json --name /mm/ --uids --gpu-time --depth 6"),
    "compare": ({"before": "small.json", "after": "pair/rank0.json"}, "diff small.json pair/rank0.json"),
    "cypher": (
        {"traces": ["small.json"], "statement": "MATCH (k:Kernel) RETURN count(k) AS n"},
        "cypher small.json MATCH~(k:Kernel)~RETURN~count(k)~AS~n",
    ),
}


@pytest.mark.parametrize("tool", SAME)
def test_a_tool_answers_what_its_command_prints(tool: str, call: Call, run: Run, folder: Path) -> None:
    arguments, command = SAME[tool]
    words = [str(folder / word) if word.endswith(".json") else word.replace("~", " ") for word in command.split()]
    code, out, error = run(*words, env={"COLUMNS": "160", "TRACELENS_GRAPH_CACHE": str(folder.parent / "cache")})
    assert code == 0, error
    answer = call(tool.split()[0], **arguments)
    assert not answer.failed, answer.text
    assert answer.text.partition("notes\n")[0] == out


def test_load_names_what_can_be_asked(call: Call) -> None:
    listed = call("load").text
    assert {line.split()[-1] for line in listed.splitlines()[1:]} == {
        "cut.json", "hostile.json", "none.json", "pair/rank0.json", "small.json",
    }  # fmt: skip
    assert "events" in call("load", trace="small.json").text


def test_json_is_json(call: Call) -> None:
    answer = call("ask", question="ops_summary", traces=["small.json"], format="json")
    assert json.loads(answer.text)["table"] == "ops_summary"
    damaged = call.portal.call(
        call.server.call_tool, "ask", {"question": "ops_summary", "traces": ["cut.json"], "format": "json"}
    )
    answer_alone, notes = (one.text for one in damaged.content)
    assert json.loads(answer_alone)["table"] == "ops_summary"
    assert "lost" in notes
    part = call("ask", question="ops_summary", traces=["small.json"], format="json", part={"device": "99"})
    assert part.text != answer.text


def test_damage_is_told_and_what_is_no_trace_is_an_error(call: Call) -> None:
    damaged = call("report", traces=["cut.json"])
    assert not damaged.failed
    assert "lost" in damaged.text
    assert call("report", traces=["none.json"]).failed
    assert not call("report", traces=["small.json"]).failed  # the server goes on


@pytest.mark.parametrize(
    "escape",
    ["../secret.json", "{root}/secret.json", "/etc/passwd", "out.json", "linked", "linked/out.json", "circle.json",
     "pair/../../secret.json", "", "-", "*.json", "a\0b", "--extension=x.py", "x" * 5000, "~", "/dev/stdin"],
)  # fmt: skip
def test_nothing_outside_the_folders_is_read(escape: str, call: Call, folder: Path) -> None:
    name = escape.replace("{root}", str(folder.parent))
    for tool, arguments in (("report", {"traces": [name]}), ("compare", {"before": "small.json", "after": name})):
        answer = call(tool, **arguments)
        if name:  # an empty name is the folder itself, which holds links that lead out
            assert "lies in the folders" in answer.text or "leads out" in answer.text
        assert answer.failed
        assert len(answer.text) < 500


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("ask", {"question": "opportunities", "parameters": {"arch": "{secret}"}}),
        ("ask", {"question": "opportunities", "parameters": {"x --extension": "evil.py"}}),
        ("ask", {"question": "--extension=evil.py"}),
        ("ask", {"question": "--like={secret}"}),
        ("report", {"arch": "{secret}"}),
        ("report", {"part": {"output": "x.html"}}),
        ("cypher", {"statement": "{secret}"}),
        ("cypher", {"statement": "--capture={secret}"}),
        ("cypher", {"statement": "LOAD FROM '{secret}' RETURN *"}),
        ("cypher", {"statement": "CREATE (n:Op) RETURN n"}),
    ],
)
def test_no_text_is_taken_for_an_option_or_a_file(
    tool: str, arguments: dict[str, Any], call: Call, folder: Path
) -> None:
    secret = str(folder.parent / "secret.json")
    arguments = json.loads(json.dumps(arguments).replace("{secret}", secret))
    answer = call(tool, traces=["small.json"], **arguments)
    assert answer.failed
    assert "aten::" not in answer.text


def test_large_answers_are_cut_at_a_line_and_say_so(call: Call, folder: Path, tmp_path: Path) -> None:
    one = call("tree", trace="small.json", lines=0).text
    assert len(one.encode()) <= LONGEST
    lines = [f"line {i}" for i in range(9_000)]
    cut = bounded("\n".join(lines).encode(), LONGEST)
    kept, _, said = cut.rstrip("\n").rpartition("\n")
    assert kept.split("\n") == lines[: kept.count("\n") + 1]
    assert "bytes are left out" in said
    assert len(cut) < LONGEST + 200


def test_json_that_is_too_long_is_refused(call: Call, folder: Path) -> None:
    many = [span("cpu_op", f"op{i}{'x' * 60}", 1000 + 10 * i, 9) for i in range(300)]
    (folder / "many.json").write_text(json.dumps({"traceEvents": many}))
    asked = {"traces": ["many.json"], "question": "host_times", "top": 0}
    shown = call("ask", **asked).text
    assert "bytes are left out" in shown
    assert len(shown) < LONGEST + 200
    refused = call("ask", **asked, format="json")
    assert refused.failed
    assert "bytes" in refused.text


def test_hostile_names_are_harmless(call: Call) -> None:
    for tool, arguments in (("report", {"traces": ["hostile.json"]}), ("tree", {"trace": "hostile.json"})):
        text = call(tool, **arguments).text
        assert [c for c in text if not c.isprintable() and c != "\n"] == []


def test_the_cache_goes_with_the_server(folder: Path, tmp_path: Path) -> None:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client(folder, tmp_path)) as server:
        Call(portal, server)("load", trace="small.json")
        assert any(path.suffix == ".tlg" for path in tmp_path.rglob("*"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_and_its_cache(number: signal.Signals, folder: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*PROGRAM, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        run.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        run.stdin.flush()
        assert run.stdout.readline()
        assert len(list(tmp_path.iterdir())) == 1
        run.send_signal(number)
        assert run.wait(60) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_call_ends_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio

    program, started = tmp_path / "program", tmp_path / "pid"
    program.write_text("#!/bin/sh\necho $$ > new; mv new pid; exec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))

    async def cancelled() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, ["info"], [], tmp_path)
            while not started.exists():
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    anyio.run(cancelled)
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_paths_of_several_folders(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.json").write_text("{}")
    traces = Traces([tmp_path / "a", tmp_path / "b"])
    assert traces.path("b.json") == str(tmp_path / "b" / "b.json")
    assert traces.path(str(tmp_path / "a")) == str(tmp_path / "a")
    with pytest.raises(TraceError):
        traces.path("c.json")


def test_without_the_library_one_line_names_the_extra(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    code, out, error = run("mcp", tmp_path)
    assert (code, out) == (1, "")
    assert "[mcp]" in error
