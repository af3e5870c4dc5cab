"""Write the reference pages from the code: docs/reference.md from the schema, docs/tables.md from the tables and what
they say about themselves, docs/cli.md from the commands.

python docs/make_reference.py            write all three
python docs/make_reference.py --check    change nothing; end with 1 if one is out of date
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from library import common, differences, listed, question_of
from pages import DOCS, publish
from repeats import Repeats

import tracelens_graph as tlg
from tracelens_graph import schema
from tracelens_graph._lazy import homes_of
from tracelens_graph.analyses.alignment.noise import Proof
from tracelens_graph.analyses.alignment.reasons import Reason
from tracelens_graph.analyses.diagnosis.finding import TOPICS
from tracelens_graph.analyses.idle.idle import CAUSE_MEANING
from tracelens_graph.analyses.places.attribution import LEVELS
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.report.report_tables import ReportOptions, report_tables
from tracelens_graph.analyses.timeline.timeline import ROW_MEANING
from tracelens_graph.cli.app import app
from tracelens_graph.cli.report import Added
from tracelens_graph.cypher import library
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.node import Node
from tracelens_graph.loaders.kineto.records import CATEGORIES
from tracelens_graph.perf.devices import architecture
from tracelens_graph.perf.registry import sheets
from tracelens_graph.registry import HOMES, REPORT, THEMES, schemas
from tracelens_graph.schema import REPAIR_MEANING
from tracelens_graph.simulate import simulate, write
from tracelens_graph.tables.table import Column

_MADE = "<!-- Made by docs/make_reference.py: change the code it reads, then run it. -->\n"
_GROUPS = (("host", schema.HOST_KINDS), ("GPU", schema.GPU_KINDS), ("beside", schema.LAYER_KINDS))
_WORDS = {int: "N", float: "N", str: "TEXT", Path: "FILE"}
_OF_TYPER = {"--help", "--install-completion", "--show-completion"}


def reference() -> str:
    """The reference of the graph: kinds, edges, properties, flags, rules, tables."""
    with tempfile.TemporaryDirectory() as folder:
        g = tlg.load(write(simulate(ranks=2, steps=1, layers=1), folder)[0])
        return "".join(_reference(g))


def _reference(g: tlg.TraceGraph) -> Iterator[str]:
    yield _MADE + "# Reference\n\n"
    yield "The contents of the graph, by name. [architecture.md](architecture.md) explains how it is built.\n"

    yield "\n## Python\n\n`import tracelens_graph as tlg`; names are imported on first use.\n\n"
    yield from _items((_c(name), _public(name)) for name in tlg.__all__)
    yield "\n### TraceGraph\n\nIn addition to networkx's methods for reading a graph:\n\n"
    yield from _members(tlg.TraceGraph, Graph, Core)
    yield "\n### Node\n\n`g.node(uid)`, `g.find(...)` and all other searches for nodes return nodes.\n\n"
    yield from _members(Node)

    yield "\n## Event nodes\n\n"
    yield (
        "An event node stands for one entry of the file's event list; its `uid` is its position there. The groups\n"
        "*host* and *GPU* make the call forest; kinds of the group *beside* are not in it.\n"
        "`tracelens-graph info` counts the entries of a file that are not nodes (flow arrows, metadata, spans).\n\n"
    )
    group = {kind: name for name, kinds in _GROUPS for kind in kinds}
    yield from _items((f"{_c(k.name)} ({group[k]})", schema.KIND_MEANING[k]) for k in schema.Kind)

    yield (
        "\nThe kind follows from the event's category (`cat`); among Python frames `nn.Module: ...` is a `Module`,\n"
        "among annotations `ProfilerStep#n` a `Step`. Entries of other categories are not nodes, but are counted.\n\n"
    )
    of_kind = [(k, [name for name, (_, kind) in CATEGORIES.items() if kind is k]) for k in schema.Kind]
    yield from _items((_c(k.name), ", ".join(map(_c, names))) for k, names in of_kind if names)

    yield "\n## Properties of event nodes\n\nStored, one column each:\n\n"
    yield from _properties(schema.STORED)
    yield "\nComputed on first use:\n\n"
    yield from _properties(schema.DERIVED)
    yield (
        "\nColumns hold numbers: rows (positions in the columns) and codes into tables of texts. Node attributes,\n"
        "DataFrames and exports give uids for rows, texts for codes, `pid` and `tid` for `thread`, the four parts\n"
        "of an argument set for `argset`, and leave out what was not recorded.\n"
    )

    yield "\n## Flags\n\nBits of the property `flags`; `Node.flags` returns these words.\n\n"
    yield from _items((f"{_c(f.name)} ({f.value})", schema.FLAG_MEANING[f]) for f in schema.Flag)

    yield "\n## Owner rules\n\nHow the op was found that a GPU event is charged to.\n\n"
    rules = ((_c(rule.name), schema.OWNER_RULE_MEANING[rule]) for rule in schema.OwnerRule)
    yield from _items(rules)

    yield "\n## Edges between event nodes\n\nThe type is the key of the edge in networkx.\n\n"
    yield from _edges(schema.EVENT_EDGES)

    yield (
        "\n## Context and knowledge\n\n"
        "Nodes that `g.full` adds, with text keys such as `stream:0:7`, and edges to and among them;\n"
        "[what each is](database-schema.md#context-and-knowledge). Kinds:\n"
    )
    made = set(dict(g.full.nodes(data="kind")).values())
    yield ", ".join(_c(name) for name in schema.CONTEXT_KINDS if name in made) + ".\nEdges:\n"
    made = {name for _, _, name in g.full.edges(keys=True)}
    yield ", ".join(_c(edge.name) for edge in schema.CONTEXT_EDGES if edge.name in made) + ".\n"

    yield "\n## Repairs\n\nWhat is mended in a broken file, by the name under which it is counted.\n\n"
    yield from _items((_c(name), what) for name, what in REPAIR_MEANING.items())

    yield "\n## Tables\n\nEvery table and its columns: [tables.md](tables.md).\n"


ROW_MEANINGS = {
    "gpu_timeline": ROW_MEANING,
    "idle_causes": {cause.name: meaning for cause, meaning in CAUSE_MEANING.items()},
}
"""Table with fixed rows -> name of a row -> its meaning."""

_QUERIES = """\
Many tables are *queries*, too: a file of Cypher answers the same question in a database, with the same rows and cells
(`tracelens-graph db query NAME`, `db.query(NAME)` in Python, or pasted into Neo4j Browser). Values that are absent in
memory are null there, and only complete traces answer. A query takes `trace` and `step` unless other parameters are
named. Columns that exist only in memory are listed with the reason, except those that need an option of reports.
Parameters of many queries and of `ask`, with their defaults (if one is listed twice, the file says which holds):

