"""How fast tracelens_graph is, as ratios to yardsticks measured in the same run.

The yardstick of loading is the time that `orjson.loads` takes for the same bytes inside a process of its
own, with garbage collection on (what a Python tool pays before its analysis starts) and off. Ours are whole
processes from exec to exit. Every number is the median of runs that take turns with those of its yardstick.

    make bench                                         sizes up to 100 MB
    make bench BENCH="--tiles 1 20 80 200 --runs 3"    up to 1 GB: needs 9 GB of memory, takes minutes
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from measure import elapsed, interleaved, medians, peak_pss, printed

from tile import tile

CORPUS = Path(os.environ.get("TRACELENS_GRAPH_CORPUS") or Path(__file__).parents[2] / "shared" / "traces")
TRACE = "tracelens/h100/qwen1.5-0.5b.json.gz"
OURS = str(Path(sys.executable).with_name("tracelens-graph"))
REPORT = f"{shlex.quote(OURS)} report {{trace}} --csv {{out}}"
SWITCHES = " ".join(
    (
        "--micro-idle 5 --short-kernels 10 --add overlap --add first-occurrence --add call-stack",
        "--recompute --add by-kernel-count --add by-module",
    )
)
ONE_TABLE = f"{shlex.quote(OURS)} report {{trace}} --table ops_summary"
MB = 1e6
LARGE = 9_000_000
"""Bytes of JSON from which a real trace is measured."""

YARDSTICK = """
import gc, orjson, sys, time
data = open(sys.argv[1], "rb").read()
if sys.argv[2] == "off":
    gc.disable()
start = time.perf_counter()
orjson.loads(data)
print(time.perf_counter() - start)
"""

FIRST_FRAME = "import sys, tracelens_graph as tlg; tlg.gpu_timeline(tlg.load(sys.argv[1])).to_pandas()"

SAVE = "import sys, tracelens_graph as tlg; tlg.load(sys.argv[1]).save(sys.argv[2])"

# Resident memory before and after, as both hold their data in anonymous pages of this one process.
GRAPH_BESIDE_NETWORKX = """
import gc, json, re, sys, time
import networkx, pandas, tracelens_graph as tlg

def resident():
    gc.collect()
    return 1024 * int(re.search(r"Rss:\\s+(\\d+)", open("/proc/self/smaps_rollup").read())[1])

tlg.load(sys.argv[2])
before, start = resident(), time.perf_counter()
g = tlg.load(sys.argv[1])
ours = {"s": time.perf_counter() - start, "bytes": resident() - before}
before, start = resident(), time.perf_counter()
dicts = g.to_networkx()
networkx = {"s": time.perf_counter() - start, "bytes": resident() - before}
print(json.dumps({"nodes": len(g), "ours": ours, "networkx": networkx}))
"""

COUNT_COMMANDS = """
import typer
from tracelens_graph.cli.app import app

def leaves(command):
    return sum(map(leaves, command.commands.values())) if hasattr(command, "commands") else 1

