# Made by docs/make_stub.py of the functions that answer questions.
# fmt: off
# ruff: noqa: E501, I001

import re
from typing import Literal

from tracelens_graph.perf.devices import Architecture
from tracelens_graph.tables.table import Table


class OfTrace:
    """The questions about one trace, but for those whose names are parts of a graph: these are functions alone."""

    def gpu_timeline(self, linked_only: bool = False, micro_idle_us: float | None = None, by_recompute: bool = False, *, top: int = 0) -> Table:
        """Where the GPU's time went, over all devices and streams together."""

    def step_summary(self, top_ops: int = 3, *, top: int = 0) -> Table:
        """One row per step (`ProfilerStep#n`) of every process, in the order of their starts."""

    def step_breakdown(self, *, top: int = 0) -> Table:
        """How each step spent its time, with every moment counted once, and the mean over steps."""

    def exposed_communication(self, *, top: int = 0) -> Table:
        """The time of collectives, and the part that no computation overlaps; the longest first."""

    def stream_overlap(self, device: int | None = None, stream_a: int | None = None, stream_b: int | None = None, *, top: int = 0) -> Table:
        """The time in which two streams of a device both work; times are lengths of unions of intervals."""

    def coll_analysis(self, *, top: int = 0) -> Table:
        """Communication kernels by process group, collective, type, size and stream, the greatest sum first."""

    def copy_bandwidth(self, points: int = 20, *, top: int = 0) -> Table:
        """The bandwidth of copies and fills over time, by device and direction."""

    def idle_gaps(self, device: int | None = None, min_us: float = 1, top: int = 20) -> Table:
        """The longest gaps in which a device did nothing, and what the launching thread did meanwhile."""

    def idle_causes(self, *, top: int = 0) -> Table:
        """Idle time of the GPU by cause; the causes add up to it exactly."""

    def iterations(self, *, top: int = 0) -> Table:
        """One row per iteration of a server, by process and start."""

    def phases(self, *, top: int = 0) -> Table:
        """One row per phase of a server's iterations, and one for GPU work launched outside of iterations."""

    def steady_state(self, num_steps: int = 32, *, top: int = 0) -> Table:
        """The steady state of a server: the longest run of steps with about as many requests as it ever has."""

    def step_costs(self, *, top: int = 0) -> Table:
        """Fixed cost of a step, and cost per token, request and token of context, by phase; a least-squares fit."""

    def ops_summary_by_category(self, linked_only: bool = False, *, recompute: bool = False, by_module: bool = False, call_stack: bool = False, top: int = 0) -> Table:
        """GPU time per category of operation, the greatest first."""

    def ops_summary(self, linked_only: bool = False, *, recompute: bool = False, by_module: bool = False, call_stack: bool = False, top: int = 0) -> Table:
        """GPU time per name of operation, the greatest first."""

    def ops_unique_args(self, linked_only: bool = False, *, first_occurrence: bool = False, call_stack: bool = False, overlapping: bool = False, recompute: bool = False, by_kernel_count: bool = False, by_module: bool = False, as_recorded: bool = False, top: int = 0) -> Table:
        """GPU time per operation, thread and set of arguments, the greatest first."""

    def op_times(self, *, top: int = 0) -> Table:
        """Time of ops by name, by GPU self time, then by host self time, the greatest first."""

    def op_signatures(self, op: str | None = None, *, top: int = 0) -> Table:
        """Cost, rates and share of the roofline for each set of arguments of an op, the greatest time first."""

    def modules_of_signature(self, op: str | None = None, input_dims: str | None = None, *, top: int = 0) -> Table:
        """The modules with the GPU work of an op with given input sizes, the greatest time first."""

    def forward_backward(self, *, top: int = 0) -> Table:
        """GPU time of ops in the forward pass, compared with their backward passes."""

    def instruction_costs(self, *, top: int = 0) -> Table:
        """The cost of each executed instruction per run, by our rules and by XLA's; the most FLOPs first."""

    def kernel_summary(self, kernel_categories: bool = False, *, top: int = 0) -> Table:
        """Durations of kernels per launching op, kernel name and stream, the greatest sum first."""

    def kernel_category_summary(self, *, top: int = 0) -> Table:
        """Time by launching op and category of kernel, and the category's share of the op's kernel time."""

    def kernel_category_detail(self, *, top: int = 0) -> Table:
        """Kernels by launching op, category and name; the greatest time first at each level."""

    def category_shares(self, *, top: int = 0) -> Table:
        """GPU time by category of kernel, the greatest first; copies and fills have separate rows."""

    def kernels_by_tile(self, dtype: str | None = None, tile_m: int | None = None, tile_n: int | None = None, *, top: int = 0) -> Table:
        """Kernels by the tile and type in their names, the greatest time first."""

    def copies(self, *, top: int = 0) -> Table:
        """Copies and fills by name and size, the greatest time first."""

    def graph_launches(self, *, top: int = 0) -> Table:
        """Launches of captured graphs, by the replayed graph; the greatest time first."""

    def kernel_occupancy(self, *, top: int = 0) -> Table:
        """Kernels by name, and how well they fill the device; the greatest time first."""

    def device_use(self, *, top: int = 0) -> Table:
        """How well each device is used, over the time of the steps."""

    def short_kernels_summary(self, threshold_us: float = 10, linked_only: bool = False, by_arguments: bool = True, *, top: int = 0) -> Table:
        """Short kernels by name, parent and the parent's arguments, the greatest sum first."""

    def runtime_summary(self, *, top: int = 0) -> Table:
        """Host time, GPU work and launch delay per name of runtime or driver call, the longest on the host first."""

    def launch_delay(self, by: Literal['op', 'call'] = 'op', *, top: int = 0) -> Table:
        """The time from a launch call to the start of its first GPU event, by op or by launch call."""

    def queues(self, capacity: int = 1024, *, top: int = 0) -> Table:
        """The queue of each stream, the longest first: its length, how long work waits in it, and how long it is full."""

    def queue_length(self, capacity: int = 1024, points: int = 20, *, top: int = 0) -> Table:
        """The length of the queue of each stream over time; see `queues`."""

    def unlaunched_gpu_time(self, *, top: int = 0) -> Table:
        """GPU work whose launch is not in the trace, by name."""

    def unlinked(self, *, top: int = 0) -> Table:
        """Time of each stream that is charged to nothing, because its launch is not in the trace; the most first."""

    def replays(self, *, top: int = 0) -> Table:
        """Replays of captured graphs, by graph and by how they were joined; for a trace joined with captures."""

    def identified_kernels(self, by: str = 'layer', *, top: int = 0) -> Table:
        """Replayed kernels by their identified layer, block and role, in the order of layers."""

    def unified_perf_summary(self, linked_only: bool = False, *, arch: Architecture | None = None, recompute: bool = False, call_stack: bool = False, python_frames: bool = True, as_recorded: bool = False, top: int = 0) -> Table:
        """Cost and rates per op and arguments, each GPU event in one row, the greatest time first."""

    def model_flops(self, arch: Architecture | str | None = None, *, top: int = 0) -> Table:
        """Model FLOPs utilisation of each step, and of all steps together."""

    def unmodelled(self, *, top: int = 0) -> Table:
        """GPU time that no performance model covers, by operation and reason, the greatest first."""

    def kernel_counters(self, *, top: int = 0) -> Table:
        """Counters of CUPTI's range profiler by kernel, op and counter, in the order of the first ranges."""

    def opportunities(self, arch: Architecture | str | None = None, *, top: int = 0) -> Table:
        """Where time could be won, by all rules of `rules.RULES`; the most first."""

    def kernel_candidates(self, arch: Architecture | str | None = None, top: int = 20) -> Table:
        """Operations and their arguments, each with its kernel, its place in the program and the command that replays it."""

    def kernel_sequences(self, contains: str = '', min_kernels: int = 2, *, top: int = 0) -> Table:
        """Sequences of GPU events below calls of ops and modules, the greatest GPU time first."""

    def explain(self, id: str | None = None, arch: Architecture | str | None = None, *, top: int = 0) -> Table:
        """What is behind a finding of the verdict, or an opportunity."""

    def attribution(self, level: str = 'op', name: str | re.Pattern[str] | None = None, *, top: int = 0) -> Table:
        """GPU time per name at one level of the graph."""

    def host_times(self, by: Literal['op', 'function', 'line', 'module', 'thread'] = 'op', *, top: int = 0) -> Table:
        """Host time by name at a level, the greatest self time first; background threads last."""

    def modules(self, *, top: int = 0) -> Table:
        """GPU time of every nn.Module, one row per module in the order of the module tree, with its own part of it."""

    def gpu_time_under(self, under: int | str | None = None, *, top: int = 0) -> Table:
        """GPU time below a node, by its direct children."""

    def python_lines(self, without: str | None = None, *, top: int = 0) -> Table:
        """GPU time by line of Python; each GPU event counts for the innermost line of the user."""

    def repeated_subtrees(self, kind: str | None = None, min_count: int = 2, *, top: int = 0) -> Table:
        """Parts of the call tree that run again and again, the greatest time first."""

    def path_to_python(self, uid: int | None = None, *, top: int = 0) -> Table:
        """The calls from a GPU event up to its line of Python."""

    def unusual_kernels(self, min_calls: int = 5, *, top: int = 0) -> Table:
        """Kernels that a single call of an op runs, and no other call of that op, the greatest time first."""

    def recomputed_share(self, *, top: int = 0) -> Table:
        """GPU time of recomputed activations by op and module, the greatest first."""

    def outliving_events(self, *, top: int = 0) -> Table:
        """Calls that end after the call that they started in, by kind and name, the most frequent first."""

    def odd_layers(self, min_layers: int = 3, kernels: bool = True, *, top: int = 0) -> Table:
        """Layers that differ from most of their neighbours, the rarest kind first, and where they differ."""

    def storage_kernels(self, storage: str | None = None, *, top: int = 0) -> Table:
        """Kernels, copies and fills of ops that made, read or wrote tensors of a storage, in the order of their starts."""

    def bytes_alive(self, points: int = 20, *, top: int = 0) -> Table:
        """Bytes of live storages at regular intervals, by device."""

    def peak_bytes_by_module(self, *, top: int = 0) -> Table:
        """Live storages at the peak, by the module and the outermost op that allocated them; the most bytes first."""

    def shared_reads(self, top: int = 20) -> Table:
        """Storages that kernels on several streams of a device read, the most streams first, then the most time."""

    def tensor_makers(self, uid: int | None = None, *, top: int = 0) -> Table:
        """For each tensor that an op reads, the ops that made it, allocated its memory and wrote there last."""

    def copy_chains(self, min_copies: int = 2, top: int = 20) -> Table:
        """Copies and casts of data that was already copied or cast; the longest chains first, then the most bytes."""

    def memory_summary(self, *, top: int = 0) -> Table:
        """The memory of each device in use at the beginning, at the peak, and at the end."""

    def allocations_by_module(self, *, top: int = 0) -> Table:
        """Memory that modules allocate, forward and backward, its lifetime, and what is not released; most bytes first."""

    def memory_peak(self, *, top: int = 0) -> Table:
        """Memory in use at a device's peak, by the module and the outermost op that allocated it."""

    def memory_at_end(self, *, top: int = 0) -> Table:
        """Memory in use after the last allocation or release of each device; otherwise like `memory_peak`."""

    def memory_to_fit(self, size: int | None = None, *, top: int = 0) -> Table:
        """The blocks in use at a device's peak that would have to go for it to fit, the largest first."""

    def memory_segments(self, *, top: int = 0) -> Table:
        """The segments of a memory snapshot, the most free bytes first."""