"""

_OF_TRACELENS = {name for name, home in HOMES.items() if home.module == "compat.ranks.schemas"}
"""Tables of TraceLens's layout alone; `about` defines their columns."""

_ALIGNED = "from tracelens_graph.analyses.alignment.difference import diff;"

_OF_RANKS = (
    "rank_times",
    "collective_kinds",
    "rank_balance",
    "rank_collectives",
    "rank_links",
    "rank_steps",
    "unmatched_collectives",
    "culprits",
    "late_ranks",
    "late_arrivals",
    "slowdown",
)
OTHER_TABLES = {
    "attribution": ("tracelens-graph ask attribution TRACE -p level=module", 'tlg.attribution(g, level="module")'),
    "module_tree": ("tracelens-graph modules TRACE --format table", "tlg.modules(g)"),
    "roofline_summary": (
        "tracelens-graph roofline TRACE --arch h100-sxm",
        'tlg.roofline_summary(g, tlg.architecture("h100-sxm"))',
    ),
    "below_roof": (
        "tracelens-graph roofline TRACE --arch h100-sxm --table below_roof",
        "from tracelens_graph.analyses.performance.roofline_points import below_roof; "
        'options = tlg.ReportOptions(arch=tlg.architecture("h100-sxm")); '
        'below_roof(tlg.report_tables(g, options)["unified_perf_summary"])',
    ),
    "unmodelled": ("tracelens-graph roofline TRACE --arch h100-sxm --table unmodelled", "tlg.unmodelled(g)"),
    "top_ops": (
        "tracelens-graph report TRACE",
        "from tracelens_graph.analyses.ops.top_ops import top_ops; top_ops(g)",
    ),
    "overview": (
        "tracelens-graph report TRACE TRACE",
        "from tracelens_graph.analyses.across.overview import overview, overview_line; "
        'overview([overview_line(g, "a"), overview_line(g, "b")])',
    ),
    "comparison": (
        "tracelens-graph diff TRACE TRACE --table ops_summary",
        'tlg.compare({"a": tlg.report_tables(g), "b": tlg.report_tables(g)})["ops_summary"]',
    ),
    "diff_totals": (
        "tracelens-graph diff TRACE TRACE",
        f"{_ALIGNED} from tracelens_graph.analyses.alignment.tables import totals_table; totals_table(diff(g, g))",
    ),
    "diff_places": (
        "tracelens-graph diff TRACE TRACE --points",
        f"{_ALIGNED} from tracelens_graph.analyses.alignment.tables import places_table; places_table(diff(g, g))",
    ),
    "diff_times": (
        "tracelens-graph diff TRACE TRACE -f json",
        f"{_ALIGNED} from tracelens_graph.analyses.alignment.times import times_table; times_table(diff(g, g))",
    ),
    "diff_phases": (
        "tracelens-graph diff TRACE TRACE -f json",
        "from tracelens_graph.analyses.serving.compared import phases_table; "
        'phases_table(g.window(), g.window(), ("a", "b"))',
    ),
    "diff_stats": (
        "tracelens-graph report TRACE --compare-with TRACE --table diff_stats",
        f"{_ALIGNED} from tracelens_graph.analyses.alignment.common_ancestors import TraceLensDiff; "
        "TraceLensDiff(diff(g, g)).diff_stats",
    ),
    "diff_stats_unique_args_summary": (
        "tracelens-graph diff TRACE TRACE --layout tracelens --csv diff",
        f"{_ALIGNED} from tracelens_graph.analyses.alignment.common_ancestors import TraceLensDiff; "
        "TraceLensDiff(diff(g, g)).diff_stats_unique_args_summary",
    ),
    "perf_summary_by_lca": (
        "tracelens-graph diff TRACE TRACE --layout tracelens --csv diff",
        f"{_ALIGNED} from tracelens_graph.analyses.alignment.common_ancestors import TraceLensDiff; "
        "TraceLensDiff(diff(g, g)).perf_summary_by_lca",
    ),
    "diff_runs": (
        "tracelens-graph diff TRACE TRACE TRACE",
        "from tracelens_graph.analyses.alignment.several import runs_table; "
        'runs_table([("a", g.window()), ("b", g.window())])',
    ),
    "diff_within": (
        "tracelens-graph diff --within TRACE --format json",
        "from tracelens_graph.analyses.alignment.several import odd_parts; odd_parts(g.window())",
    ),
    **{
        name: (
            "tracelens-graph ranks TRACE TRACE --layout tracelens --csv ranks",
            f'tlg.tracelens_tables(ranks)["{name}"]',
        )
        for name, home in HOMES.items()
        if home.module == "compat.ranks.schemas"
    },
    **{
        name: (
            f"tracelens-graph report PROFILE --layout tracelens --table {name}",
            f'from tracelens_graph.compat.jax.tables import jax_tables; jax_tables(profile)["{name}"]',
        )
        for name, home in HOMES.items()
        if home.module == "compat.jax.tables"
    },
    **{
        f"critical_path{name}": (
            f"tracelens-graph ranks TRACE TRACE --table critical_path{name}",
            f"tlg.critical_path(g).{method}()",
        )
        for name, method in (
            ("", "segments"),
            ("_classes", "classes"),
            ("_ranks", "ranks"),
            ("_names", "names"),
            ("_ties", "near_ties"),
            ("_slack", "slack"),
        )
    },
    "critical_path_steps": (
        "tracelens-graph ranks TRACE TRACE --table critical_path_steps",
        "from tracelens_graph.analyses.critical_path.critical_path import step_paths; "
        "from tracelens_graph.analyses.critical_path.path_tables import steps; steps(step_paths(g))",
    ),
    "what_if": (
        "tracelens-graph ranks TRACE TRACE --what-if collectives=2",
        "tlg.what_if(g, ops={'aten::mm': 2}).table()",
    ),
    **{
        name: (f"tracelens-graph ranks TRACE TRACE --table {name}", f'tlg.rank_tables([g, g])["{name}"]')
        for name in _OF_RANKS
    },
    **{
        name: (
            f"tracelens-graph report ET --table {name}",
            f"from tracelens_graph.analyses.structure.calls import {name}; {name}(linked)",
        )
        for name in ("calls_by_category", "calls_by_op", "calls_by_arguments")
    },
    **{
        name: (
            f"tracelens-graph link TRACE --et ET --table {name}",
            "from tracelens_graph.linkage.validation import Validation; "
            f'Validation(linked, linked.link).tables()["{name}"]',
        )
        for name in ("link_counts", "link_ways", "link_ops")
    },
    **{
        name: (
            f"tracelens-graph replay TRACE --table {name}",
            f"from tracelens_graph.replay import {name}; {name}(g)",
        )
        for name in ("replay_signatures", "replay_coverage")
    },
    "replay_verify": (
        "tracelens-graph replay --verify PROGRAMS",
        "from tracelens_graph.replay.verify.verify import verify; verify(programs)",
    ),
    **{
        name: (
            f"tracelens-graph replay --compare A.json B.json --table {name}",
            f"from tracelens_graph.replay.devices import compared_results; compared_results(a, b).{name[7:]}",
        )
        for name in ("replay_devices", "replay_results")
    },
    "tensor_versions": (
        "tracelens-graph tensor TRACE --et ET 7",
        "from tracelens_graph.analyses.tensors.life import find_things, versions; "
        'versions(linked, find_things(linked, "7"))',
    ),
    "tensor_life": (
        "tracelens-graph tensor TRACE --et ET s7",
        "from tracelens_graph.analyses.tensors.life import find_things, tensor_life; "
        'tensor_life(linked, find_things(linked, "s7")[0])',
    ),
}
"""Table that is in no report -> a command and a call in Python that give it."""