print(leaves(typer.main.get_command(app)))
"""


@dataclass
class Result:
    """One comparison: ours against a yardstick, and the ratio not to be exceeded, if one is set."""

    work: str
    size: str
    ours: float
    beside: str
    yardstick: float
    unit: str
    bar: float | None = None

    @property
    def ratio(self) -> float:
        return self.ours / self.yardstick

    def row(self) -> tuple[str, ...]:
        verdict = "" if self.bar is None else "met" if self.ratio <= self.bar else "MISSED"
        return (
            self.work,
            self.size,
            f"{self.ours:.3f} {self.unit}",
            f"{self.beside} {self.yardstick:.3f} {self.unit}",
            f"{self.ratio:.2f}",
            "-" if self.bar is None else f"{self.bar:.2f}",
            verdict,
        )


def time_bar(mb: float, orjson_s: float) -> float | None:
    """Largest ratio of our time to that of orjson, garbage collection on, for a trace of this size."""
    if mb < 20:
        return 0.3 / orjson_s + 0.5
    for at_least, bar in ((950, 0.15), (380, 0.2), (95, 0.3)):
        if mb >= at_least:
            return bar
    return None


def memory_bar(mb: float) -> float:
    """Largest ratio of our peak memory to the raw JSON."""
    return 1.0 if mb >= 95 else 60 / mb + 2


class Bench:
    """One run of the benchmarks: what was asked for, and the results so far."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.runs: int = options.runs
        self.command: str = options.command
        self.tracelens: Path | None = options.tracelens
        self.source_folder: Path = options.traces
        self.source: Path = options.traces / options.trace
        self.folder = folder
        self.results: list[Result] = []

    def tiled(self, copies: int) -> Path:
        path = self.folder / f"x{copies}.json"
        if not path.exists():
            with path.open("wb") as target:
                tile(self.source, target, copies)
        return path

    def ask(self, trace: Path, command: str = "") -> list[str]:
        """A command, by default the one that is measured, on a trace."""
        named = {"{trace}": str(trace), "{out}": str(self.folder / "tables")}
        parts = shlex.split(command or self.command)
        for placeholder, value in named.items():
            parts = [part.replace(placeholder, value) for part in parts]
        return parts

    def add(self, *result: Result) -> None:
        self.results += result

    def trace(self, tiles: list[int]) -> None:
        """The command on copies of a trace, beside orjson; its memory, beside the raw JSON; its growth."""
        per_mb = {}
        for copies in tiles:
            path = self.tiled(copies)
            mb = path.stat().st_size / MB
            per_mb[copies] = self._beside_orjson(path, f"x{copies}, {mb:.0f} MB") / mb
        if 20 in per_mb and max(tiles) > 20:
            most = max(tiles)
            growth = Result("time per MB", f"x{most}", 1000 * per_mb[most], "x20", 1000 * per_mb[20], "ms", 1.0)
            self.add(growth)

    def real(self, _tiles: list[int]) -> None:
        """The same on the larger real traces as they are."""
        path = self.folder / "real.json"
        for packed in sorted(self.source_folder.rglob("*.json.gz")):
            raw = gzip.decompress(packed.read_bytes())
            if len(raw) >= LARGE and b'"traceEvents"' in raw:
                path.write_bytes(raw)
                name = packed.relative_to(self.source_folder).as_posix().removesuffix(".json.gz")
                self._beside_orjson(path, f"{name}, {len(raw) / MB:.0f} MB")

    def _beside_orjson(self, path: Path, size: str) -> float:
        mb = path.stat().st_size / MB
        median = medians(
            interleaved(
                self.runs,
                {
                    "on": partial(printed, YARDSTICK, str(path), "on"),
                    "off": partial(printed, YARDSTICK, str(path), "off"),
                    "ours": partial(elapsed, self.ask(path)),
                },
            )
        )
        ours, on, off = median["ours"], median["on"], median["off"]
        peak = peak_pss(self.ask(path)) / MB
        self.add(
            Result("command", size, ours, "orjson", on, "s", time_bar(mb, on)),
            Result("command", size, ours, "orjson, gc off", off, "s", 0.8 if mb >= 95 else None),
            Result("peak memory", size, peak, "raw JSON", mb, "MB", memory_bar(mb)),
        )
        return float(ours)

    def switches(self, tiles: list[int]) -> None:
        """The report with every optional switch, beside the report without."""
        for copies in tiles:
            path = self.tiled(copies)
            measures = {
                "plain": partial(elapsed, self.ask(path, REPORT)),
                "every": partial(elapsed, self.ask(path, f"{REPORT} {SWITCHES}")),
            }
            median = medians(interleaved(self.runs, measures))
            size = f"x{copies}, {path.stat().st_size / MB:.0f} MB"
            self.add(Result("every switch", size, median["every"], "default report", median["plain"], "s", 1.6))

    def compare(self, tiles: list[int]) -> None:
        """Comparing two traces, beside loading each for its timeline."""
        for copies in tiles:
            path = self.tiled(copies)
            measures = {
                "one": partial(elapsed, self.ask(path, f"{shlex.quote(OURS)} timeline {{trace}}")),
                "both": partial(elapsed, [OURS, "compare", str(path), str(path)]),
            }
            median = medians(interleaved(self.runs, measures))
            size = f"x{copies}, {path.stat().st_size / MB:.0f} MB"
            self.add(Result("compare", size, median["both"], "two loads", 2 * median["one"], "s", 1.2))

    def peers(self, tiles: list[int]) -> None:
        """The report, beside TraceLens's on the same trace, where there is an environment that has it."""
        if self.tracelens is None:
            print("TraceLens: not measured; --tracelens names the Python of an environment that has it")
            return
        command = self.tracelens.with_name("TraceLens_generate_perf_report_pytorch")
        theirs = f"{shlex.quote(str(command))} --profile_json_path {{trace}} --output_csvs_dir {{out}}"
        for copies in tiles:
            path = self.tiled(copies)
            measures = {
                "ours": partial(elapsed, self.ask(path, REPORT)),
                "theirs": partial(elapsed, self.ask(path, theirs)),
            }
            median = medians(interleaved(self.runs, measures))
            size = f"x{copies}, {path.stat().st_size / MB:.0f} MB"
            self.add(Result("report", size, median["ours"], "TraceLens", median["theirs"], "s"))

    def load(self, tiles: list[int]) -> None:
        """`load()` and a first DataFrame, beside orjson and the imports of networkx and pandas."""
        for copies in tiles:
            path = self.tiled(copies)
            mb = path.stat().st_size / MB
            python = [sys.executable, "-c"]
            median = medians(
                interleaved(
                    self.runs,
                    {
                        "orjson": partial(printed, YARDSTICK, str(path), "on"),
                        "bare": partial(elapsed, [*python, ""]),
                        "imports": partial(elapsed, [*python, "import networkx, pandas"]),
                        "ours": partial(elapsed, [*python, FIRST_FRAME, str(path)]),
                    },
                )
            )
            orjson_s, imports = median["orjson"], median["imports"] - median["bare"]
            bar = time_bar(mb, orjson_s)
            allowed = None if bar is None else bar + imports / orjson_s
            size = f"x{copies}, {mb:.0f} MB"
            self.add(Result("load() + DataFrame", size, median["ours"], "orjson", orjson_s, "s", allowed))

    def graph(self, tiles: list[int]) -> None:
        """The graph from a file, beside the same graph made of networkx's dictionaries."""
        copies = max(copies for copies in tiles if copies <= 20 or copies == min(tiles))
        both = printed(GRAPH_BESIDE_NETWORKX, str(self.tiled(copies)), str(self.tiled(1)))
        size = f"x{copies}, {both['nodes']:,} nodes"
        ours, dicts = both["ours"], both["networkx"]
        self.add(
            Result("load a graph", size, ours["s"], "build MultiDiGraph", dicts["s"], "s"),
            Result("memory of it", size, ours["bytes"] / MB, "MultiDiGraph", dicts["bytes"] / MB, "MB"),
        )

    def saved(self, tiles: list[int]) -> None:
        """One table of a saved graph, beside the 0.3 s that it may take."""
        for copies in tiles:
            path, graph = self.tiled(copies), self.folder / f"x{copies}.graph"
            elapsed([sys.executable, "-c", SAVE, str(path), str(graph)])
            median = medians(interleaved(self.runs, {"ours": partial(elapsed, self.ask(graph, ONE_TABLE))}))
            size = f"x{copies}, {path.stat().st_size / MB:.0f} MB"
            self.add(Result("one table, saved graph", size, median["ours"], "allowed", 0.3, "s", 1.0))

    def push(self, tiles: list[int]) -> None:
        """Pushing into Neo4j, beside a bare loop that sends the same rows with the same statements."""
        from push import own_server, speed

        from tracelens_graph.loading.one import load_core

        with own_server() as driver:
            for copies in tiles:
                found = speed(driver, load_core(self.tiled(copies)), self.runs)
                size = f"x{copies}, {found.nodes:,} nodes, {found.edges:,} edges"
                rows = found.nodes + found.edges
                self.add(
                    Result("push", size, found.ours_s, "bare loop", found.bare_s, "s", 1.25),
                    Result(
                        "rows of a push", size, rows / found.ours_s / 1e3, "bare loop", rows / found.bare_s / 1e3, "k/s"
                    ),
                    Result("nodes and edges of it", size, found.image_s, "push", found.ours_s, "s"),
                )

    def start(self, _tiles: list[int]) -> None:
        """`--help` and `--version`, beside a bare typer application with as many commands."""
        commands = printed(COUNT_COMMANDS)
        bare = self.folder / "bare.py"
        bare.write_text(bare_application(commands))
        for option in ("--help", "--version"):
            median = medians(
                interleaved(
                    4 * self.runs,
                    {
                        "bare": partial(elapsed, [sys.executable, str(bare), option]),
                        "ours": partial(elapsed, [OURS, option]),
                    },
                )
            )
            size = f"{commands} commands"
            self.add(Result(option, size, median["ours"], "bare typer", median["bare"], "s", 1.5))