class OfSet:
    """The questions about several traces."""

    def common_signatures(self, a: str | None = None, b: str | None = None, top: int = 100) -> Table:
        """Ops with the same arguments that two traces ran: how often, and how long the GPU worked for them."""

    def kernel_choices(self, a: str | None = None, b: str | None = None, top: int = 100) -> Table:
        """Where two traces launched different kernels for an op with the same arguments, and what that cost."""

    def ops_only_in_one(self, a: str | None = None, b: str | None = None, *, top: int = 0) -> Table:
        """Names of ops that only one of two traces has, the greatest GPU time first."""

    def diff_places(self, a: str | None = None, b: str | None = None, top: int = 100) -> Table:
        """Where the GPU work of two traces differs by structure, the largest change first, and why."""

    def kernel_replacements(self, a: str | None = None, b: str | None = None, kernel: str = '', top: int = 100) -> Table:
        """Which GPU events of one trace replaced those of another, call by call; the largest change first."""

    def layer_differences(self, a: str | None = None, b: str | None = None, top: int = 100) -> Table:
        """Layers that differ between two traces, the largest change first."""

    def identified_labels(self, a: str | None = None, b: str | None = None, *, top: int = 0) -> Table:
        """The labels of all GPU events of two traces, such as of two platforms or batch sizes, in order of time."""

    def run_history(self, label: str | None = None, run: str | None = None, named: str | None = None, *, top: int = 0) -> Table:
        """GPU time of each of many traces, in the order of a label's values or of pushing."""

    def incomplete_traces(self, run: str | None = None, *, top: int = 0) -> Table:
        """Traces with lost or repaired events, because their files were damaged."""

    def regressions(self, of: Literal['kernel', 'signature', 'module'] = 'kernel', label: str | None = None, named: str | None = None, min_percent: float = 5, top: int = 20) -> Table:
        """The build since which kernels, ops or modules take longer, beyond the noise of earlier builds."""

    def findings_across(self, run: str | None = None, named: str | None = None, *, top: int = 0) -> Table:
        """Findings of the verdicts on many traces: how many traces have each, and where it costs most."""

    def worst_of_roof(self, run: str | None = None, named: str | None = None, top: int = 20) -> Table:
        """The signatures that would save most time over many traces if they ran at the device's rates."""

    def signature_history(self, op: str | None = None, input_dims: str | None = None, signature: str | None = None, label: str | None = None, named: str | None = None, *, top: int = 0) -> Table:
        """Times of the calls of an op with one set of arguments, in the order of a label's values or of pushing."""

    def runs_like(self, b: str | None = None, top: int = 20) -> Table:
        """Traces that spent their GPU time on the same kernels as a given trace, the most similar first."""

    def rank_collectives(self, run: str | None = None, kind: str | None = None, top: int = 20) -> Table:
        """What each collective of a run cost: waiting, communication, bandwidth, and who came last."""

    def collective_kinds(self, run: str | None = None, kind: str | None = None, by: Literal['size', 'group'] = 'size', *, top: int = 0) -> Table:
        """What collectives cost that have something in common, and how long the ranks waited for one another in them."""

    def rank_balance(self, run: str | None = None, kind: str | None = None, late_first: bool = False, *, top: int = 0) -> Table:
        """How evenly the ranks of a run work, wait and communicate, and whom the others waited for."""

    def critical_path(self, run: str | None = None, step: int | None = None, *, top: int = 0) -> Table:
        """What bounded a step of a run over all of its ranks, segment by segment: the segments of `critical_path`."""


SEVERAL: frozenset[str]