def tables() -> str:
    """The reference of the tables: what each answers, how to get it, its columns."""
    with tempfile.TemporaryDirectory() as folder:
        g = tlg.load(write(simulate(ranks=2, steps=1, layers=1), folder)[0])
        return "".join(_tables(g))


def _tables(g: tlg.TraceGraph) -> Iterator[str]:
    declared = schemas()
    yield _MADE + "# Tables\n\n"
    yield (
        "Every analysis gives a `Table`: `table.columns`, `table.records()`, `table.to_pandas()`. Units and\n"
        "definitions are in `table.about` and `DataFrame.attrs`; `table.notes` say what a table leaves out.\n"
        "[report.md](report.md#tables-and-dataframes) lists the calls that give DataFrames.\n\n"
        "*Busy* time is the length of a union of intervals: work that overlaps counts once. Any other time\n"
        "is a sum or a statistic of durations. Columns of one quantity share a line, and end in the name of their\n"
        "statistic; a standard deviation has one degree of freedom less, and is absent for a single value.\n"
        "A uid is the position of an event in the file's event list. *With* names the option of\n"
        "`tracelens-graph report` that adds a column, in Python a field of `tlg.ReportOptions`.\n\n"
        "Names in calls:\n\n"
        "* `g`: `tlg.load(TRACE)`, or a [window](windows-and-steps.md) of it (`g.window(step=3)`)\n"
        "* `ranks`: `tlg.load_set(FOLDER)`\n"
        "* `linked`: `tlg.load(TRACE, et=ET)`, see [linkage.md](linkage.md)\n"
        "* `programs`: a folder that `replay -o` wrote; `a`, `b`: results of its programs, see [replay.md](replay.md)\n"
        "* `profile`: a profile of [JAX](jax.md)\n\n"
    )
    yield _QUERIES + listed(common()) + "\n"
    questions = {name: home for name, home in HOMES.items() if home.is_question and name in declared}
    yield "Of a theme:\n\n"
    for theme, about in THEMES.items():
        if names := [name for name, home in questions.items() if home.theme == theme]:
            yield f"* {about}: {', '.join(f'[{name}](#{name})' for name in names)}\n"
    repeats = Repeats()
    reported = list(report_tables(g, ReportOptions(short_kernels_us=1)))
    by_name = [name for name in REPORT if name not in (*reported, "programs")]
    yield (
        "\n## In a report\n\n"
        "`tracelens-graph report TRACE --table NAME` prints one. `g.tables` has all of these as DataFrames,\n"
        "`tlg.report_tables(g, tlg.ReportOptions(...))` as Tables; most are functions, such as `tlg.gpu_timeline(g)`.\n"
        "A report has the tables of short kernels only with `--short-kernels`, and `programs` only for a\n"
        f"profile of JAX. These are made only by name: {', '.join(map(_c, by_name))}.\n"
    )
    optional = _optional_columns(g)
    for name in REPORT:
        yield from _table(repeats, name, declared[name].answers, "", "", declared[name].columns, optional[name])
        if name in ROW_MEANINGS:
            yield "\nIts rows:\n\n"
            yield from _items((_c(row), what) for row, what in ROW_MEANINGS[name].items())
    families = ", ".join(map(_c, sheets()))
    yield from _table(
        repeats,
        "tables by family",
        "What calls of one family of operations should cost and what they reached. Nested calls count, too, so the\n"
        "times do not add up. Each table also has a column `param: ...` for every size. The tables: "
        f"{families}.",
        "tracelens-graph report TRACE --table GEMM",
        'tlg.report_tables(g)["GEMM"]',
        declared["perf_sheet"],
    )
    yield "\n## Of other commands and calls\n"
    for name, access in OTHER_TABLES.items():
        yield from _table(repeats, name, declared[name].answers, *access, declared[name].columns)
        if name == "attribution":
            yield f"\nLevels: {', '.join(map(_c, LEVELS))}; see [modules.md](modules.md#by-op-launch-and-kernel).\n"
        if name == "diff_places":
            for column, words in (("reason", Reason), ("proof", Proof)):
                yield f"\nWords of `{column}`:\n\n"
                yield from _items((_c(word), word.meaning) for word in words)
    yield (
        "\n## Of questions\n\n"
        "Answers to the questions of `tracelens-graph ask` and `db query`; see [asking.md](asking.md). To ask one:\n"
        "`tracelens-graph ask NAME TRACE`, or `tlg.QUESTIONS[NAME](g)` in Python. Questions about several traces take\n"
        "several, in Python as a `TraceSet`, such as `tlg.load_set(FOLDER)` gives, or as graphs in a list.\n"
    )
    for name, question in QUESTIONS.items():
        if name not in (*REPORT, *OTHER_TABLES):
            yield from _table(repeats, name, question.answers, "", "", declared[name].columns)
    yield from _table(
        repeats, "classes", "Classes of equal call subtrees with GPU work.", "", "g.classes()", g.classes().about
    )
    yield (
        "\n## Verdict\n\n"
        "No table, but what a report begins with: `tlg.verdict(g)` gives findings with `topic`, `text`, `evidence`\n"
        "(the numbers behind it), `severity` (`fact`, `minor`, `major`) and `ask_next`.\n\n"
    )
    yield from _items((_c(topic), what) for topic, what in TOPICS.items())


