"""Commands on databases whose server is gone, is none, or is lost on the way; and what nobody should type.

Always one line, exit code 1 and no traceback; never the password.
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from handmade import HOSTILE, Run, small_trace

from tracelens_graph.cypher import library
from tracelens_graph.db.connection import Connection
from tracelens_graph.db.server import server

SECRET = "of-nobody-else"
RUN = f"hostile-{secrets.token_hex(4)}"

Cut = Callable[[int], str]


class Cable:
    """A way to a server that breaks for good when the server has answered some number of times."""

    def __init__(self, uri: str, answers: int) -> None:
        place = urlsplit(uri)
        self._target = place.hostname or "", place.port or 7687
        self._left = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends = [self._listener]
        self.uri = f"bolt://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(self._target)
                self._ends += [client, server]
                threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while received := source.recv(65536):
                if answers:
                    self._left -= 1
                    if self._left < 0:
                        self.cut()
                target.sendall(received)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """As when the server is killed: connections are reset, and nobody listens."""
        for end in self._ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def cut(neo4j: Connection) -> Iterator[Cut]:
    """The address of a server that is lost after so many answers."""
    cables: list[Cable] = []

    def after(answers: int) -> str:
        cables.append(Cable(neo4j.uri, answers))
        return cables[-1].uri

    yield after
    for cable in cables:
        cable.cut()


@pytest.fixture(autouse=True)
def _known(neo4j: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEO4J_URI", neo4j.uri)
    monkeypatch.setenv("NEO4J_USER", neo4j.user)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j.password)
    monkeypatch.setattr(server, "standard_folder", lambda: tmp_path / "no server")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "small.json"
    path.write_text(json.dumps(small_trace() | {"pushed_by": RUN}))
    return path


@pytest.fixture
def pushed(run: Run, trace: Path) -> str:
    assert run("db", "push", trace, "--run", RUN)[0] == 0
    return f"{RUN}/small"


def commands(trace: Path, out: Path) -> list[tuple[object, ...]]:
    return [
        ("check",),
        ("list",),
        ("query", "gpu_timeline", "--param", f"trace={RUN}/small"),
        ("query", "RETURN 1"),
        ("query", "MATCH (n:NoSuch) SET n.x = 1", "--write"),
        ("push", trace, "--run", RUN),
        ("pull", f"{RUN}/small", "--output", out),
        ("drop", f"{RUN}/small", "--yes"),
        ("demo",),
    ]


NUMBERS = range(len(commands(Path(), Path())))


def one_line(result: tuple[int, str, str], *secret: str) -> str:
    code, out, err = result
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert err.isascii()
    assert "Traceback" not in err
    assert not any(one in err for one in (SECRET, *filter(None, secret)))
    return err


@pytest.mark.parametrize("number", NUMBERS)
def test_no_server(run: Run, trace: Path, tmp_path: Path, number: int) -> None:
    command = commands(trace, tmp_path / "out.tlg")[number]
    assert "no server answers at bolt://127.0.0.1:9" in one_line(run("db", *command, "--uri", "bolt://127.0.0.1:9"))
    assert not (tmp_path / "out.tlg").exists()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_wrong_password(
    run: Run, neo4j: Connection, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    if not neo4j.password:
        pytest.skip("the server of NEO4J_URI asks for no password")
    monkeypatch.setenv("NEO4J_USER", f"nobody-{number}")  # the server locks a user out after some mistakes
    monkeypatch.setenv("NEO4J_PASSWORD", SECRET)
    said = one_line(run("db", *commands(trace, tmp_path / "out.tlg")[number]))
    assert f"wrong user or password for 'nobody-{number}'" in said


@pytest.mark.parametrize("answers", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("command", [("check",), ("list",), ("query", "RETURN 1"), ("query", "gpu_timeline")])
def test_a_server_that_is_lost(
    run: Run, cut: Cut, neo4j: Connection, pushed: str, command: tuple[str, ...], answers: int
) -> None:
    result = run("db", *command, "--uri", cut(answers))
    if result[0] == 0:
        assert answers >= 3  # that was all there is to say
        return
    said = one_line(result, neo4j.password)
    ways = ("the connection was lost", "does not talk like a Neo4j server", "no server answers")
    assert any(way in said for way in ways)
    assert "commit" not in said


def test_a_server_that_is_lost_during_a_long_query(run: Run, neo4j: Connection) -> None:
    cable = Cable(neo4j.uri, 1000)
    timer = threading.Timer(2, cable.cut)
    timer.start()
    endless = "UNWIND range(1, 100000000000) AS x RETURN count(x)"
    said = one_line(run("db", "query", endless, "--uri", cable.uri), neo4j.password)
    timer.join()
    assert said == f"error: {cable.uri}: the connection was lost\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["RETURN $x", "-p", "x=99999999999999999999"], "a number is too large"),
        (["RETURN $x", "-p", 'x={"a": [99999999999999999999]}'], "a number is too large"),
        (["RETURN $x", "-p", 'x="\\ud800"'], "half of a character"),
        (["RETURN '\udcff'"], "half of a character"),
        (["gpu_timeline", "-p", "trace=\udcff"], "no trace"),
        (["gpu_timeline", "-p", "trace="], "no trace ''"),
        (["gpu_timeline", "-p", "trace='}) DETACH DELETE (n) //"], "no trace"),
        (["gpu_timeline", "-p", f"trace=no {HOSTILE}"], "no trace"),
        (["gpu_timeline", "--uri", "bolt://127.0.0.1:9/?x=1"], "neo4j:// alone takes ?x=1"),
        (["gpu_timeline", "--database", "a b`"], "has no database"),
        ([""], "there is nothing to ask"),
        (["RETURN 1; RETURN 2"], "one statement"),
        (["RETURN 1 / 0"], "/ by zero"),
    ],
)
def test_odd_questions(run: Run, arguments: list[str], says: str) -> None:
    assert says in one_line(run("db", "query", *arguments))


def test_a_password_that_is_no_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", f"{SECRET}\udcff")
    assert "half of a character" in one_line(run("db", "list"))


def test_a_file_that_is_no_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.cypher").write_bytes(b"RETURN '\xff'")
    assert "it is no text in UTF-8" in one_line(run("db", "query", tmp_path / "bad.cypher"))


@pytest.mark.parametrize("timeout", ["nan", "inf", "0", "-1", "1e300"])
def test_impossible_times(run: Run, timeout: str) -> None:
    code, out, err = run("db", "query", "RETURN 1", "--timeout", timeout, env={"COLUMNS": "200"})
    assert (code, out) == (2, "")
    assert "from 0.001 to 1,000,000" in err


@pytest.mark.parametrize("name", ["timeout_s", "write"])
def test_parameters_that_cannot_be_called_so(run: Run, name: str) -> None:
    code, _, err = run("db", "query", f"RETURN ${name}", "-p", f"{name}=1", env={"COLUMNS": "200"})
    assert code == 2
    assert "no parameter can be called so" in err


@pytest.mark.parametrize("name", ["self", "question", "driver"])
def test_parameters_may_be_called_as_ours_are(run: Run, name: str) -> None:
    assert run("db", "query", f"RETURN ${name} AS x", "-p", f"{name}=1", "--format", "csv")[:2] == (0, "x\n1\n")


def test_columns_called_to_colour_terminals(run: Run) -> None:
    code, out, _ = run("db", "query", "RETURN 1 AS `a\x1b[31m\n`, '\x1b[0m' AS b")
    assert code == 0
    assert out.split() == ["a\\x1b[31m\\n", "b", "-----------", "-------", "1", "\\x1b[0m"]


def test_texts_that_look_like_something_else(run: Run, pushed: str, trace: Path) -> None:
    (other := trace.with_name("other.json")).write_text(json.dumps(small_trace() | {"pushed_by": f"{RUN} text"}))
    number = str(secrets.randbelow(10**12))
    assert run("db", "push", other, "--run", number)[0] == 0
    history = run("db", "query", "run_history", "-p", f"run={number}", "--format", "csv")
    assert len(history[1].splitlines()) == 2
    code, out, _ = run("db", "query", "modules_of_signature", "-p", "op=aten::linear", "-p", "input_dims=[[1, 2]]")
    assert (code, "nothing of this is in" in " ".join(out.split())) == (0, True)
    assert "op [[1, 2]] is not there" in one_line(run("db", "query", "op_signatures", "-p", "op=[[1, 2]]"))
    assert run("db", "query", "steps", "-p", "trace=null")[0] == 0
    assert run("db", "query", "RETURN $a + 1 AS b", "-p", "a=1", "--format", "csv")[1] == "b\n2\n"
    assert run("db", "drop", number, "--yes")[0] == 0


EVIL = (
    HOSTILE, "", "'", '"', "`", "$p", "a\nb", "*/", "//", "'}) DETACH DELETE (n) //", "`}) DETACH DELETE (n) //",
    "</script><script>alert(1)</script>", "\x1b[31m\x1b]0;title\x07", "nul\x00", "\ud800", "\u202ertl", "\u2028",
    "x" * 1_000_000, "k" * 10_000, "\U0001f680" * 500, "{name}", "\\u0041", "null", "[1,2]", "\x7f\x85",
)  # fmt: skip


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small trace once for each odd name, with the name wherever a trace has text."""
    first = small_trace()
    events = []
    for place, name in enumerate(EVIL):
        for event in json.loads(json.dumps(first["traceEvents"])):
            if event.get("ph") == "X":
                event |= {"ts": event["ts"] + place * 1_000_000, "pid": f"{event['pid']} {name[:99]}"}
                event["name"] = f"nn.Module: {name}" if event["name"].startswith("nn.Module") else name
                for key, value in event.get("args", {}).items():
                    if isinstance(value, str):
                        event["args"][key] = name[:99]
                    elif key in ("correlation", "External id"):
                        event["args"][key] = value + place * 100_000
            events.append(event)
    device = {"id": 0, "name": f"{HOSTILE}'}}) //", "totalGlobalMem": 2**70}
    job = {"rank": "'}) //", "world_size": "x", "pg_config": [{"pg_name": "`", "ranks": "x"}]}
    trace = first | {"traceEvents": events, "deviceProperties": [device], "distributedInfo": job, "pushed_by": RUN}
    path = tmp_path_factory.mktemp("evil") / "evil.json"
    path.write_text(json.dumps(trace))
    return path


