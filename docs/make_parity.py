"""Write docs/parity.md from the list of departures and from what a comparison with TraceLens's tables measures.

python docs/make_parity.py            write it
python docs/make_parity.py --check    change nothing; end with 1 if it is out of date

It needs the real traces and the reference tables, which are not part of the project; without them nothing is done.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from pages import CHECKOUT, DOCS, publish

sys.path.insert(0, str(CHECKOUT / "tests"))

from parity.cases import cases, evals, everything_compared, jax_profiles, ranks_of_jobs
from parity.comparing import EXACT, PER_INTERVAL_US
from parity.departures import Account, Departure, account, departures, elsewhere, more_linked

_MADE = "<!-- Made by docs/make_parity.py: change tests/parity/departures.toml or the code, then run it. -->\n"


def parity() -> str:
    """The page."""
    known = departures()
    tables = everything_compared()
    found = account(known, tables)
    if found.unexplained or found.wide:
        raise SystemExit("the comparison does not hold: run pytest tests/parity")
    others = account([one for one in known if not one.modelled_here_alone], tables)
    return "".join(_page(known, found, len(others.unexplained)))


def _page(known: Sequence[Departure], found: Account, filled: int) -> Iterator[str]:
    traces = sorted({case.trace for case in cases()})
    cells, departed = sum(found.cells.values()), sum(found.departed.values())
    yield _MADE + "# Parity with TraceLens\n\n"
    yield (
        "Tables known from TraceLens have the same names and columns here, and the same values. `pytest tests/parity`\n"
        "compares ours, cell by cell, with those that TraceLens 0.1.0 (commit 171dd747) wrote for:\n\n"
        f"* {len(traces)} real traces, with its default options and with further ones\n"
        "* a JAX profile\n"
        "* the ranks of a job made by hand\n"
        f"* the {len(evals())} traces of its own evaluation; its grader also passes on the files of\n"
        "  `report --layout tracelens` (tests/external)\n\n"
        "A cell that differs fails the test unless it is listed below. A listed cell that does not\n"
        "differ fails it, too.\n\n"
        f"**{departed:,} of {cells:,} cells depart ({departed / cells:.1%}), {filled:,} of them because TraceLens\n"
        "has no model of an op and leaves the cell empty.**\n\n"
    )
    shares = (
        (_c(name), f"{count:,}", f"{(n := found.departed[name]):,}", f"{n / count:.1%}" if count else "only here")
        for name, count in sorted(found.cells.items(), key=lambda item: (-found.departed[item[0]], item[0]))
        if found.departed[name]
    )
    yield from _rows(("table", "cells compared", "departures", "share"), shares)
    whole = [_c(name) for name in sorted(found.cells) if not found.departed[name]]
    yield f"\nNo cell departs in {', '.join(whole)}.\n"
    yield (
        "\nA row that only one side has counts as one departure, and so does each rate and roof that follows from\n"
        "departing work; a test computes these again from our work.\n\n## What equal means\n\n"
    )
    yield (
        "* Keys, counts and text are equal. Lists are parsed and compared element by element.\n"
        f"* Durations of single events, their sums and statistics are equal to within {EXACT:f} us.\n"
        "* Lengths of unions of intervals may differ by the precision that TraceLens loses, because it adds up\n"
        f"  absolute times in float64: {PER_INTERVAL_US:g} us per interval, n times as much in a sum over n\n"
        "  intervals, and shares accordingly. Here such times are whole nanoseconds, and sums are exact.\n"
        "* Operations, bytes and the sizes that they follow from are equal. Rates (work by time) may differ as much\n"
        "  as the time.\n"
        "* Rows have the same order, except rows whose times differ by less than that.\n\n"
        "Our tables are made with `linked_only`, because TraceLens leaves out GPU events without a launch in the\n"
        "trace. By default we count these events, in a line of their own. All performance models are used, as by\n"
        "default. Those of JAX are the sheets of `report --layout tracelens`. In that layout, and in\n"
        "`tracelens_graph.compat`, only NCCL, RCCL and `cross_device_reduce` are communication, as in TraceLens.\n"
        "Everywhere else kernels of all libraries are, such as DeepEP, NVSHMEM and multimem, so\n"
        "`gpu_timeline`, `coll_analysis`, `unified_perf_summary` and tables of ops differ.\n\n## Departures\n"
    )
    yield (
        "\nThe departures are listed by cause: the ops, the condition, the columns and tables, the number of cells in\n"
        "these traces, and the test that shows the cause. Columns that are computed from a listed one differ with it.\n"
        "`(row)` is a row that only one side has.\n"
    )
    causes: dict[str, list[tuple[Departure, int]]] = {}
    for departure, covered in zip(known, found.covered, strict=True):
        causes.setdefault(" ".join(departure.reason.split()), []).append((departure, covered))
    for reason, entries in causes.items():
        yield f"\n### {_title(entries[0][0])}\n\n{reason}\n\n"
        alike: dict[tuple[str, str, str], list[str]] = {}
        for one, covered in entries:
            place = f"{_listed(one.tables)} ({covered:,} in {_listed(one.traces)})"
            alike.setdefault((_when(one), _listed(one.columns), one.test), []).append(place)
        for (when, columns, test), places in alike.items():
            yield f"* {when}: {columns} of {', '.join(places)}; {_c(test)}\n"
    yield "\n### Causes that the traces here do not show\n\n"
    for one in elsewhere():
        when = f", {one.when}" if one.when else ""
        yield f"* {_listed(one.ops)}{when}: {_listed(one.columns)}; {' '.join(one.reason.split())} {_c(one.test)}\n"
    yield (
        "\n## GPU events linked here and not there\n\n"
        "TraceLens finds the launch of a GPU event by a flow arrow. We use the correlation id, and arrows only if\n"
        "there is none. In these traces starts of arrows are missing, so more events have a launch here, all of them\n"
        "fills. The comparison reads the traces without those ids, so that their cells are compared like all\n"
        "others.\n\n"
    )
    yield from _rows(
        ("trace", "events", "cause shown by"),
        ((_c(entry.trace), str(entry.events), _c(entry.test)) for entry in more_linked().values()),
    )
    yield "\n## Traces\n\n" + "".join(f"* `{trace}`\n" for trace in traces)
    yield "".join(f"* `{job}`: the ranks of a job, made by hand\n" for job in ranks_of_jobs())
    yield "".join(f"* `{profile}`: a JAX profile\n" for profile in jax_profiles())
    yield "\nThe traces below `inference/` are joined with the captures of the graphs that they replay;\n"
    yield "`inference-capture` is TraceLens's report of inference with pseudo ops, modules, call stacks and\n"
    yield "numbers of kernels.\n"


def _title(departure: Departure) -> str:
    """The ops that a departure is about, else its columns."""
    names = departure.where.get("name", ())
    return _listed([names] if isinstance(names, str) else names) or f"All ops: {_listed(departure.columns)}"


def _when(departure: Departure) -> str:
    """The condition of a departure."""
    conditions = [f"{_c(column)} is {_any(text)}" for column, text in departure.where.items() if column != "name"]
    conditions = [departure.when] if departure.when else conditions
    conditions += ["TraceLens has no model of the op"] if departure.modelled_here_alone else []
    return " and ".join(conditions) or "always"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(map(_c, texts))


def _c(text: str) -> str:
    return f"`{text}`"


def _any(text: str | Sequence[str]) -> str:
    return " or ".join(map(_c, [text] if isinstance(text, str) else text))


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"


if __name__ == "__main__":
    if not cases():
        print("no reference tables: docs/parity.md stays as it is")
        sys.exit(0)
    sys.exit(publish({DOCS / "parity.md": parity()}))
