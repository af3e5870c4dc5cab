"""Record programs on the CPU, replay each of their calls, and tell how many are recorded alike.

    python tests/torch_proof/prove.py                       both parts, as `make test-torch` runs them
    python tests/torch_proof/prove.py workloads cnn sparse  some workloads, without and with an execution trace
    python tests/torch_proof/prove.py opinfo 0 50           entries of PyTorch's own table of operators, from and to
    --json FILE    all that did not come out equal, with an example of each
    --short        run the short programs of calls, where they have one, in place of their plans
    --processes N  as many at once

A call is equal if its replay is recorded with the same name, types, shapes, strides and values, and calls the same ops
in the same order. The exit code tells whether as many are as there have to be. A process that crashes loses one
program.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1])]

import torch  # noqa: E402
from instances import Tally, share  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

from tracelens_graph.tables.table import Column, Table  # noqa: E402

EQUAL = ("equal", "equal but assumed")
LEAST_PERCENT = {"workloads": 99.5, "workloads, execution trace": 99.9, "opinfo": 99.0}
"""How many calls have to be equal."""
TIMEOUT_S = {"workloads": 600, "opinfo": 120}
"""For one program."""
BATCH = {"workloads": 1, "opinfo": 40}
"""Programs of one process."""


def worked(kind: str, form: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What a worker tells of each program; what crashes it, or takes too long, is left out of the next one's."""
    left = list(names)
    while left:
        with tempfile.TemporaryDirectory() as folder:
            out, messages = Path(folder) / "told.jsonl", Path(folder) / "messages"
            command = [sys.executable, str(HERE / "worker.py"), kind, form, str(out), *left]
            with open(messages, "wb") as errors:
                try:
                    ended: Any = subprocess.run(
                        command, stdout=errors, stderr=errors, timeout=TIMEOUT_S[kind] * max(1, len(left) // 8)
                    ).returncode
                except subprocess.TimeoutExpired:
                    ended = "took too long"
            told = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
            done = {one["done"] for one in told if "done" in one}
            yield from (one for one in told if "done" in one)
            left = [one for one in left if one not in done]
            if left:
                lost = next((one["begun"] for one in told if one.get("begun") in left), left[0])
                last = messages.read_text(errors="replace").strip().splitlines()[-1:] or [""]
                yield {"done": lost, "error": f"process ended: {ended}: {last[0][:200]}"}
                left.remove(lost)


def proved(
    kind: str, form: str, names: Sequence[str], processes: int
) -> tuple[dict[str, dict[str, Tally]], dict[str, str]]:
    """Tallies by part and program, and what was lost."""
    parts: dict[str, dict[str, Tally]] = {kind: {}}
    lost: dict[str, str] = {}
    batches = [names[at :: -(-len(names) // BATCH[kind])] for at in range(-(-len(names) // BATCH[kind]))]
    with ThreadPoolExecutor(processes) as pool:
        for told in pool.map(lambda batch: list(worked(kind, form, batch)), batches):
            for one in told:
                if "error" in one:
                    lost[one["done"]] = one["error"]
                    continue
                name = one["name"] if one["name"] not in parts[kind] else f"{one['name']} ({one['done']})"
                parts[kind][name] = Tally.of_json(one["alone"])
                if "linked" in one:
                    parts.setdefault(f"{kind}, execution trace", {})[name] = Tally.of_json(one["linked"])
    return parts, lost


def whole(tallies: Mapping[str, Tally]) -> Tally:
    """All of them as one."""
    found = Tally()
    for tally in tallies.values():
        found.update(tally)
    return found


OUTCOMES = (*EQUAL, "other children", "other arguments", "failed", "no plan", "planning crashed")


def summary(part: str, tallies: Mapping[str, Tally]) -> Table:
    """How many calls of each program came out how; of many programs their sum alone."""
    rows = {**(tallies if len(tallies) < 20 else {}), "all": whole(tallies)}
    columns: dict[str, list[Any]] = {
        "program": list(rows),
        "calls": [sum(one.counts.values()) for one in rows.values()],
    }
    columns["plans"] = [one.signatures for one in rows.values()]
    for outcome in OUTCOMES:
        columns[outcome] = [sum(n for key, n in one.counts.items() if key[1] == outcome) for one in rows.values()]
    columns["percent equal"] = [round(share(one, EQUAL), 3) for one in rows.values()]
    columns["ms per plan"] = [round(1e3 * one.seconds / max(sum(one.counts.values()), 1), 3) for one in rows.values()]
    return Table("summary", columns, {name: Column(name) for name in columns}, f"{part}: torch {torch.__version__}")


def failures(part: str, tally: Tally) -> Table:
    """What did not come out equal, by reason."""
    grouped: Counter[tuple[str, str]] = Counter()
    ops: dict[tuple[str, str], Counter[str]] = {}
    for (op, outcome, why), number in tally.counts.items():
        if outcome not in EQUAL:
            reason = why.partition(":")[0] if outcome != "no plan" else why
            grouped[outcome, reason] += number
            ops.setdefault((outcome, reason), Counter())[op.removeprefix("aten::")] += number
    rows = grouped.most_common()
    columns = {
        "calls": [number for _, number in rows],
        "outcome": [outcome for (outcome, _), _ in rows],
        "reason": [reason for (_, reason), _ in rows],
        "ops": [", ".join(f"{op} {n}" for op, n in ops[key].most_common(8)) for key, _ in rows],
    }
    about = {name: Column(name, wraps=name == "ops", cells="number" if name == "calls" else "text") for name in columns}
    return Table("failures", columns, about, f"{part}: what is not equal")


def main() -> int:
    """Prove what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=["all", "workloads", "opinfo"], default="all")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    is_good, report = True, {}
    for kind in ("workloads", "opinfo") if asked.kind == "all" else (asked.kind,):
        names = asked.names
        if kind == "workloads":
            names = names or list(WORKLOADS)
        else:
            from torch.testing._internal.common_methods_invocations import op_db

            begin, end = map(int, names or (0, len(op_db)))
            names = [str(number) for number in range(begin, min(end, len(op_db)))]
        parts, lost = proved(kind, "short" if asked.short else "plan", names, asked.processes)
        for part, tallies in parts.items():
            tally = whole(tallies)
            print(summary(part, tallies).text(140))
            print(failures(part, tally).text(140))
            is_good &= share(tally, EQUAL) >= LEAST_PERCENT[part]
            report[part] = [
                [n, *key, tally.examples.get(key, "")] for key, n in tally.counts.most_common() if key[1] not in EQUAL
            ]
        for name, error in lost.items():
            print(f"lost: {name}: {error}")
        report[f"{kind}, lost"] = [[1, *one] for one in lost.items()]
        is_good &= len(lost) <= len(names) // 20
    if asked.json:
        asked.json.write_text("[\n" + ",\n".join(json.dumps([k, *r]) for k, v in report.items() for r in v) + "\n]\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
