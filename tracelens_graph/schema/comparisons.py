"""What a database holds of comparisons of two traces: properties of their nodes and edges."""

from __future__ import annotations

from collections.abc import Mapping

from tracelens_graph.schema.stored import Stored

_SIDES = (("a", "the first trace"), ("b", "the second trace"))
DIFF_PROPERTIES: Mapping[str, tuple[Stored, ...]] = {
    "Diff": (
        Stored("key", "str", "ids of both traces"),
        Stored("name", "str", "what is compared with what"),
        Stored("state", "str", "loading, complete or dropping; only complete comparisons answer queries"),
        Stored("begun_ns", "int", "when it was first pushed, since 1970", "ns"),
        Stored("pushed_ns", "int", "when it was completed, since 1970", "ns"),
        *(Stored(side, "str", f"id of {trace}") for side, trace in _SIDES),
        *(
            Stored(f"window_{side}", "str", f"the part of {trace} that was compared; absent for all")
            for side, trace in _SIDES
        ),
        *(
            Stored(f"{side}_ns", "int", f"sum of the durations of the GPU events of {trace} there", "ns")
            for side, trace in _SIDES
        ),
        Stored("places", "int", "places where they differ"),
        Stored("matches", "int", "MATCHES edges"),
        Stored("are_strangers", "bool", "true where they are of different programs, and nothing was aligned"),
        Stored("schema_version", "int", "version of the graph model"),
        Stored("tool_version", "str", "version of tracelens_graph that compared them"),
    ),
    "Divergence": (
        Stored("place", "int", "number of the place, from 1; the largest change of GPU time first"),
        Stored("name", "str", "op, or what else launched the work; `x -> y` where the second trace calls y for x"),
        Stored("change_ns", "int", "GPU time of the second trace less that of the first", "ns"),
        *(
            Stored(f"{side}_ns", "int", f"sum of the durations of the GPU events there in {trace}", "ns")
            for side, trace in _SIDES
        ),
        Stored("low_ns", "int", "least change that noise allows, by all steps or by equal work", "ns"),
        Stored("high_ns", "int", "greatest change that noise allows", "ns"),
        Stored("proof", "str", "what shows that the change is not noise; `noise` for nothing"),
        Stored("times", "int", "how often the program comes there; of modules that one side alone has, how many"),
        Stored("module", "str", "classes of the modules around it, the outermost first"),
        Stored("reason", "str", "why they differ: one word"),
        Stored("why", "str", "why they differ: the evidence"),
        *(
            stored
            for side, trace in _SIDES
            for stored in (
                Stored(f"events_{side}", "int", f"GPU events there in {trace}"),
                Stored(f"kernels_{side}", "strs", f"short names of its kernels in {trace}, most time first"),
                Stored(f"line_{side}", "str", f"innermost line of Python around what launched it in {trace}"),
                Stored(f"shapes_{side}", "str", f"dims of the arguments of the op that launched it in {trace}, JSON"),
                Stored(f"types_{side}", "str", f"types of these arguments in {trace}, JSON"),
                Stored(f"uid_{side}", "int", f"uid of what launched the longest GPU event there in {trace}"),
            )
        ),
    ),
}
"""Label -> properties of the nodes of comparisons; a place has `diff` too, the key of its comparison."""

DIFF_EDGE_PROPERTIES: Mapping[str, tuple[Stored, ...]] = {
    "MATCHES": (
        Stored("kind", "str", "how they resemble each other: identical, same structure, renamed, other arguments, "
               "wrapped, fused (n GPU events against m), or changed (what is below differs)"),
        *(Stored(f"{side}_ns", "int", f"GPU time of the event of {trace}, with what is below it", "ns")
          for side, trace in _SIDES),
        Stored("cost_ns", "int", "how much more time the second one takes", "ns"),
    ),
    **{f"ONLY_IN_{side.upper()}": (Stored("ns", "int", "GPU time of the event, with what is below it", "ns"),)
       for side, _ in _SIDES},
}  # fmt: skip
"""Type of edge -> its properties."""
