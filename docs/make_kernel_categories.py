"""Write the measured part of docs/kernel-categories.md: what the rules say of the kernels of real traces.

python docs/make_kernel_categories.py            write it
python docs/make_kernel_categories.py --check    change nothing; end with 1 if it is out of date

It needs the real traces, which are not part of the project; without them nothing is done. The outputs of the examples
in the other part of the page are written by run_examples.py.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pages import CHECKOUT, DOCS, publish

sys.path.insert(0, str(CHECKOUT / "tests"))

from corpus import kineto_traces, trace_id
from tracelens_graph.analyses.kernels.kernels import kernel_category_detail
from tracelens_graph.categories.kernel_rules import CATEGORIES, OTHER
from tracelens_graph.categories.kernels import KERNEL_RULES, kernel_category
from tracelens_graph.loading.one import load_core

PAGE = DOCS / "kernel-categories.md"
MARK = "<!-- From here on made by docs/make_kernel_categories.py: change the rules, then run it. -->\n"
_LARGEST = 10


@dataclass
class Measured:
    """Kernel time of a trace, in ms.

    Attributes:
        trace: name of the trace.
        by_category: time per category, as the tables give it.
        by_name: time in no category if the op is not asked.
        unmatched: time per kernel name that is in no category.
    """

    trace: str
    by_category: Counter[str] = field(default_factory=Counter)
    by_name: float = 0
    unmatched: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> float:
        """Time of all kernels."""
        return sum(self.by_category.values())


def page() -> str:
    """The page: what stands before the mark, and the measurements."""
    written, _, _ = PAGE.read_text().partition(MARK)
    return written + MARK + "".join(_measured_part([measured(path) for path in kineto_traces()]))


def measured(path: Path) -> Measured:
    """What the rules say of a trace."""
    found = Measured(trace_id(path))
    for row in kernel_category_detail(load_core(path)).records():
        name, ms = row["kernel_name"], row["total_time_ms"]
        found.by_category[row["kernel_category"]] += ms
        if row["kernel_category"] == OTHER:
            found.unmatched[name] += ms
        if kernel_category(name) == OTHER:
            found.by_name += ms
    return found


def _measured_part(traces: Sequence[Measured]) -> Iterator[str]:
    total = sum(trace.total for trace in traces)
    by_category = sum((trace.by_category for trace in traces), Counter[str]())
    by_name = sum(trace.by_name for trace in traces)
    names, rules = sum(len(trace.unmatched) for trace in traces), len(KERNEL_RULES.rules)
    yield (
        f"\n## Measured\n\n{rules} rules, on {len(traces)} real traces with {total:,.0f} ms of kernels.\n"
        f"**{by_category[OTHER] / total:.3%} of kernel time is in `{OTHER}`**, "
        f"{by_name / total:.3%} if only the name\n"
        "decides, as under a graph launch. Tests also cover names that are in none of these traces, labelled by\n"
        "hand in `tests/categories/labelled_kernels.txt`.\n\n"
    )
    order = sorted(CATEGORIES, key=lambda category: (category == OTHER, -by_category[category]))
    yield from _rows(
        ("category", "share of kernel time", "what is in it"),
        ((category, f"{by_category[category] / total:.2%}", CATEGORIES[category]) for category in order),
    )
    yield f"\n### By trace\n\nThe share of `{OTHER}` in each trace, and its names with most time, at most "
    yield f"{_LARGEST} ({names} in all).\n\n"
    yield from _rows(
        ("trace", "kernels, ms", "share", "share by name alone", "unmatched names"),
        (
            (
                _c(trace.trace),
                f"{trace.total:,.3f}",
                _share(trace.by_category[OTHER], trace.total),
                _share(trace.by_name, trace.total),
                ", ".join(f"{_c(name[:100])} {ms:,.3f} ms" for name, ms in trace.unmatched.most_common(_LARGEST)),
            )
            for trace in traces
        ),
    )


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.2%}" if whole else "no kernels"


def _c(text: str) -> str:
    return f"`{text}`"


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"


if __name__ == "__main__":
    if not kineto_traces():
        print("no real traces: docs/kernel-categories.md stays as it is")
        sys.exit(0)
    sys.exit(publish({PAGE: page()}))
