"""All ranks of a job, run together."""

from __future__ import annotations

from . import kernels
from .events import Collective, GpuEvent, HostEvent
from .host import COMPUTE_STREAM, Process, Thread
from .options import Options
from .streams import Devices
from .training import train

START_NS = 1_428_625_700_000_000
"""When the recording starts, after the base time of the trace."""


def run_job(options: Options) -> list[Process]:
    """Run every rank to the end; all events have their times then."""
    collectives: dict[tuple[str, int], Collective] = {}
    processes = [Process(rank, options, START_NS + 53_000 * rank, collectives) for rank in range(options.ranks)]
    for process in processes:
        _leave_over(process)
    devices = Devices(processes)
    programs = [train(process) for process in processes]
    while programs:
        # every rank runs the same program, so all of them wait for their devices at the same places
        going = [program for program in programs if next(program, "end") != "end"]
        if going:
            devices.run()
        programs = going
    if options.python_stacks:
        for process in processes:
            _idle_thread(process)
    return processes


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
