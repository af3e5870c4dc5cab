"""Kinds of changes, each an edit of a real trace; what is known of them stands in `known.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache

from plants.edits import RUNTIME, Event, Recording, total_ms

from corpus import CORPUS

H100, MI300 = "tracelens/h100", "tracelens/mi300"
TRACES = {
    "vit": (f"{H100}/vit-nsfw", None),
    "resnet": (f"{MI300}/resnet-ddp-checkpointing", "ProfilerStep#16"),
    "qwen": (f"{H100}/qwen1.5-0.5b", None),
}
"""Inference on NVIDIA of 12 equal layers, waiting for the host; training on AMD with backward, all-reduce and
recomputation, the GPU behind the host; inference on NVIDIA of 24 layers. Stacks, modules, and one step."""


@cache
def original(trace: str) -> Recording:
    """A real trace as it is; who edits it copies it."""
    name, step = TRACES[trace]
    assert CORPUS is not None
    return Recording(CORPUS / f"{name}.json.gz", step)


Edit = Callable[[Recording], float | None]
"""Plants a change; returns by how many ms it changes the GPU time at its place, if that is known."""


def renamed(old: str, new: str) -> Callable[[str], str]:
    wanted = re.compile(old)
    return lambda name: wanted.sub(new, name)


def _end(event: Event) -> float:
    return float(event["ts"] + event["dur"])


# -- edits -------------------------------------------------------------------------------------------------------


def insert(of: str, around: str, rename: Callable[[str], str], us: float = 20.0) -> Edit:
    """In each module one more op with kernels, made of another."""

    def edit(t: Recording) -> float:
        added = 0.0
        for module in t.modules(around):
            for op in t.ops(of, module)[:1]:
                _, work = t.insert_copy(op, _end(op), rename)
                for event in work:
                    event["dur"] = us
                added += total_ms(work)
        return added

    return edit


def remove(of: str, around: str) -> Edit:
    """In each module without one of its ops."""

    def edit(t: Recording) -> float:
        gone = 0.0
        for module in t.modules(around):
            for op in t.ops(of, module)[:1]:
                gone += total_ms(t.work(op))
                t.remove(op)
        return -gone

    return edit


def swap(first: str, second: str, around: str) -> Edit:
    """In each module two of its modules the other way round."""

    def edit(t: Recording) -> None:
        for module in t.modules(around):
            inside = {id(event) for event in t.inside(module)}
            one, other = (next(e for e in t.modules(name) if id(e) in inside) for name in (first, second))
            t.swap(*sorted((one, other), key=lambda event: event["ts"]))

    return edit


def rename(pattern: str, by: str, factor: float = 1.0) -> Edit:
    """Another name of modules, ops or kernels; kernels of that name another time."""

    def edit(t: Recording) -> float:
        changed = t.scale(t.kernels(pattern), factor)
        assert t.rename(pattern, by)
        return changed

    return edit


def slow_in(modules: str, factor: float, ops: str | None = None) -> Edit:
    """All GPU work of some modules, or of some ops in them."""

    def edit(t: Recording) -> float:
        found = t.modules(modules)
        assert found
        callers = found if ops is None else [op for module in found for op in t.ops(ops, module)]
        return t.scale(t.work(callers), factor)

    return edit


def slow(kernels: str, factor: float) -> Edit:
    """A kernel wherever it runs."""

    def edit(t: Recording) -> float:
        found = t.kernels(kernels)
        assert found
        return t.scale(found, factor)

    return edit


def arguments(
    ops: str, key: str, pattern: str, by: str | Callable[[re.Match[str]], str], factor: float, around: str | None = None
) -> Edit:
    """Recorded sizes (`Input Dims`) or types (`Input type`) of ops, as JSON text, and the time of their kernels."""

    def edit(t: Recording) -> float:
        found = t.ops(ops) if around is None else [op for m in t.modules(around) for op in t.ops(ops, m)]
        for op in found:
            if key in op["args"]:
                op["args"][key] = _replaced(op["args"][key], pattern, by)
        return t.scale(t.work(found), factor)

    return edit


def _replaced(value: object, pattern: str, by: str | Callable[[re.Match[str]], str]) -> object:
    return json.loads(re.sub(pattern, by, json.dumps(value)))


def cast(of: str, around: str, us: float = 15.0) -> Edit:
    """In each module a cast before one of its ops: `aten::to`, `aten::_to_copy`, `aten::copy_` and a kernel."""

    def edit(t: Recording) -> float:
        copies = 0
        for module in t.modules(around):
            for op in t.ops(of, module)[:1]:
                like = t.work(op)[0]
                at = op["ts"] - 0.05
                outer = t.insert_call(at, "aten::to", 12.0, "cpu_op", op)
                middle = {**outer, "name": "aten::_to_copy", "ts": outer["ts"] + 1, "dur": 10.5, "args": {}}
                inner = {**outer, "name": "aten::copy_", "ts": outer["ts"] + 3, "dur": 8.0, "args": {}}
                call = {**outer, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": outer["ts"] + 4, "dur": 4.0,
                        "args": {}}  # fmt: skip
                new = {**like, "cat": "kernel", "dur": us, "args": {**like["args"]}, "name":
                       "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::"
                       "TensorIteratorBase&)::{lambda()#3}::operator()() const>(int)"}  # fmt: skip
                new["args"]["correlation"] = t.new_correlation(call)
                t.host += [middle, inner, call]
                t.gpu.append(new)
                copies += 1
        return copies * us / 1000

    return edit


def synchronize(around: str, wait_us: float = 60.0) -> Edit:
    """Behind each of some modules the host waits until the GPU has done all work so far."""

    def edit(t: Recording) -> None:
        for module in t.modules(around):
            at = _end(module) + 0.01
            t.insert_call(at, "cudaDeviceSynchronize", wait_us, "cuda_runtime", module)["args"] |= {
                "correlation": t.new_correlation({"args": {}})
            }

    return edit


def pause(around: str, us: float) -> Edit:
    """In each of some modules Python takes longer before it calls anything."""

    def edit(t: Recording) -> None:
        for module in sorted(t.modules(around), key=lambda event: -event["ts"]):
            t.delay(module["ts"] + 0.5, us)

    return edit


def loader(ms: float) -> Edit:
    """The data loader takes time at the beginning of the step."""

    def edit(t: Recording) -> None:
        (step,) = t.named(r"ProfilerStep#\d+", ("user_annotation",))
        t.insert_call(step["ts"] + 1, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1000 * ms,
                      "user_annotation", step)  # fmt: skip

    return edit


def clock(factor: float, but: str | None = None, but_factor: float = 1.0) -> Edit:
    """All kernels but collectives by one factor; those of a name by another."""

    def edit(t: Recording) -> float:
        changed = t.scale(t.kernels(but), but_factor / factor) if but else 0.0
        return changed + t.scale(t.kernels("^(?!nccl|Memcpy)"), factor)

    return edit


def fuse(first: str, second: str, around: str, name: str, kernel: str, share: float = 0.6) -> Edit:
    """In each module two ops become one, with one kernel that takes a share of their time."""

    def edit(t: Recording) -> float:
        changed = 0.0
        for module in t.modules(around):
            gone = t.ops(first, module)[0]
            kept = next(op for op in t.ops(second, module) if op["ts"] >= _end(gone))
            work = t.work([gone, kept])
            before = total_ms(work)
            t.remove(gone)
            for event in t.work(kept)[1:]:
                t.gpu.remove(event)
            (event,) = t.work(kept)
            t.host = [e for e in t.host if e["cat"] != "cpu_op" or e is kept or not _inside(e, kept)]
            kept["name"], event["name"], event["dur"] = name, kernel, 1000 * before * share
            changed += before * (share - 1)
        return changed

    return edit


def _inside(event: Event, around: Event) -> bool:
    return around["ts"] <= event["ts"] and _end(event) <= _end(around) and event["tid"] == around["tid"]


def join_products(around: str, first: int, number: int, sizes: tuple[str, str], share: float = 0.7) -> Edit:
    """In each module some products of one input become one, of which other sizes are recorded."""

    def edit(t: Recording) -> float:
        changed = 0.0
        for module in t.modules(around):
            inside = {id(event) for event in t.inside(module)}
            linears = [event for event in t.modules("Linear_.*") if id(event) in inside][first : first + number]
            before = total_ms(t.work(linears))
            for gone in linears[1:]:
                t.remove(gone)
            for op in t.ops("aten::(linear|addmm|mm|matmul)", linears[0]):
                op["args"]["Input Dims"] = _replaced(op["args"]["Input Dims"], *sizes)
            left = total_ms(t.work(linears[0]))
            changed += t.scale(t.work(linears[0]), share * before / left) + left - before
        return changed

    return edit


def fuse_apart(first: str, second: str, around: str, name: str, kernel: str, share: float = 0.6) -> Edit:
    """In each module a module in it and an op behind it become one op, where the op is; others stand between them."""

    def edit(t: Recording) -> float:
        changed = 0.0
        for module in t.modules(around):
            inside = {id(event) for event in t.inside(module)}
            gone = next(event for event in t.modules(first) if id(event) in inside)
            kept = t.ops(second, module)[-1]
            before = total_ms(t.work([gone, kept]))
            t.remove(gone)
            (event,) = t.work(kept)
            kept["name"], event["name"], event["dur"] = name, kernel, 1000 * before * share
            changed += before * (share - 1)
        return changed

    return edit


def split_k(ops: str, kernels: str, us: float = 6.0, factor: float = 0.7) -> Edit:
    """Each product becomes a shorter one and a kernel that adds up its parts."""

    def edit(t: Recording) -> float:
        wanted, changed = re.compile(kernels), 0.0
        for event in t.work(t.ops(ops)):
            if wanted.search(event["name"]):
                changed += t.scale([event], factor) + us / 1000
                t.add_after(event, "void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16, __nv_bfloat16, "
                            "float, __nv_bfloat16, true, false, false>(cublasLt::cublasSplitKParams)", us)  # fmt: skip
        assert changed
        return changed

    return edit


def launch_cost(us: float) -> Edit:
    """Each call of the runtime that launches takes longer."""

    def edit(t: Recording) -> None:
        launched = {event["args"]["correlation"] for event in t.gpu}
        calls = [e for e in t.host if e["cat"] in ("cuda_runtime", "cuda_driver")
                 and e["args"].get("correlation") in launched]  # fmt: skip
        for call in sorted(calls, key=lambda event: -event["ts"]):
            t.delay(call["ts"] + call["dur"] / 2, us)

    return edit


def repeat(times: int) -> Edit:
    """The program several times one after the other, and no step marks them."""

    def edit(t: Recording) -> None:
        (step,) = t.named(r"ProfilerStep#\d+", ("user_annotation",))
        t.host.remove(step)
        every = [*t.host, *t.gpu]
        span = max(_end(event) for event in every) - min(event["ts"] for event in every) + 50.0
        sizes = {id(events): len(events) for events in (t.host, t.gpu)}
        for number in range(1, times):
            for events in (t.host, t.gpu):
                for event in events[: sizes[id(events)]]:
                    new = json.loads(json.dumps(event))
                    new["ts"] += number * span
                    for name in ("correlation", "External id"):
                        if name in new["args"]:
                            new["args"][name] += number * 100_000_000
                    events.append(new)

    return edit


def noise(share: float, seed: int = 1) -> Edit:
    """Nothing but jitter."""

    def edit(t: Recording) -> None:
        t.jitter(share, seed)

    return edit


def graph(around: str) -> Edit:
    """The launches below modules become one launch of a graph, and their ops are gone."""

    def edit(t: Recording) -> None:
        for module in t.modules(around)[:1]:
            work = t.work(module)
            gone = {id(event) for event in t.inside(module) if event is not module}
            t.host = [event for event in t.host if id(event) not in gone]
            first = work[0]["ts"]
            call = t.insert_call(module["ts"] + 5, "cudaGraphLaunch", 30.0, "cuda_runtime", module)
            number = t.new_correlation(call)
            for place, event in enumerate(work):
                event["args"] = {**event["args"], "correlation": number, "graph id": 1, "graph node id": place + 1}
                t.place(event, max(call["ts"] + 10, first) + place * 0.001, 1e-6)  # a graph runs without gaps

    return edit


def serialize(kernels: str) -> Edit:
    """What ran beside some kernels runs behind them."""

    def edit(t: Recording) -> None:
        for event in t.kernels(kernels):
            start, end = event["ts"], _end(event)
            beside = sorted((one for one in t.gpu if one is not event and start <= one["ts"] < end), key=_end)
            late = sum(one["dur"] for one in beside)
            for one in [one for one in t.gpu if one["ts"] >= end]:
                t.place(one, one["ts"] + late)
            for one in beside:
                t.place(one, end)
                end = _end(one)

    return edit


def start_earlier(kernels: str, us: float) -> Edit:
    """Some kernels begin earlier, beside others."""

    def edit(t: Recording) -> None:
        for event in t.kernels(kernels):
            if event["dur"] > us:
                for one in [one for one in t.gpu if one["ts"] >= _end(event)]:
                    t.place(one, one["ts"] - us)
                t.place(event, event["ts"] - us)

    return edit


def copies(around: str, before: tuple[int, float], after: tuple[int, float]) -> tuple[Edit, Edit]:
    """Copies to the GPU behind some modules, of some bytes and us: what is planted into both sides."""

    def plant(size: int, us: float) -> Edit:
        def edit(t: Recording) -> None:
            for module in t.modules(around):
                call = t.insert_call(_end(module) + 0.01, "cudaMemcpyAsync", 4.0, "cuda_runtime", module)
                new = {**t.work(module)[-1], "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "dur": us}
                stream = {key: new["args"][key] for key in ("device", "stream")}
                new["args"] = {**stream, "correlation": t.new_correlation(call), "bytes": size,
                               "memory bandwidth (GB/s)": size / us / 1000}  # fmt: skip
                t.gpu.append(new)

        return edit

    return plant(*before), plant(*after)


_EXTERN = r"aten::(convolution_backward|mm|addmm|bmm|_flash_attention_backward)|.*: unpack_hook"
"""What a compiled backward pass calls as it is: products, attention, and what recomputes."""


def compiled_backward(layers: str, share: float = 0.6) -> Edit:
    """The backward pass of each of some modules is one compiled region.

    Products in it stay calls of their own, all between two of them is one Triton kernel that takes a share of its time,
    and what adds up gradients comes behind the region.
    """

    def edit(t: Recording) -> float:
        changed = 0.0
        backward = t.named(f"{_ENGINE}.*")
        thread = backward[0]["tid"]
        for layer in [module for module in t.modules(layers) if module["tid"] != thread]:
            numbers = [e["args"]["Sequence number"] for e in t.inside(layer) if "Sequence number" in e["args"]]
            nodes = [e for e in backward if min(numbers) <= e["args"].get("Sequence number", -1) <= max(numbers)]
            changed += _compiled(t, nodes, share)
        return changed

    return edit


_ENGINE = "autograd::engine::evaluate_function: "


def _compiled(t: Recording, nodes: list[Event], share: float) -> float:
    """Backward nodes as one; by how many ms that changes GPU time."""
    first, last = nodes[0], nodes[-1]
    added = [(t.inside(event), t.work(event)) for event in t.named(f"{_ENGINE}torch::autograd::AccumulateGrad")
             if first["ts"] < event["ts"] < last["ts"]]  # fmt: skip
    before = total_ms(t.work(nodes))
    at = first["ts"] + 5.0
    extern = [event for node in nodes for event in _outermost(t, node, _EXTERN) if t.work(event)]
    kept = {id(event) for one in extern for event in t.inside(one)}
    parts: list[tuple[float, list[Event], list[Event], str]] = [
        (one["ts"], t.inside(one), t.work(one), "") for one in extern
    ]
    launched = {e["args"]["correlation"]: e["ts"] for e in t.named(".*", RUNTIME) if "correlation" in e["args"]}
    called = {event["args"]["correlation"] for one in extern for event in t.work(one)}
    for node in nodes:
        own = [event for event in t.work(node) if event["args"]["correlation"] not in called]
        parts += [
            (launched[event["args"]["correlation"]], [], [event], node["name"].removeprefix(_ENGINE)) for event in own
        ]
    gone = [event for node in nodes for event in t.inside(node) if id(event) not in kept]
    launch = next(e for e in gone if e["cat"] in RUNTIME and "correlation" in e["args"])
    t.host = [event for event in t.host if id(event) not in {id(one) for one in gone}]
    order: list[Event] = []
    number, fused = 0, list[tuple[str, list[Event]]]()
    for _, host, work, name in [*sorted(parts, key=lambda part: part[0]), (0.0, [], [], "end")]:
        if not host and name != "end":
            fused.append((name, work))
            continue
        if fused:
            order.append(_triton(t, launch, fused, at, number, share))
            at, number, fused = at + 6.0, number + 1, []
        if host:
            at = _moved(host, at)
            order += work
    region = {**{key: first[key] for key in ("ph", "cat", "pid", "tid")}, "args": dict(last["args"])}
    for depth, name in enumerate((f"{_ENGINE}CompiledFunctionBackward", "CompiledFunctionBackward",
                                  "## Call CompiledFxGraph fq3xk2c7 ##")):  # fmt: skip
        new = {**region, "name": name, "ts": first["ts"] + depth, "dur": at + 3.0 - 2 * depth - first["ts"]}
        t.host.append({**new, "args": region["args"] if depth < 2 else {}})
    at += 5.0
    for host, work in added[::-1]:  # in the order of the parameters
        order += [event for event in work if "nccl" not in event["name"]]
        at = _moved(host, at)
    late = at - _end(last)
    assert late < 0, late
    begin = min(event["ts"] for event in order)
    for event in order:
        t.place(event, begin)
        begin = _end(event)
    return total_ms(t.work(t.host[-3])) - before


def _moved(host: list[Event], at: float) -> float:
    """Host events begin at another time; when they have ended."""
    by = at - min(event["ts"] for event in host)
    for event in host:
        event["ts"] += by
    return max(map(_end, host)) + 1.0


def _outermost(t: Recording, node: Event, pattern: str) -> list[Event]:
    found: list[Event] = []
    for event in sorted(t.inside(node), key=lambda event: (event["ts"], -event["dur"])):
        if re.fullmatch(pattern, event["name"]) and not (found and _inside(event, found[-1])):
            found.append(event)
    return found


def _triton(
    t: Recording, like: Event, fused: list[tuple[str, list[Event]]], at: float, number: int, share: float
) -> Event:
    """One kernel, launched by the region itself, in place of others."""
    work = [event for _, events in fused for event in events]
    ops = sorted({_snake(name) for name, _ in fused})
    kept = work[0]
    kept |= {"name": f"triton_red_fused_{'_'.join(ops)}_{number}", "dur": share * sum(e["dur"] for e in work)}
    gone = {id(event) for event in work[1:]}
    t.gpu = [event for event in t.gpu if id(event) not in gone]
    call = {**like, "name": "hipModuleLaunchKernel", "ts": at, "dur": 5.0, "args": {**like["args"]}}
    kept["args"] = {**kept["args"], "correlation": t.new_correlation(call)}
    t.host.append(call)
    return kept


def _snake(name: str) -> str:
    """`NativeBatchNormBackward0` -> `native_batch_norm_backward`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower().rstrip("0123456789")


def both(*edits: Edit) -> Edit:
    """Several changes, one after the other."""

    def edit(t: Recording) -> None:
        for one in edits:
            one(t)

    return edit
