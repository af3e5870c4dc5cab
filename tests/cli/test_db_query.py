"""`db query`, `db queries` and `db demo` on a real server."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path

import pytest
from handmade import Run, small_trace

from tracelens_graph.cypher import library
from tracelens_graph.db.connection import Connection


@pytest.fixture
def pushed(run: Run, neo4j: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Path of a trace in the database that no other test has."""
    for name, value in (("URI", neo4j.uri), ("USER", neo4j.user), ("PASSWORD", neo4j.password)):
        monkeypatch.setenv(f"NEO4J_{name}", value)
    (tmp_path / "small.json").write_text(json.dumps(small_trace() | {"mark": "db query"}))
    assert run("db", "push", tmp_path / "small.json", "--run", "cli-query")[0] == 0
    return "cli-query/small"


def test_a_query_by_name(run: Run, pushed: str) -> None:
    code, text, _ = run("db", "query", "category_shares", "--param", f"trace={pushed}")
    assert code == 0
    assert text.startswith(library()["category_shares"].title)
    _, text, _ = run("db", "query", "category_shares", "-p", f"trace={pushed}", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == list(library()["category_shares"].columns)
    _, text, _ = run("db", "query", "category_shares", "-p", f"trace={pushed}", "--format", "json")
    assert [row["count"] for row in json.loads(text)["rows"]] == [int(row["count"]) for row in rows]


def test_a_statement_with_parameters(run: Run, pushed: str) -> None:
    statement = "MATCH (t:Trace {path: $path})<-[:IN_TRACE]-(d:Device) RETURN $number AS number, t.nodes AS nodes"
    code, text, _ = run("db", "query", statement, "-p", f"path={pushed}", "-p", "number=7", "--format", "csv")
    assert code == 0
    assert text.splitlines()[:2] == ["number,nodes", "7,13"]


def test_a_file_in_the_form_of_the_library(run: Run, pushed: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.cypher"
    file.write_text(library()["category_shares"].text)
    ours, theirs = (
        list(csv.DictReader(io.StringIO(run("db", "query", asked, "-p", f"trace={pushed}", "--format", "csv")[1])))
        for asked in ("category_shares", file)
    )
    assert ours
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        assert float(one.pop("percent")) == pytest.approx(float(other.pop("percent")))  # without noise in the library
        assert one == other
    file.write_text("WITH {path: 'a'} AS p LOAD CSV FROM 'file:///x' AS line RETURN line")
    assert run("db", "query", file, "-p", "path=b")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nothing_of_the_kind",), 1, "no query is called 'nothing_of_the_kind'"),
        (("category_shares", "-p", "trace=nowhere"), 1, "no trace 'nowhere'"),
        (("category_shares", "-p", "tarce=x"), 1, "did you mean trace"),
        (("category_shares", "-p", "trace"), 2, "NAME=VALUE"),
        (("gpu_timeline", "-p", "step=abc"), 1, "step=abc: a whole number or null is wanted"),
        (("gpu_timeline", "-p", "step=999", "-p", "trace=cli-query/small"), 1, "step 999 is not there; there is only"),
        (("idle_gaps", "-p", "top=many"), 1, "top=many: a whole number is wanted"),
        (("MATCH (n) DETACH DELETE n",), 1, "--write"),
        (("no/such/file.cypher",), 1, "no such file"),
        (("/tmp",), 1, "/tmp: a folder; the name of a query, a .cypher file or a statement is wanted"),
        (("/dev/null",), 1, "/dev/null: a file whose name does not end in .cypher"),
        (("  ",), 1, "there is nothing to ask"),
        (("RETURN $x AS x", "-p", "x=1", "-p", "x=2"), 2, "x is given twice"),
        (("RETURN 1", "--csv"), 2, "no such option: --csv; did you mean --format csv?"),
        (("RETURN 1", "--database", "system"), 1, "'system' is the server's own"),
        (("WITH {top: 5} AS p RETURN p.top", "-p", "top=many"), 1, "top=many: a whole number is wanted"),
    ],
)
def test_mistakes(run: Run, pushed: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    got, out, err = run("db", "query", *arguments)
    assert (got, out) == (code, "")
    assert said in " ".join(err.split())


def test_parameters_of_a_statement_are_of_the_types_of_its_defaults(run: Run, pushed: str) -> None:
    text = "WITH {top: 5, least: 1, word: 'a', any: null} AS p "
    text += "RETURN p.top AS top, p.least AS least, p.word AS word, p.any AS any"
    _, out, _ = run(
        "db", "query", text, "-p", "top=3", "-p", "least=0.5", "-p", "word=7", "-p", "any=[1]", "--format", "json"
    )
    assert json.loads(out)["rows"] == [{"top": 3, "least": 0.5, "word": "7", "any": [1]}]
    assert json.loads(run("db", "query", text, "-p", "top=null", "--format", "json")[1])["rows"][0]["top"] is None


def test_unknown_names_are_warned_of_beside_the_rows(run: Run, pushed: str) -> None:
    code, out, err = run("db", "query", "MATCH (k:Kernl) RETURN count(k) AS n", "--format", "csv")
    assert (code, out.split()) == (0, ["n", "0"])
    assert err == "warning: no label Kernl; did you mean Kernel?\n"


def test_the_library_is_listed_shown_and_saved(run: Run, tmp_path: Path) -> None:
    _, text, _ = run("db", "queries", "--format", "csv")
    assert [row["query"] for row in csv.DictReader(io.StringIO(text))] == list(library())
    assert run("db", "queries", "gpu_timeline")[1].strip() == library()["gpu_timeline"].text.strip()
    assert run("db", "queries", "gpu_timelin")[0] == 1
    code, text, _ = run("db", "queries", "--save", tmp_path / "browser")
    assert code == 0
    with zipfile.ZipFile(tmp_path / "browser" / "queries.zip") as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert texts == {f"{query.theme}/{query.name}.cypher": query.text for query in library().values()}
    assert "node.Kernel" in (tmp_path / "browser" / "tracelens.grass").read_text()


def test_the_demo_says_where_to_look_and_what_to_ask(run: Run, pushed: str) -> None:
    code, text, err = run("db", "demo")
    assert (code, err) == (0, "")
    assert "demo/rank0" in text
    assert "/browser/" in text
    assert library()["path_to_python"].text.strip() in text
    _, listed, _ = run("db", "query", "path_to_python", "-p", "trace=demo/rank0", "--format", "csv")
    kinds = [row["kind"] for row in csv.DictReader(io.StringIO(listed))]
    assert kinds[:2] == ["Kernel", "RuntimeCall"]
    assert "PythonFunction" in kinds