SECTIONS: dict[str, Callable[[Bench, list[int]], None]] = {
    "trace": Bench.trace,
    "real": Bench.real,
    "switches": Bench.switches,
    "compare": Bench.compare,
    "peers": Bench.peers,
    "load": Bench.load,
    "graph": Bench.graph,
    "saved": Bench.saved,
    "push": Bench.push,
    "start": Bench.start,
}


def bare_application(commands: int) -> str:
    """Source of a typer application with so many commands and nothing behind them."""
    head = """
import typer

app = typer.Typer()

def show_version(wanted: bool) -> None:
    if wanted:
        print("1.0")
        raise typer.Exit

@app.callback()
def common(version: bool = typer.Option(False, "--version", callback=show_version, is_eager=True)) -> None:
    pass
"""
    one = """
@app.command()
def command_{number}(trace: str, top: int = 10, output: str = "text") -> None:
    "Command number {number}."
"""
    return head + "".join(one.format(number=number) for number in range(commands)) + "\napp()\n"


def show(results: list[Result]) -> None:
    """Print the results as a table."""
    rows = [("work", "size", "ours", "beside", "ratio", "bar", ""), *(result.row() for result in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiles", type=int, nargs="+", default=[1, 5, 20], help="copies of the trace to measure")
    parser.add_argument("--runs", type=int, default=5, help="runs; the median of them is taken")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--traces", type=Path, default=CORPUS, help="folder of real traces")
    parser.add_argument("--trace", default=TRACE, help="trace in that folder to make copies of")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results.json"), help="where results go")
    parser.add_argument("--command", default=REPORT, help="command to measure; {trace} and {out} are put in")
    parser.add_argument("--tracelens", type=Path, help="the Python of an environment with TraceLens, to compare with")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if not (options.traces / options.trace).is_file():
        print(f"no {options.trace} in {options.traces}: set TRACELENS_GRAPH_CORPUS or --traces", file=sys.stderr)
        return 1
    machine = {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg()[0],
    }
    print("Python {python}, {machine}, load before: {load:.1f}".format(**machine))
    with tempfile.TemporaryDirectory(prefix="tracelens_graph-bench-") as folder:
        bench = Bench(options, Path(folder))
        for section in options.only:
            SECTIONS[section](bench, sorted(options.tiles))
    show(bench.results)
    results = [asdict(result) | {"ratio": result.ratio} for result in bench.results]
    options.json.write_text(json.dumps({**machine, "runs": options.runs, "results": results}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