def _optional_columns(g: tlg.TraceGraph) -> dict[str, dict[str, str]]:
    """Table of the report -> column -> the option with which the table has it."""
    plain = report_tables(g)
    switches: dict[str, Any] = {field.name: True for field in fields(ReportOptions) if field.default is False}
    found: dict[str, dict[str, str]] = {name: {} for name in REPORT}
    for switch, value in (switches | {"arch": architecture("h100-sxm"), "compare_with": g.everything}).items():
        with_it = report_tables(g, ReportOptions(**{switch: value}))
        for name, by_column in found.items():
            for column in set(with_it[name].columns) - set(plain[name].columns):
                spelled = switch.replace("_", "-")
                by_column[column] = f"--add {spelled}" if spelled in [*Added] else f"--{spelled}"
    return found


def _table(
    repeats: Repeats,
    name: str,
    meaning: str,
    command: str,
    call: str,
    about: Mapping[str, Column],
    optional: Mapping[str, str] = {},
) -> Iterator[str]:
    """The section on one table: what it says, how to get it, its columns."""
    query = library().get(name)
    yield f"\n### {name}\n\n{question_of(query) if query else meaning}\n\n"
    if ways := [f"{kind}: {_c(text)}" for kind, text in (("Command", command), ("Python", call)) if text]:
        yield "\\\n".join(ways) + "\n\n"
    if query:
        yield from differences(query, about, common())
    rows = [(_c(c), a.unit, a.definition) for c, a in about.items()]
    if name in _OF_TRACELENS:
        yield f"Columns, as TraceLens has them: {', '.join(row[0] for row in rows)}.\n"
        return
    by_option: dict[str, list[tuple[str, str, str]]] = {}
    for row in rows:
        by_option.setdefault(optional.get(row[0].strip("`"), ""), []).append(row)
    rows = _by_quantity(by_option.pop("", []))
    rows += [
        (f"{names}, with {_c(option)}", *others)
        for option, found in by_option.items()
        for names, *others in _by_quantity(found)
    ]
    own, elsewhere = repeats.split(name, rows)
    items = [(_with_unit(*row), definition.replace(_OF_DEVIATION, "")) for *row, definition in own]
    yield from _items(items)
    yield ("\n" if own and elsewhere else "") + elsewhere