def test_names_that_are_code_are_names(run: Run, evil: Path, tmp_path: Path) -> None:
    code, out, err = run("db", "push", evil, "--run", RUN, "--as", HOSTILE, "--label", f"k={HOSTILE}")
    assert code == 0
    assert "warning: " in err  # of half characters
    path = f"{RUN}/{HOSTILE}"
    everything = "MATCH (n) WHERE n.trace = $trace RETURN count(n) AS n, sum(COUNT { (n)--() }) AS edges"
    stored = run("db", "query", everything, "-p", f"trace={_id(run, HOSTILE)}", "--format", "csv")
    texts = [out]
    for query in library().values():
        traces = [name for name in ("trace", "a", "b") if name in query.defaults]
        code, out, err = run("db", "query", query.name, *(word for name in traces for word in ("-p", f"{name}={path}")))
        assert (code, err) == (0, ""), query.name
        texts.append(out)
    texts.append(run("db", "list")[1])
    for text in texts:
        assert text.replace("\n", "").isprintable()
    assert run("db", "query", everything, "-p", f"trace={_id(run, HOSTILE)}", "--format", "csv") == stored
    assert run("db", "pull", path, "--output", tmp_path / "evil.tlg")[0] == 0
    assert run("db", "drop", path, "--yes")[0] == 0


