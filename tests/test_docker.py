"""docker/compose.yaml, without a docker engine: what it says, and its settings on a server of this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from neo4j_server import PATIENCE_S, SMALL, free_ports

from tracelens_graph.db.connection import DEFAULT_USER, Connection
from tracelens_graph.db.server import server
from tracelens_graph.db.server.jars import Java, neo4j_version
from tracelens_graph.db.server.settings import BROWSER

CHECKOUT = Path(__file__).parent.parent
FILE = CHECKOUT / "docker" / "compose.yaml"
PASSWORD = "one for docker"


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    """The one service of the file."""
    (service,) = yaml.safe_load(FILE.read_text())["services"].values()
    return service


def filled(text: str, **variables: str) -> str:
    """A text with the variables that compose would fill in; a variable without value or default is an error."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match["name"], match["kind"], match["rest"]
        if variables.get(name):
            return variables[name]
        if kind == ":-":
            return rest
        raise LookupError(f"{name}: {rest}")

    return re.sub(r"(?<!\$)\$\{(?P<name>\w+)(?:(?P<kind>:[-?])(?P<rest>[^}]*))?\}", value, text).replace("$$", "$")


def settings(service: dict[str, Any]) -> dict[str, str]:
    """The lines of neo4j.conf that the image makes of the environment: _ is a dot, __ is a _."""
    return {
        name.removeprefix("NEO4J_").replace("__", "\0").replace("_", ".").replace("\0", "_"): filled(value)
        for name, value in service["environment"].items()
        if name != "NEO4J_AUTH"
    }


def test_the_image_is_that_of_the_local_server(service: dict[str, Any]) -> None:
    assert service["image"] == f"neo4j:{neo4j_version()}-community"


def test_a_password_is_to_be_given(service: dict[str, Any]) -> None:
    login = service["environment"]["NEO4J_AUTH"]
    assert filled(login, NEO4J_PASSWORD=PASSWORD) == f"{DEFAULT_USER}/{PASSWORD}"
    for variables in ({}, {"NEO4J_PASSWORD": ""}):
        with pytest.raises(LookupError, match="NEO4J_PASSWORD: .*8 characters"):
            filled(login, **variables)
    assert FILE.read_text().count("NEO4J_PASSWORD:") == 1


def test_it_is_reachable_from_this_machine_only(service: dict[str, Any]) -> None:
    assert {filled(port) for port in service["ports"]} == {"127.0.0.1:7474:7474", "127.0.0.1:7687:7687"}
    moved = {filled(port, NEO4J_BOLT_PORT="1", NEO4J_HTTP_PORT="2") for port in service["ports"]}
    assert moved == {"127.0.0.1:2:7474", "127.0.0.1:1:7687"}
    assert "network_mode" not in service


def test_neo4j_browser_talks_to_this_machine_only(service: dict[str, Any]) -> None:
    wanted = settings(service)
    same = {name for name in BROWSER if name != "browser.remote_content_hostname_whitelist"}
    assert {name: wanted[name] for name in same} == {name: BROWSER[name] for name in same}


@pytest.mark.checkout
def test_what_is_mounted(service: dict[str, Any]) -> None:
    named = set(yaml.safe_load(FILE.read_text())["volumes"])
    mounts = {target: (source, mode) for source, target, *mode in (line.split(":") for line in service["volumes"])}
    assert mounts.keys() == {"/data", "/logs", "/import", "/cypher"}
    assert {mounts[target][0] for target in ("/data", "/logs", "/import")} == named
    source, mode = mounts["/cypher"]
    assert mode == ["ro"]
    queries = (FILE.parent / source).resolve()
    assert queries == CHECKOUT / "cypher"
    assert list(queries.rglob("*.cypher"))
    assert (queries / "browser" / "tracelens.grass").is_file()


def test_the_health_check(service: dict[str, Any], tmp_path: Path) -> None:
    """It logs in as the user with the password of the environment, which is in no argument."""
    kind, command = service["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    shell = tmp_path / "cypher-shell"
    shell.write_text('#!/bin/sh\necho "$NEO4J_USERNAME|$NEO4J_PASSWORD|$*"\n')
    shell.chmod(0o755)
    told = subprocess.run(
        [shutil.which("sh") or "sh", "-c", filled(command)],
        env={"PATH": str(tmp_path), "NEO4J_AUTH": "neo4j/a/b $c"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "neo4j|a/b $c|RETURN 1\n"


def test_a_server_starts_with_its_settings(
    service: dict[str, Any], neo4j_program: tuple[Java, Path], tmp_path: Path
) -> None:
    java, files = neo4j_program
    wanted = settings(service)
    assert "server.memory.heap.max_size" in wanted
    bolt, http = free_ports()
    wanted = {name: value for name, value in wanted.items() if not name.endswith(".advertised_address")}
    try:
        started, _ = server.start(
            tmp_path / "home", java, files, password=PASSWORD, bolt_port=bolt, http_port=http, **SMALL,
            settings=wanted, patience_s=PATIENCE_S,
        )  # fmt: skip
        with Connection(started.uri, DEFAULT_USER, PASSWORD).driver() as driver:
            shown = driver.execute_query(
                "SHOW SETTINGS YIELD name, value WHERE name IN $names", names=list(wanted), database_="system"
            ).records
    finally:
        server.stop(tmp_path / "home")
    values = {record["name"]: record["value"].lower() for record in shown}
    sizes = {"1g": "1.00gib", "2g": "2.00gib"}
    assert values == {name: sizes.get(value, value) for name, value in wanted.items()}