_SAYS = re.compile(r"_[mun]s`$| ms`$|\(%\)`$|_percent`$|_bytes`$")
"""Names of columns that end with their unit."""

_OF_DEVIATION = " (one degree of freedom less; none for a single value)"
"""What the page says once."""

_STATISTICS = {
    "mean": "mean",
    "median": "median",
    "std": f"standard deviation{_OF_DEVIATION}",
    "min": "smallest",
    "max": "greatest",
    "sum": "sum",
}
"""End of a column's name -> how its definition begins."""


def _by_quantity(rows: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The rows, those of one quantity's statistics as one."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for name, unit, definition in rows:
        stem, _, ending = name.strip("`").rpartition("_")
        words, of, quantity = definition.partition(" of ")
        if of and words.endswith("(one degree"):
            words, of, quantity = (part.strip() for part in definition.partition(") of "))
            words, of = words + ")", " of "
        statistic = stem and words == _STATISTICS.get(ending)
        key = (stem, unit, of + quantity) if statistic else (name, unit, definition)
        found.setdefault(key, []).append((name, words if statistic else ""))
    return [
        (
            _short(stem, [name for name, _ in same]),
            unit,
            rest.removeprefix(" of ") if len(same) > 1 else same[0][1] + rest,
        )
        for (stem, unit, rest), same in found.items()
    ]


def _with_unit(names: str, unit: str) -> str:
    """Names of columns with their unit, unless they say it themselves, in front of the option that adds them."""
    names, behind, option = names.partition(", with ")
    return names + (f" ({unit})" if unit and not _SAYS.search(names) else "") + behind + option


def _short(stem: str, names: Sequence[str]) -> str:
    """Names of one stem, that of all but the first without it."""
    return ", ".join([names[0], *(name.replace(stem, "", 1) for name in names[1:])])


def _public(name: str) -> str:
    value = getattr(tlg, name)
    if name == "__version__":
        return "the version"
    return _first_line(value if inspect.isroutine(value) or isinstance(value, type) else _constant(name))


def _constant(name: str) -> str:
    """The text below the assignment of a public name: an object's own documentation would be that of its type."""
    module = import_module(f"tracelens_graph.{homes_of(tlg._NAMES)[name]}")
    body = ast.parse(inspect.getsource(module)).body
    for statement, below in pairwise(body):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == name for one in targets):
            return str(ast.literal_eval(below.value)) if isinstance(below, ast.Expr) else ""
    return ""


