"""Seconds and memory of commands on traces that are hard by their shape, at n, 2n and 4n.

python benchmarks/hard_shapes.py                           all shapes, n = 25,000
python benchmarks/hard_shapes.py --n 5000 --shapes nested_ops,streams --commands tree,report
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
from shapes import SHAPES, trace

OURS = str(Path(sys.executable).with_name("tracelens-graph"))
COMMANDS = {
    "report": "report {trace} --csv {out}",
    "overlap": "report {trace} --csv {out} --add overlap --add call-stack --short-kernels 10",
    "tree": "tree {trace} --max-lines 100",
    "whole tree": "tree {trace} --gpu-time --max-lines 0",
    "idle": "ask idle_causes {trace}",
    "save": "save {trace} -o {out}.tlg --force",
    "compare": "compare {trace} {trace} --names a,b --csv {out}",
}
LONGEST_S = 600


def measured(command: str, path: Path) -> tuple[float, float]:
    """Seconds of a command, and the most memory it had, in MB; it is stopped after LONGEST_S."""
    with tempfile.TemporaryDirectory() as folder:
        words = shlex.split(command.format(trace=shlex.quote(str(path)), out=f"{folder}/out"))
        # The memory of a child's children is that of this one: it runs in a process between.
        program = (
            "import resource, subprocess, sys;"
            "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss);"
            "sys.exit(done.stderr.decode() if done.returncode else 0)"
        )
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", program, OURS, *words], stdout=subprocess.PIPE, text=True, check=True,
            timeout=LONGEST_S,
        )  # fmt: skip
        return time.perf_counter() - start, int(done.stdout) / 1024


def main() -> None:
    """Print a line per shape and command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=25_000, help="events of a shape in the smallest trace")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="names from shapes.py")
    parser.add_argument("--commands", default=",".join(COMMANDS), help=", ".join(COMMANDS))
    args = parser.parse_args()
    print(f"{'shape':24}{'command':12}{'seconds at n, 2n, 4n':>28}{'MB at n, 2n, 4n':>28}{'last doubling':>15}")
    with tempfile.TemporaryDirectory() as folder:
        for shape in args.shapes.split(","):
            paths = [Path(folder) / f"{shape}-{factor}.json" for factor in (1, 2, 4)]
            for path, factor in zip(paths, (1, 2, 4), strict=True):
                path.write_bytes(orjson.dumps(trace(shape, factor * args.n)))
            for name in args.commands.split(","):
                found = [measured(COMMANDS[name], path) for path in paths]
                seconds, memory = ("".join(f"{one[i]:9.2f}" if not i else f"{one[i]:9,.0f}" for one in found)
                                   for i in (0, 1))  # fmt: skip
                grown = f"x{found[2][0] / found[1][0]:.2f}"
                print(f"{shape:24}{name:12}{seconds:>28}{memory:>28}{grown:>15}", flush=True)
            for path in paths:
                path.unlink()


if __name__ == "__main__":
    main()
