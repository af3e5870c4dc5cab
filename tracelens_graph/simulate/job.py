"""All ranks of a job, run together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracelens_graph.simulate import kernels
from tracelens_graph.simulate.clocks import START_NS
from tracelens_graph.simulate.events import Collective, GpuEvent, HostEvent
from tracelens_graph.simulate.groups import places
from tracelens_graph.simulate.host import COMPUTE_STREAM, Process, Thread
from tracelens_graph.simulate.loop import loop
from tracelens_graph.simulate.options import Options
from tracelens_graph.simulate.pipeline import train_stage
from tracelens_graph.simulate.recording import begin_late
from tracelens_graph.simulate.streams import Devices
from tracelens_graph.simulate.training import train
from tracelens_graph.simulate.waiting import Waits


def _program(options: Options) -> Callable[[Process], Waits]:
    if options.program == "loop":
        return loop
    return train_stage if options.pipeline_parallel > 1 else train


def run_job(options: Options) -> list[Process]:
    """Run every rank to the end; all events have their times then, and what a trace lacks is gone."""
    collectives: dict[Any, Collective] = {}
    stagger = round(1000 * options.start_stagger_us)
    processes = [Process(place, options, START_NS + stagger * place.rank, collectives) for place in places(options)]
    for process in processes:
        _leave_over(process)
    program = _program(options)
    drive([program(process) for process in processes], Devices(processes))
    for process in processes:
        process.hosts = [event for event in process.hosts if not event.hidden]
        process.gpus = [gpu for gpu in process.gpus if not gpu.hidden]
        process.syncs = [sync for sync in process.syncs if not sync.call.hidden]
        begin_late(process)
        if options.python_stacks:
            _idle_thread(process)
    return processes


def drive(programs: list[Waits], devices: Devices) -> None:
    """Run programs until they wait for work of their devices, then the devices, and so on.

    Raises RuntimeError if the ranks wait for each other for ever.
    """
    awaited: dict[int, tuple[GpuEvent, ...]] = dict.fromkeys(range(len(programs)), ())
    while awaited:
        going = [rank for rank, works in awaited.items() if all(gpu.end >= 0 for gpu in works)]
        if not going:
            raise RuntimeError(f"the simulated ranks wait for each other: {sorted(awaited)}")
        for rank in going:
            works = next(programs[rank], None)
            if works is None:
                del awaited[rank]
            else:
                awaited[rank] = works
        devices.run()


def _leave_over(process: Process) -> None:
    """Work that was launched before the recording started."""
    ready = process.start - 30_000
    for i in range(process.options.unlaunched):
        kernel = kernels.elementwise("CUDAFunctor_add<c10::BFloat16>", 4_000_000 + 500_000 * i, 3)
        gpu = GpuEvent("kernel", kernel.name, COMPUTE_STREAM, kernel.duration, ready=ready)
        gpu.correlation, gpu.args = 5_000 + 7 * i, kernel.launch_args()
        process.submit(gpu)


def _idle_thread(process: Process) -> None:
    """A helper thread of Python as the profiler writes it: under process 0, the GPU's number too."""
    thread = Thread(process, 0, 0, 3, sequence=0)
    end = max(event.end for event in process.hosts)
    names = (
        "threading.py(1032): _bootstrap",
        "threading.py(1075): _bootstrap_inner",
        "tqdm/_monitor.py(60): run",
    )
    parent = None
    for i, name in enumerate(names):
        start = process.start - 20_000 + 900 * i
        parent = HostEvent("python_function", name, thread, start, parent, None, None, False, end + 9_000 - 900 * i)
        process.hosts.append(parent)