def _members(*classes: type) -> Iterator[str]:
    """Public methods and properties that the classes themselves define, by name."""
    found: dict[str, Any] = {}
    for cls in classes:
        found = {
            name: member
            for name, member in vars(cls).items()
            if name[0] != "_" and inspect.getdoc(member) not in (None, inspect.getdoc(type(member)))
        } | found
    shown = (
        (_c(f"{name}()" if inspect.isfunction(found[name]) else name), _first_line(found[name]))
        for name in sorted(found)
    )
    yield from _items(shown)


def _first_line(documented: Any) -> str:
    text = documented if isinstance(documented, str) else inspect.getdoc(documented) or ""
    return " ".join(text.split("\n\n")[0].split())


def _properties(properties: Sequence[schema.Property]) -> Iterator[str]:
    yield from _items(
        (f"{_c(p.name)} ({', '.join(filter(None, [str(p.dtype), p.unit]))})", p.meaning) for p in properties
    )


def _edges(edges: Sequence[schema.EdgeType]) -> Iterator[str]:
    def kinds(text: str) -> str:
        return ", ".join(part if part == "event" else _c(part) for part in text.split("|"))

    yield from _items((f"{_c(e.name)}, {kinds(e.source)} to {kinds(e.target)}", e.meaning) for e in edges)


