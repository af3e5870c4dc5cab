"""`tracelens-graph db push`, `push-diff` and `export`: traces, and comparisons, into a database or files for one."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli.db import connection, progress_of, say
from tracelens_graph.cli.options import TO_NEW_FOLDER, Arch, Group, Traces, architecture_named, argument, option, to_ns
from tracelens_graph.cli.traces import load, load_set, names_of, traces_named
from tracelens_graph.cli.windows import Window, WindowChoice
from tracelens_graph.errors import DatabaseError, EndedBySignal, TraceError
from tracelens_graph.schema.database import REPEATED_EDGES
from tracelens_graph.utils.texts import distinct_names

if TYPE_CHECKING:
    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.db.image import Options, TraceImage
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.perf.devices import Architecture


_LISTED = 10
"""Traces that are named at most."""


@dataclass(frozen=True)
class Wanted:
    """Traces that a command was given.

    Attributes:
        files: where they are.
        name: what the only one is called; empty for the names of the files.
        run: name of the run of all of them; empty where each is its own.
        labels: by key.
        options: what of them is taken.
        device: None for what the traces say.
    """

    files: Sequence[str]
    name: str
    run: str
    labels: Mapping[str, Any]
    options: Options
    device: Architecture | None

    def load(self) -> TraceSet:
        """The traces."""
        return load_set(self.files, self.run)

    def images(self, traces: TraceSet) -> Iterator[TraceImage]:
        """How the traces stand in a database, one after the other."""
        from tracelens_graph.db.database import image
        from tracelens_graph.db.image import Placement

        for trace in traces:
            placement = Placement(self.run or trace.core.trace_id, self.name or trace.name, self.labels)
            yield image(trace.core, placement, self.options, self.device)

    def check(self, traces: TraceSet) -> None:
        """Say that some could not be read, once the others are done.

        Raises:
            TraceError: some could not.
        """
        if traces.broken:
            raise TraceError(f"{len(traces.broken)} of {len(self.files)} traces could not be read; the others are done")


def wanted(
    traces: Traces,
    run: Annotated[
        str, option(metavar="NAME", help="Make the traces ranks of this run. Default: each is a run of its own.")
    ] = "",
    name: Annotated[
        str,
        option(
            "--as",
            metavar="NAME",
            help="Name of the trace, unique in its run. Default: that of its file, with folders if files have the same "
            "name.",
        ),
    ] = "",
    label: Annotated[
        list[str] | None,
        option(metavar="KEY=VALUE", help="A property of the trace: batch=64 is a number; may be given again."),
    ] = None,
    only: Annotated[str, option(metavar="KINDS", help="Only events of these kinds: gpu,Op or host; with commas.")] = "",
    min_gpu_time: Annotated[
        str, option(metavar="TIME", help="Leave out calls with less GPU time below them: 5us.")
    ] = "",
    facts: Annotated[
        bool, option("--facts", help="Only totals, times by kernel, op and module, and findings; no events.")
    ] = False,
    with_args: Annotated[bool, option("--with-args", help="Also push all recorded arguments of the events.")] = False,
    all_edges: Annotated[
        bool, option("--all-edges", help=f"Also push {' and '.join(REPEATED_EDGES)}, which repeat properties.")
    ] = False,
    arch: Arch = None,
) -> Any:
    """What the arguments and options mean, before anything is read.

    Raises:
        typer.BadParameter: one of them is none.
    """
    files = traces_named(traces)
    if facts and (only or min_gpu_time or with_args or all_edges):
        raise typer.BadParameter("--facts takes no events along: leave out what chooses some, or what comes with them")
    options = _options(only, min_gpu_time, with_args, all_edges, facts)
    return Wanted(files, _checked(files, name), run, _labels(label or []), options, architecture_named(arch))


def _checked(files: Sequence[str], name: str) -> str:
    """The name that was given, if every file has one of its own.

    Raises:
        typer.BadParameter: one name is given for several files, or several would have one.
    """
    if name and len(files) > 1:
        raise typer.BadParameter(f"--as is for one trace, and these are {len(files)}")
    count = Counter(distinct_names(files))
    if twice := [one for one, times in count.items() if times > 1]:
        raise typer.BadParameter(f"several files would be called {twice[0]}: push them one by one with --as")
    return name


def _labels(given: Sequence[str]) -> Mapping[str, Any]:
    from tracelens_graph.db.labels import labels_of

    try:
        return labels_of(given)
    except DatabaseError as error:
        raise typer.BadParameter(f"--{error}") from None


def _options(only: str, min_gpu_time: str, with_args: bool, all_edges: bool, facts: bool) -> Options:
    from tracelens_graph.db.image import Options
    from tracelens_graph.errors import NodeNotFoundError
    from tracelens_graph.graph.graph import kinds_named
    from tracelens_graph.schema import Kind

    try:
        wanted = kinds_named([one.strip() for one in only.split(",")]) if only else list(Kind)
    except NodeNotFoundError as error:
        raise typer.BadParameter(f"--only: {error}") from None
    kinds = () if facts else tuple(kind.name for kind in Kind if kind in wanted)
    return Options(kinds, to_ns(min_gpu_time, "--min-gpu-time") if min_gpu_time else 0, with_args, all_edges)


def push(
    *,
    chosen: Annotated[Any, Group(wanted)],
    replace: Annotated[
        bool, option("--replace", help="If a trace is already there, drop it and push it anew.")
    ] = False,
) -> None:
    """Push traces into a Neo4j database.

    If it is stopped, the same command continues. Traces that are already there stay as they are. If all ranks of a run
    are named, their collectives are matched, and the critical path of each step is stored.

    Example: tracelens-graph db push trace.json.gz --run llama-70b --label commit=3f2a9c

    Example: tracelens-graph db push traces/ --run llama-70b --only gpu,Op --min-gpu-time 5us

    Example: tracelens-graph db push nightly/ --run 2026-11-29 --label build=417 --facts
    """
    from tracelens_graph.db.database import Database as Graphs

    with _goes_on(), Graphs(connection()) as graphs:
        is_first = not graphs.traces()  # a server that does not answer is to be known before a large trace is read
        ranks = chosen.load()
        for image in chosen.images(ranks):
            _push(graphs, image, replace)
        if is_first and not (chosen.options.all_edges or chosen.options.facts_only):
            types, same = (" and ".join(names) for names in (REPEATED_EDGES, REPEATED_EDGES.values()))
            typer.echo(f"without edges {types}: {same} of events say the same; --all-edges adds them", err=True)
        chosen.check(ranks)
        if chosen.run and not chosen.options.facts_only:
            _match(graphs, chosen.run, ranks, chosen.options)


@contextmanager
def _goes_on() -> Iterator[None]:
    """Say that nothing is lost, where the work inside is ended."""
    try:
        yield
    except (EndedBySignal, KeyboardInterrupt):
        typer.echo("stopped; the same command goes on from here", err=True)
        raise


def _push(graphs: Graphs, image: TraceImage, replace: bool) -> None:
    """Push a trace, and say what was done."""
    from tracelens_graph.db.labels import texts_of

    there = next((trace for trace in graphs.traces() if trace["id"] == image.properties["id"]), None)
    start = time.monotonic()
    with progress_of("pushing", image.properties["name"]) as progress:
        outcome = graphs.push_image(image, replace=replace, progress=progress)
    seconds = 0 if outcome == "unchanged" else time.monotonic() - start
    was = ""
    if outcome == "replaced" and there and there["path"] != image.properties["path"]:
        was = f"; it was {there['path']}" + "".join(f", {label}" for label in texts_of(there))
    say(f"{outcome} {counts(image, seconds)}{was}")


def upgrade(traces: Traces) -> None:
    """Push traces again that another version of this program pushed, with the names, labels and options that they have.

    Files are recognised by their content, wherever they are. Ranks of a run are matched again if all are named.
    Comparisons of a trace are dropped with its older form.

    Example: tracelens-graph db upgrade traces/
    """
    from tracelens_graph.db.catalog import is_current
    from tracelens_graph.db.database import Database as Graphs
    from tracelens_graph.db.database import image
    from tracelens_graph.db.image import Options, Placement
    from tracelens_graph.db.labels import labels_of, texts_of
    from tracelens_graph.graph.trace_set import TraceSet

    files = traces_named(traces)
    with _goes_on(), Graphs(connection()) as graphs:
        stored = {trace["id"]: trace for trace in graphs.traces() if trace["state"] == "complete"}
        outdated = {key for key, trace in stored.items() if not is_current(trace)}
        found = load_set(files, "") if outdated else ()
        of_runs: dict[str, dict[str, Any]] = {}
        for one in found:
            if (key := one.core.trace_id) in stored:
                of_runs.setdefault(stored[key]["run"], {})[stored[key]["name"]] = one.core
        for run, cores in of_runs.items():
            ranks = TraceSet.of(cores, run=run)
            for one in ranks:
                trace = stored[one.core.trace_id]
                options = Options.of(trace["options"])
                if one.core.trace_id in outdated:
                    placement = Placement(run, one.name, labels_of(texts_of(trace)))
                    device = architecture_named(trace.get("architecture"))
                    _push(graphs, image(one.core, placement, options, device), replace=True)
            if outdated & {core.trace_id for core in cores.values()}:
                _match(graphs, run, ranks, options)
        left = outdated - {core.trace_id for cores in of_runs.values() for core in cores.values()}
        if left:
            names = ", ".join(sorted(stored[key]["path"] for key in left)[:_LISTED])
            say(f"{len(left):,} older traces are in none of these files: {names}")
        elif not outdated:
            typer.echo("no trace of the database is older than this version")


def _match(graphs: Graphs, run: str, ranks: TraceSet, options: Options) -> None:
    """Match the collectives of a run and follow its paths, if all of its ranks were pushed, and say what was done."""

    of_run = {trace["id"] for trace in graphs.traces() if trace["run"] == run}
    if of_run != {one.core.trace_id for one in ranks}:
        if not any(one["run"] == run and one["state"] == "complete" for one in graphs.matchings()):
            named = f"{len(ranks):,} of its {len(of_run):,} traces were named"
            say(f"collectives of {run} are not matched: {named}; name all of them")
    elif len(ranks) > 1:
        start = time.monotonic()
        with progress_of("pushing collectives") as progress:
            outcome = graphs.match(run, ranks, options=options, progress=progress)
        (found,) = (one for one in graphs.matchings() if one["run"] == run)
        if found["parts"]:
            seconds = "" if outcome == "unchanged" else f" in {time.monotonic() - start:.1f} s"
            matched_text = f"{found['collectives']:,} over {len(ranks):,} ranks{seconds}"
            if found["unmatched"]:
                matched_text += f"; {found['unmatched']:,} of {found['parts']:,} parts are not matched"
            say(f"{outcome} collectives of {run}: {matched_text}")


def push_diff(
    first: Annotated[Path, argument(metavar="A", help="Trace or saved graph to compare with.")],
    second: Annotated[Path, argument(metavar="B", help="The other one.")],
    *,
    run: Annotated[str, option(metavar="NAME", help="Run of those that are not there yet; else each is its own.")] = "",
    names: Annotated[
        str | None, option(metavar="A,B", help="Names of the traces in that run. Default: by file or folder.")
    ] = None,
    replace: Annotated[
        bool, option("--replace", help="If the two are already compared, drop that and compare them anew.")
    ] = False,
    window: Window,
) -> None:
    """Compare two traces by structure, as `diff` does, and push the comparison into a Neo4j database.

    Traces that are not there are pushed first. If it is stopped, the same command continues.

    Example: tracelens-graph db push-diff a.json.gz b.json.gz --run upgrade
    """
    from tracelens_graph.analyses.alignment.compared_steps import median_steps
    from tracelens_graph.analyses.alignment.difference import diff
    from tracelens_graph.db.database import Database as Graphs

    paths = [str(first), str(second)]
    tags = names_of(paths, names)
    with _goes_on(), Graphs(connection()) as graphs:
        graphs.traces()  # a server that does not answer is to be known before large traces are read
        a, b = (window.of(load(path, wants_gpu=True)) for path in paths)
        difference = diff(*(median_steps(a, b) if window == WindowChoice() else (a, b)), (tags[0], tags[1]))
        start = time.monotonic()
        with progress_of("pushing") as progress:
            outcome = graphs.push_diff(difference, run=run, replace=replace, progress=progress)
        ids = difference.a.core.trace_id, difference.b.core.trace_id
        (found,) = (one for one in graphs.diffs() if (one["a"], one["b"]) == ids)
    seconds = "" if outcome == "unchanged" else f" in {time.monotonic() - start:.1f} s"
    counts = f"{found['places']:,} places, {found['matches']:,} matches{seconds}"
    say(f"{outcome} {found['name']}: {counts}")
    typer.echo(f"ask next: tracelens-graph db query diff_places --param a={found['a']} --param b={found['b']}")


def export(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", show_default=False, file_okay=False, help="New folder for the files."),
        TO_NEW_FOLDER,
    ],
    *,
    chosen: Annotated[Any, Group(wanted)],
) -> None:
    """Write traces as files for `db import`, or `neo4j-admin database import`: the same graph as `db push` writes.

    Example: tracelens-graph db export import/ traces/ --run llama-70b
    """
    from tracelens_graph.db.bulk import README, BulkExport

    with BulkExport(folder) as exported:
        loaded = chosen.load()
        for image in chosen.images(loaded):
            start = time.monotonic()
            with progress_of("writing", image.properties["name"]) as progress:
                exported.add(image, progress)
            say(f"wrote {counts(image, time.monotonic() - start)}")
    done = exported.done
    typer.echo(f"{done.nodes:,} nodes, {done.edges:,} edges, {done.size / 1e6:,.1f} MB; to import:")
    say(f"  tracelens-graph db import {shlex.quote(str(folder))}")
    typer.echo(f"into the server of `db start`; {README} says how into another one")
    chosen.check(loaded)


def counts(image: TraceImage, seconds: float) -> str:
    """How much was written of a trace, for people; seconds 0 where nothing was to be done."""
    text = f"{image.properties['path']}: {image.properties['nodes']:,} events, {image.properties['edges']:,} edges"
    if seconds:
        text += f" in {seconds:.1f} s"
    if image.left_out_nodes:
        text += f"; left out {image.left_out_nodes:,} events and {image.left_out_edges:,} edges"
    if image.replaced:
        text += f"; {image.replaced:,} characters that no database can hold are U+FFFD"
    return text