def _id(run: Run, name: str) -> str:
    question = "MATCH (t:Trace {run: $run, name: $name}) RETURN t.id AS id"
    return run("db", "query", question, "-p", f"run={RUN}", "-p", f"name={name}", "--format", "csv")[1].split()[1]


@pytest.mark.parametrize(
    "names",
    [
        ("a/b", "c/d"),
        ("with space", " "),
        ("1", "12e4"),
        ("[1]", "[1,2]"),
        ("\U0001f680", "'\"`"),
        ("$run", "//"),
        ("..", "*"),
        (HOSTILE, "null"),
    ],
)
def test_names_that_users_choose(run: Run, trace: Path, tmp_path: Path, names: tuple[str, str]) -> None:
    chosen, name = f"{RUN} {names[0]}", names[1]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(small_trace() | {"pushed_by": chosen}))
    code, out, err = run("db", "push", file, "--run", chosen, "--as", name, "--label", "k=\U0001f680 '=x = \"y")
    assert (code, len(out.splitlines())) == (0, 1), err
    listed = [row for row in json.loads(run("db", "list", "--format", "json")[1])["rows"] if row["run"] == chosen]
    assert [(row["name"], row["labels"]) for row in listed] == [(name, "k=\U0001f680 '=x = \"y")]
    for called in (f"{chosen}/{name}", listed[0]["id"], *([] if name == "null" else [name])):
        assert run("db", "query", "gpu_timeline", "-p", f"trace={called}")[0] == 0
    assert run("db", "pull", f"{chosen}/{name}", "-o", tmp_path / "back.tlg")[0] == 0
    assert run("db", "drop", chosen, "--yes")[0] == 0