def command_line() -> str:
    """The reference of the command line."""
    return "".join(_command_line())


def _command_line() -> Iterator[str]:
    root = typer.main.get_command(app)
    yield _MADE + "# Command line\n\n"
    yield from (f"{paragraph}\n\n" for paragraph in _paragraphs(root.help))
    yield "Exit codes: 0 done, 1 the trace cannot be read or cannot answer (one line on standard error says why), 2\n"
    yield "wrong usage, 3 a condition of `--fail-if` holds, 130 interrupted. Results go to standard output,\n"
    yield "progress and errors to standard error.\n\n"
    yield "`-o FILE` writes an answer in the format of the file's suffix; `-f json` (or csv, md, xlsx) prints it.\n"
    yield "JSON on standard output begins with the summary and has at most 20,000 bytes, unless `--top` or `--all`\n"
    yield "asks for more; a file holds everything. [report-json.md](report-json.md) has the schema.\n\n"
    repeats = Repeats()
    yield from _options(root, repeats)
    yield "\nEvery command also has `--help` or `-h`. `--install-completion` sets up the completion of your shell.\n"
    yield from _commands(root, "tracelens-graph", repeats)


def _commands(group: Any, above: str, repeats: Repeats) -> Iterator[str]:
    for name, command in group.commands.items():
        path = f"{above} {name}"
        yield f"\n## {path}\n\n"
        for paragraph in _paragraphs(command.help):
            example = paragraph.removeprefix("Example: ")
            yield f"    {example}\n\n" if example != paragraph else f"{paragraph}\n\n"
        yield from _options(command, repeats, path)
        if hasattr(command, "commands"):
            yield from _commands(command, path, repeats)


def _options(command: Any, repeats: Repeats, path: str = "") -> Iterator[str]:
    hints = get_type_hints(command.callback)
    rows = []
    for option in command.params:
        if _OF_TYPER.isdisjoint(option.opts) and not getattr(option, "hidden", False):
            word, default = _word(option, hints[option.name]), ""
            if not option.required and option.show_default and option.default not in (None, False):
                default = f" Default: {getattr(option.default, 'value', option.default)}."
            names = ", ".join(map(_c, [*option.opts, *option.secondary_opts])) if option.opts[0][0] == "-" else _c(word)
            value = "" if not word or names == _c(word) else f" {_c(word)}"
            rows.append((names, value, (option.help or "") + default))
    own, elsewhere = repeats.split(path, rows)
    yield from _items(own)
    yield ("\n" if own and elsewhere else "") + elsewhere


def _word(option: Any, hint: Any) -> str:
    """What stands for an option's value; nothing for a switch."""
    types = [part for part in (get_args(hint) or (hint,)) if part is not type(None)]
    kind = next(iter(get_args(types[0])), types[0])
    if kind is bool:
        return ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(choice.value for choice in kind)
    return option.metavar or _WORDS.get(kind, "TEXT")


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(part.split()) for part in (text or "").split("\n\n")]


def _c(text: str) -> str:
    return f"`{text}`"


def _items(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A list in Markdown; what stands last in a row is said of what stands before."""
    yield from (f"* {''.join(named)}: {said}\n" for *named, said in rows)


if __name__ == "__main__":
    sys.exit(
        publish({DOCS / "reference.md": reference(), DOCS / "tables.md": tables(), DOCS / "cli.md": command_line()})
    )
