"""The numbers by which a diagnosis decides. docs/diagnosis.md has the same table, and the traces they were set on."""

from __future__ import annotations

DOMINANT_PERCENT = 50.0
"""What takes this share of the window is what bounds the run."""
DOMINANT_RATIO = 1.5
"""So is what takes this many times as long as what comes second; else the run is a mixture of the two."""
WORTH_REPORTING_PERCENT = 5.0
"""Share of the window from which something is a cause of its own."""
MAJOR_PERCENT = 20.0
"""Share of the window from which a loss is major."""
CAUSES = 4
"""Causes that are shown, the most expensive first."""

OPPORTUNITIES = 3
"""Opportunities that a verdict shows, those first that could win most."""

FEW_GPU_EVENTS = 20
SHORT_BUSY_MS = 5.0
"""Fewer GPU events than that, together shorter than that, show nothing of a run."""
UNLINKED_PERCENT = 80.0
"""With more GPU time than that without a launch in the trace, nothing is known of the host's part."""
CAPTURED_PERCENT = 25.0
"""Share of launch calls without a GPU event from which a trace with capture calls shows a graph being captured."""
THINNED_CALLS = 500
THINNED_PERCENT = 2.0
"""So many launch calls or more, all with their GPU events, but fewer correlation ids than this share of those that
were given out: somebody left most events out of the file."""
LOST_EXECUTIONS_PERCENT = 20.0
"""With that share of the executions of JAX's programs without GPU events, though others of theirs have some, idle time
cannot be separated from work that was not recorded."""

CUT_OFF_PERCENT = 50.0
CUT_OFF_WITHIN_PERCENT = 5.0
"""A gap of at least the first share of the idle time, which begins within the second share of the span and ends with
work launched within that share of the gap: the GPU ran earlier work, which the recording cut off. The diagnosis starts
behind it."""

INITIAL_CALL_NS = 1_000_000
INITIAL_LAUNCH_RATIO = 50.0
INITIAL_PERCENT = 50.0
"""Start-up: calls of 1 ms or more that initialise, or launches of 50 times the median, make half of the host's time."""
FIRST_CALL_RATIO = 10.0
FEW_CALLS = 3
"""The first call of an op with some sizes is slow where it takes so many times the median of the op's calls, and there
are so many of these."""

GRAPH_PERCENT = 50.0
"""Share of GPU time from launches of graphs from which a run is a graph replay."""
FAMILY_RATIO = 1.5
"""GEMM, convolution and attention against memory-bound kernels: so many times the other decides, else a mixture."""
MEMORY_BOUND_PERCENT = 50.0
"""Share of the time of a family that computes in calls that memory bounds by their sizes, from which on computing does
not bound a run of it."""
UNKNOWN_FAMILY_PERCENT = 10.0
"""Share of GPU time from which a family of unknown kernels that may be communication is named."""
TUNING_PERCENT = 20.0
"""Share of the window that computation takes at least where its kernels are worth tuning."""
FAR_BELOW_ROOF_PERCENT = 50.0
"""Share of their roof, by the vendor's rates, below which products are worth tuning; libraries reach 60 to 80."""
MODELLED_PERCENT = 95.0
"""Share of the time of products, convolutions and attention with a roof from which on their utilisation is known."""
NEAR_ROOF_PERCENT = 70.0
"""Share of its roof from which on nothing holds an operation back."""
MUCH_PERCENT = 1.0
"""Share of GPU time from which on an operation is compared with its roof, and its launch is looked at; a pattern of
several has to win as much."""
CHAIN_OPS = 3
"""So many elementwise ops in a row are worth a fused kernel."""
APART_POINTS = 1.0
"""Points by which an operation's share of its roof and the mean of its calls' differ where both are shown."""
ONE_OPERATION_PERCENT = 90.0
"""Share of GPU time of one operation from which a trace is one of that operation, which is judged by itself."""
OPERATIONS = 3
REASONS = 3
"""Operations that are judged by themselves, and reasons that are given for each."""
MANY_LAUNCHES = 20
SHORT_LAUNCH_NS = 20_000
FEW_GAPS = 10
"""Many short launches: so many GPU events, half of them shorter than an op takes on the host, and so few of the longest
gaps are less than half of the time. Only then CUDA graphs are what helps."""
SHORT_KERNEL_NS = 5_000
"""Shorter GPU events are over before the host can launch the next."""
SLOW_BUS_GB_PER_S = 10.0
SLOW_BUS_BYTES = 1_000_000
"""Bus bandwidth, of messages of that size or larger, below which the transport is worth a look: PCIe 3.0 x16 has 16."""
LONG_STEP_RATIO = 1.2
"""A step that takes so many times the median is worth a look."""
PADDING_PERCENT = 10.0
"""Share of the places of captured batches from which on empty ones are worth a line."""
STALL_RATIO = 1.5
"""Steps with prompts that take so many times a decode step hold answers up."""
APART_FROM_MEDIAN = 0.05
"""Part of a median by which a mean has to differ from it for both to be shown."""
FIXED_PERCENT = 50.0
"""Share of a decode step's GPU time from which on its fixed cost is worth a line."""
