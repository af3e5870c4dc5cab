"""One rank's part of a collective: the ops and calls on the host, the kernel, and how long the data takes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tracelens_graph.simulate import kernels
from tracelens_graph.simulate.events import COMM_DTYPE, Collective, GpuEvent, Member, SyncEvent, Tensor
from tracelens_graph.simulate.host import COMPUTE_STREAM, Process, Thread
from tracelens_graph.simulate.options import Kind, awaited_ranks
from tracelens_graph.simulate.places import Group, written_list


@dataclass(frozen=True)
class Message:
    """What a rank asks of the network.

    `root` is the source or target of a broadcast, reduce, gather or scatter, `peer` the other end of a
    transfer, both as ranks of the job. Splits count rows for each rank of the group.
    """

    kind: Kind
    group: Group
    x: Tensor
    out: Tensor
    root: int | None = None
    peer: int | None = None
    split_in: tuple[int, ...] = ()
    split_out: tuple[int, ...] = ()

    def ends(self, rank: int) -> tuple[int, int] | None:
        """Sender and receiver of a transfer."""
        if self.peer is None:
            return None
        return (rank, self.peer) if self.kind.name == "send" else (self.peer, rank)

    def comms_id(self, rank: int) -> int:
        """Id of the communicator: two ranks that send to each other have one of their own."""
        return self.group.comms_id(self.ends(rank))


def start(t: Thread, message: Message, *inputs: Any) -> GpuEvent:
    """Call a collective with the op's `inputs`; gives this rank's kernel, which nobody waits for yet."""
    process = t.process
    place = (process.rank, len(process.joined))
    if place in process.options.extra_collectives:
        with process.aside():
            _call(t, message, inputs, alone=True)
    before = len(process.hosts)
    gpu = _call(t, message, inputs, alone=False)
    if place in process.options.dropped_collectives:
        gpu.hidden = True
        for event in process.hosts[before:]:
            event.hidden = True
    return gpu


def wait_stream(t: Thread, waiting: int, awaited: int) -> None:
    """Record an event on one stream and let another wait for it."""
    with t.runtime("cudaEventRecord") as recorded:
        work = t.process.last_on(awaited)
    with t.runtime("cudaStreamWaitEvent") as wait:
        t.process.wait_for(waiting, work)
    found = () if work is None else (work,)
    t.process.syncs.append(SyncEvent("Stream Wait Event", wait, waiting, awaited, recorded, found))


def _call(t: Thread, message: Message, inputs: tuple[Any, ...], alone: bool) -> GpuEvent:
    with t.op(message.kind.op, *inputs) as op:
        gpu = _launch(t, message, alone)
        op.outputs = (message.out,)
    return gpu


def _launch(t: Thread, message: Message, alone: bool) -> GpuEvent:
    process, kind, group = t.process, message.kind, message.group
    collective, sequence = (_alone if alone else _joined)(process, message)
    recorded = process.options.collective_args
    args = _args(message, sequence, collective.dtype, process.rank, recorded == "all")
    with t.op("record_param_comms", *_inputs(process, message, sequence)) as op:
        op.outputs = (message.out,)
        if recorded != "none":
            op.args.update(args)
            start_and_stride = {"Global rank start": group.ranks[0], "Global rank stride": group.stride}
            op.args.update({"Rank": _rank_argument(process, message), **start_and_stride})
        ends = () if message.peer is None else (process.rank, message.peer)
        with t.annotation(kind.label.format(*map(group.ranks.index, ends))) as note:
            note.inputs = (message.x,)
            with t.runtime("cudaStreamIsCapturing"):
                pass
            stream = process.comm_stream(message.comms_id(process.rank))
            wait_stream(t, stream, COMPUTE_STREAM)
            kernel = kernels.nccl(kind.kernel, collective.dtype, args if recorded != "none" else {})
            gpu = GpuEvent("kernel", kernel.name, stream, 0, collective=collective, args=kernel.launch_args())
            return t.join(kernel, collective, _member(process, message, collective, sequence, gpu))


def _joined(process: Process, message: Message) -> tuple[Collective, int]:
    """The collective that this rank joins, made by the first to come, and the number that this rank gives it."""
    lane = _lane(process, message)
    index = process.count(lane)
    sequence = process.count(_counter(message), _stride(process))
    key = (*lane, index)
    if key not in process.collectives:
        ends = message.ends(process.rank)
        ranks = message.group.ranks if ends is None else tuple(sorted(ends))
        process.collectives[key] = _collective(process, message, ranks, index)
    collective = process.collectives[key]
    process.joined.append(collective)
    return collective, sequence


def _alone(process: Process, message: Message) -> tuple[Collective, int]:
    """A collective that only this rank runs, right before it joins another of that lane, and its number."""
    lane = _lane(process, message)
    index, counter = process.counted(lane) + 1, _counter(message)
    sequence = process.count(counter) if process.options.extra_counts else process.counted(counter) + 1
    collective = _collective(process, message, (process.rank,), index)
    collective.sequence, collective.is_extra = sequence, True
    process.collectives[(*lane, process.rank, index)] = collective
    return collective, sequence


def _lane(process: Process, message: Message) -> tuple[Any, ...]:
    """What the collectives have in common that ranks meet in one after the other."""
    return message.group.name, message.group.ranks, message.ends(process.rank)


def _counter(message: Message) -> tuple[Any, ...]:
    """What a rank counts: the collectives of a group, and its own transfers there, with whomever."""
    return message.group.name, message.group.ranks, message.kind.is_transfer


def _stride(process: Process) -> int:
    """Difference of two sequence numbers. It leaves room for extra collectives that shift no other number."""
    options = process.options
    return 2 if options.extra_collectives and not options.extra_counts else 1


def _collective(process: Process, message: Message, ranks: tuple[int, ...], index: int) -> Collective:
    options, group, kind = process.options, message.group, message.kind
    lane = (group.name,) if group.name == "0" else (group.name, group.ranks)
    seed = f"{options.seed}/{(*lane, *(message.ends(process.rank) or ()), index)}"
    # Drawn from the collective's own seed, so that it does not matter which rank comes first.
    latency = random.Random(seed).randint(9_000, 14_000)
    is_odd = kind.is_barrier and random.Random(f"{seed}/odd").random() < options.odd_share
    source, target = message.ends(process.rank) or (
        message.root if kind.waiting == "source" else None,
        message.root if kind.waiting == "target" else None,
    )
    return Collective(
        group=group,
        sequence=index * _stride(process),
        kind="send_recv" if kind.is_transfer else kind.name,
        dtype=COMM_DTYPE[message.x.dtype],
        ranks=ranks,
        number=index,
        seed=seed,
        latency=latency,
        is_barrier=kind.is_barrier and not is_odd,
        is_odd=is_odd,
        source=source,
        target=target,
        step=process.step,
    )


def _member(process: Process, message: Message, collective: Collective, sequence: int, gpu: GpuEvent) -> Member:
    options, kind, rank = process.options, message.kind, process.rank
    noise = random.Random(f"{collective.seed}/{rank}")
    most = options.odd_noise_us if collective.is_odd else options.end_noise_us
    if collective.is_odd or len(collective.ranks) == 1:
        awaits: tuple[int, ...] | None = (rank,)
    else:
        sizes = (message.split_in, message.split_out)
        exchanged = tuple(map(sum, zip(*sizes, strict=True))) or (1,) * len(collective.ranks)
        awaits = awaited_ranks(kind, rank, collective.ranks, message.root, exchanged, message.x.bytes)
    wire = kind.wire(len(collective.ranks), message.x.bytes, message.out.bytes)
    return Member(
        rank=rank,
        gpu=gpu,
        sequence=sequence,
        elements_in=message.x.numel,
        elements_out=message.out.numel,
        transfer=collective.latency + round(wire * _slowness(process, collective) / _rate(process, collective)),
        end_noise=round(1000 * most * noise.random()),
        awaits=awaits,
        split_in=message.split_in,
        split_out=message.split_out,
    )


def _rate(process: Process, collective: Collective) -> float:
    """Bytes per nanosecond."""
    options = process.options
    if options.network_gb_per_s is not None and options.nodes is not None:
        per_node = options.ranks // options.nodes
        if len({rank // per_node for rank in collective.ranks}) > 1:
            return options.network_gb_per_s
    return options.bus_gb_per_s


def _slowness(process: Process, collective: Collective) -> float:
    options = process.options
    return options.slow_link_factor if options.slow_link_rank in collective.ranks else 1.0


def _rank_argument(process: Process, message: Message) -> int:
    """What PyTorch records as the rank: the peer or root where there is one, by its place in the group."""
    end = next((one for one in (message.peer, message.root) if one is not None), process.rank)
    return message.group.ranks.index(end)


def _args(message: Message, sequence: int, dtype: str, rank: int, with_sequence: bool) -> dict[str, Any]:
    """What Kineto writes with the kernel, and with the op."""
    group = message.group
    args = {
        "Collective name": message.kind.name,
        "In msg nelems": message.x.numel,
        "Out msg nelems": message.out.numel,
        "Group size": len(group.ranks),
        "dtype": dtype,
        "In split size": written_list(message.split_in),
        "Out split size": written_list(message.split_out),
        "Process Group Name": group.name,
        "Process Group Description": group.description,
        "Process Group Ranks": written_list(group.ranks),
        "Seq": sequence,
        "Comms Id": message.comms_id(rank),
    }
    if not with_sequence:
        del args["Seq"], args["Comms Id"]
    if message.peer is not None:
        args["Dst Rank" if message.kind.name == "send" else "Src Rank"] = message.peer
    return args


def _inputs(process: Process, message: Message, sequence: int) -> tuple[Any, ...]:
    """Arguments of `record_param_comms`; older versions record fewer."""
    group, name = message.group, message.kind.name
    tensors = [message.x] if message.x.numel else []
    if process.options.collective_args == "none":
        return tensors, (), (), (), name, (), ()
    return (
        tensors,
        (sequence, message.kind.is_transfer),
        (group.name, group.description),
        _rank_argument(process, message),
        name,
        list(message.split_in),
        list(message.split_out),
        group.ranks[0],
        group.stride,
        len(group.ranks),
    )
