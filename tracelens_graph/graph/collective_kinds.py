"""Kinds of collectives, and which kernels carry them out: one table of names, for all who ask what is communication.

Kinds have the names under which PyTorch records them. A kernel is known by its name alone here; arguments that were
recorded beside it say more (`collectives`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tracelens_graph.utils.patterns import LazyPattern

UNKNOWN = "unknown"

KIND_NAMES = {
    "allreducecoalesced": "allreduce_coalesced", "allreduce": "allreduce",
    "reducescatterbase": "_reduce_scatter_base", "reducescattertensor": "_reduce_scatter_base",
    "reducescatter": "reduce_scatter",
    "allgatherbase": "_allgather_base", "allgatherintotensor": "_allgather_base", "allgather": "all_gather",
    "alltoallv": "all_to_allv", "alltoall": "all_to_all", "all2allv": "all_to_allv", "all2all": "all_to_all",
    "broadcast": "broadcast", "barrier": "barrier",
    "sendrecv": "send_recv", "send": "send", "recv": "recv", "receive": "recv",
    "reduce": "reduce", "gather": "gather", "scatter": "scatter",
}  # fmt: skip
"""What a name without underscores begins with -> the kind as PyTorch records it; the first that fits counts."""


HOST_BACKENDS = ("gloo", "mpi")
"""Backends that run collectives on the host. Annotations are named `gloo:all_reduce`."""


class Communication(NamedTuple):
    """What a kernel's name says of its communication.

    Attributes:
        library: what it belongs to; empty where only the kind is known.
        kind: the kind of the collective; `unknown` where the name does not say.
        in_tracelens: whether TraceLens's tables count it as communication, not as computation.
    """

    library: str
    kind: str
    in_tracelens: bool = False


class Library(NamedTuple):
    """How the communication kernels of a library are known by name.

    Attributes:
        name: the library; empty where names give the kind alone.
        marker: regular expression found in the names of its kernels, in lower case.
        kinds: (regular expression, kind) of names whose words do not say the kind; the first that fits counts.
        in_tracelens: see Communication.
        unless: regular expression of names that are none of it all the same; "" for no such names.
    """

    name: str
    marker: str
    kinds: tuple[tuple[str, str], ...] = ()
    in_tracelens: bool = False
    unless: str = ""

    @property
    def pattern(self) -> str:
        """Regular expression that fits from the beginning of a name to what makes it one of the library."""
        return rf"(?s)^(?!.*(?:{self.unless})).*?(?:{self.marker})" if self.unless else self.marker


_EXPERTS = ((r"notify", UNKNOWN), (r"(?:dispatch|combine)", "all_to_allv"))
_EXPERT_PARALLEL = (
    # internode::dispatch, intranode::notify_combine, their mangled forms, internode_ll8dispatch
    r"int(?:er|ra)_?node\w{0,12}(?:::|\d{1,2})\w{0,16}?(?:dispatch|combine|notify)"
    r"|(?<![a-z])ep::(?:\w{1,24}::)?\w{0,16}?(?:dispatch|combine|notify)(?!_layout)(?:_?kernel)?(?![a-z])"
    # _ZN4dpsk2ep8dispatchEv: a length stands before each part of a mangled name
    r"|2ep(?:\d{1,2}[a-z_]{1,24})?(?:8dispatch|15dispatch_kernel|7combine|14combine_kernel|1[345](?:cached_)?notify)"
    r"|(?<![a-z])(?:ep|gin|pplx)_?(?:dispatch|combine)|low_?latency_(?:dispatch|combine)|(?<![a-z])(?:dispatch|combine)_ll(?![a-z])"
)
_OTHERWISE = (
    # Reductions and exchanges over the threads of a device are none over ranks,
    r"(?<![a-z])(?:cta|grid|cluster|dsmem|(?:sub)?warp|(?:thread)?block|thread|wave(?:front)?|lane|local)"
    r"\w{0,40}?(?:all_?(?:reduce|gather|to_?all)|reduce_?scatter)"
    # names may say that there is none,
    r"|(?<![a-z])(?:no|non|without)_?(?:all_?(?:reduce|gather|to_?all)|reduce_?scatter)"
    r"|(?:reduce|gather|scatter|to_?all)_?(?:free|less)(?![a-z])"
    # and what is packed before or unpacked behind stays on the device.
    r"|to_?allv?_?(?:un)?pack(?![a-z])"
)
LIBRARIES = (
    # Before it said `Dev`, NCCL ran most collectives in a kernel that happened to be called SendRecv.
    Library("NCCL", r"nccl", ((r"ncclkernel_sendrecv", UNKNOWN),), True),
    Library("RCCL", r"rccl(?!r)", (), True),
    Library("MSCCL++", r"mscclpp"),
    Library("MSCCL", r"(?<![a-z])msccl"),
    Library("oneCCL", r"oneccl|(?<![a-z])ccl(?:::|_)\w{0,60}(?:all_?reduce|all_?gather|all_?to_?all|reduce_?scatter)"),
    Library("HCCL", r"(?<![a-z])hc(?:om_|cl)"),
    Library("UCC", r"(?<![a-z])ucc_"),
    Library("NIXL", r"(?<![a-z])nixl"),
    # Dispatch and combine of experts: each rank sends every other as many tokens as were routed there.
    # What counts the tokens for it beforehand sends nothing.
    Library(
        "DeepEP",
        r"deep_?ep(?:::|\d)(?!.{0,24}get_dispatch_layout)|(?<![a-z])dpsk(?:::|\d)ep(?:::|\d{1,2})int(?:er|ra)node",
        _EXPERTS,
    ),
    Library("MORI", r"(?<![a-z])mori(?:::|_)", _EXPERTS),
    Library("expert parallel", _EXPERT_PARALLEL, _EXPERTS),
    Library(
        "NVSHMEM",
        r"nvshmem|(?:barrier|sync|broadcast|fcollect|alltoall|rdxn|reduce|put|get|signal|wait|quiet)\w{0,24}_on_stream_kernel",
    ),
    Library("rocSHMEM", r"rocshmem"),
    Library(
        "userbuffers",
        r"userbuffers",
        (
            (r"_rs(?![a-z])", "_reduce_scatter_base"),
            (r"_ag(?![a-z])", "_allgather_base"),
            (r"push_?send|p(?:ush|ull)_?recv", "send_recv"),
            (r"fp16_sum_inplace", "allreduce"),
        ),
    ),
    # vLLM, SGLang and aiter share it.
    Library("custom all-reduce", r"cross_device_reduce", (("", "allreduce"),), True),
    Library("custom all-reduce", r"(?<![a-z])custom_?ar(?![a-z])", (("", "allreduce"),)),
    Library("quick reduce", r"quick_?reduce", (("", "allreduce"),)),
    Library(
        "TensorRT-LLM",
        r"lamport|moe_?a2a|shotallreduce\w{0,8}kernel|all_?reduce_?fusion|trtllm_\w{0,24}all_?(?:reduce|to_?all)",
        ((r"moe_?a2a", "all_to_allv"),),
    ),
    Library(
        "symmetric memory",
        r"(?<![a-z])multimem_(?:\w{1,24}_)?(?:all|red|ld|st|gather|scatter|broadcast|barrier)|(?<![a-z])nvls(?![a-z])"
        r"|symm(?:etric)?_?mem|(?:one|two)_shot_all_?reduce|(?:::|14)barrier_kernel|(?:put|wait)_signal",
    ),
    Library(
        "XLA",
        r"collective[_-]?(?:permute|broadcast)|^(?:send|recv)(?:-done)?(?:\.\d{1,9})?$",
        ((r"permute", "send_recv"),),
    ),
    Library(
        "",
        r"all[_-]?reduce|all[_-]?gather(?!_?matmul)|reduce[_-]?scatter|all[_-]?(?:to|2)[_-]?all|send_?recv",
        unless=_OTHERWISE,
    ),
    Library("", r"(?<![a-z])a2a_", (("", "all_to_all"),)),
    # One side writes to or reads from the memory of another: names of the interface that all such libraries have.
    Library(
        "one-sided",
        r"triton_dist(?:ributed)?_(?:\w{1,24}_)?(?:push|pull)|(?<![a-z])gin_(?:put|get|signal|wait)|ibgda|(?<![a-z])rdma_|(?:put|get)mem(?![a-z])|(?:put|get)(?:mem)?_(?:nbi|signal)|remote_(?:put|get)",
    ),
    # Collective communication libraries of further vendors.
    Library("", r"(?<![a-z])[a-z]{1,3}ccl(?:dev|generic)?_?(?:kernel|all|reduce|broadcast|send)"),
)
"""All names of communication kernels that are known; the first library whose marker fits counts."""

_WORD = re.compile(
    r"all[_-]?(?:reduce|gather|(?:to|2)[_-]?allv?)|reduce[_-]?scatter|broadcast|barrier|send_?recv|send|recv|receive"
    r"|reduce|gather|scatter"
)
COMPILED = (r"^triton_\w{0,40}?fused_", r"^triton__\d", r"^triton_(?:poi|red|per|tem|for|unk|mix)_")
"""Names of kernels that torch.compile made: they hold the names of the ops in them, and of collectives beside them."""

_LONGEST = 1024
"""Characters of a name that are looked at: names of C++ templates can be megabytes long."""

_MARKERS = [
    (
        LazyPattern(one.marker),
        LazyPattern(one.unless or r"(?!)"),
        [(LazyPattern(pattern), kind) for pattern, kind in one.kinds],
        one,
    )
    for one in LIBRARIES
]


@lru_cache(maxsize=16384)
def communication(name: str) -> Communication | None:
    """What a kernel communicates by its name; None if it does not.

    >>> communication("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    Communication(library='NCCL', kind='allreduce', in_tracelens=True)
    """
    plain = name[:_LONGEST].lower()
    if plain.startswith("triton_") and any(re.match(pattern, plain) for pattern in COMPILED):
        return None
    for marker, unless, kinds, library in _MARKERS:
        if (found := marker.search(plain)) and not unless.search(plain):
            word = _WORD.search(plain, found.start())
            matching = (kind for pattern, kind in kinds if pattern.search(plain, found.start()))
            kind = next(matching, kind_of(word[0]) if word else UNKNOWN)
            return Communication(library.name, kind, library.in_tracelens)
    return None


def counts_in_tracelens(name: str) -> bool:
    """Whether TraceLens's tables count kernels of a name as communication."""
    found = communication(name)
    return found is not None and found.in_tracelens


def kind_of_kernel(name: str) -> str:
    """The kind of a collective by its kernel's name; `unknown` where it does not say."""
    found = communication(name)
    return found.kind if found else UNKNOWN


def kind_of(name: str) -> str:
    """The kind of a collective by the name of an op or an annotation; `unknown` where it does not say."""
    plain = name.replace("_", "").replace("-", "").lower()
    return next((kind for start, kind in KIND_NAMES.items() if plain.startswith(start)), UNKNOWN)
