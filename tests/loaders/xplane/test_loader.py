"""JAX profiles as graphs: hand-made ones with known answers, real ones beside a plain reader of the format."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import plain_xplane as plain
import pytest
from handmade_jax import mlp, training_profile
from plain_xplane import Plane

from corpus import CHECKOUT, parametrize, xplane_files
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.xplane.space import planes
from tracelens_graph.loading.files import trace_files
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import GPU_KINDS, Kind, OwnerRule
from tracelens_graph.stores.cut import piece_between, write_piece
from tracelens_graph.stores.graph_file import write_graph

EXAMPLE = CHECKOUT / "examples/traces/tiny-transformer-jax-cpu.xplane.pb.gz"
US = 1_000_000
"""Picoseconds in a microsecond."""


def names(core: Core, kind: Kind) -> list[str]:
    return [node.name for node in core.find(kind)]


def programs() -> Plane:
    plane = Plane("/host:metadata")
    plane.program(3, "jit_f(3)", mlp())
    return plane


def gpu(*events: bytes, plane: Plane, ordinal: int = 0) -> Plane:
    plane.line(7, "Stream #7", 1000, *events)
    return plane


def two_kernels_each(named_ranges: bool) -> bytes:
    """A dot of two kernels, a fusion of one, a copy; with ranges for instructions on the host, or without."""
    device, host = Plane("/device:GPU:0"), Plane("/host:CPU")
    dot = {"hlo_op": "&dot.3", "program_id": 3}
    gpu(
        device.event("im2col", 110 * US, 5 * US, correlation_id=1, **dot),
        device.event("gemm", 120 * US, 20 * US, correlation_id=2, **dot),
        device.event("fusion_4", 140 * US, 4 * US, correlation_id=3, hlo_op="&fusion.4", program_id=3),
        device.event("CopyD2D", 150 * US, 3 * US, correlation_id=4, memcpy_details="kind:Unknown size:4096 dest:2"),
        plane=device,
    )
    ranges = [host.event("dot.3", 10 * US, 20 * US), host.event("fusion.4", 30 * US, 9 * US)] if named_ranges else []
    launches = [
        host.event("im2col", 12 * US, 2 * US, correlation_id=1),
        host.event("gemm", 20 * US, 2 * US, correlation_id=2),
        host.event("cudaLaunchKernel", 31 * US, 2 * US, correlation_id=3),
        host.event("cudaMemcpyAsync", 45 * US, 2 * US, correlation_id=4),
    ]
    outer = host.event("PjitFunction(f)", 0, 100 * US)
    if named_ranges:
        host.line(11, "python", 1000, outer, *ranges)
        host.line(12, "Host Threads/12", 1000, *launches)
    else:
        host.line(11, "python", 1000, outer, *launches)
    return plain.written(programs(), device, host)


@pytest.mark.parametrize("named_ranges", [True, False])
def test_kernels_are_charged_to_their_instruction(named_ranges: bool) -> None:
    core = load_core(two_kernels_each(named_ranges))
    c = core.columns
    owners = {core.names[c.name[row]]: c.owner[row] for row in core.gpu_rows.tolist()}
    charged = {name: core.names[c.name[owner]] if owner >= 0 else None for name, owner in owners.items()}
    assert charged == {"im2col": "dot.3", "gemm": "dot.3", "fusion_4": "fusion.4", "CopyD2D": None}
    assert sorted(names(core, Kind.Op)) == ["dot.3", "fusion.4"]
    assert Counter(Kind(kind).name for kind in c.kind[core.gpu_rows]) == {"Kernel": 3, "Memcpy": 1}
    assert c.bytes[core.gpu_rows].max() == 4096
    (op,) = core.find(Kind.Op, "dot.3")
    assert (op.start_ns, core.gpu_sum_ns[core.row(op.uid)]) == ((10_000 if named_ranges else 12_000), 25_000)
    (above,) = {core.names[c.name[c.parent[core.row(one.uid)]]] for one in core.find(Kind.Module)}
    assert above == "PjitFunction(f)"


def test_an_instruction_has_its_shapes_and_its_place() -> None:
    core = load_core(two_kernels_each(True))
    (op,) = core.find(Kind.Op, "dot.3")
    assert op.args["Input Dims"] == [[4, 8], [8, 16]]
    assert op.args["Input type"] == ["f32", "f32"]
    assert op.args["Input Strides"] == [[8, 1], [16, 1]]
    assert (op.args["opcode"], op.args["source"], op.args["program"]) == ("dot", "model.py:7", "jit_f(3)")
    (fusion,) = core.find(Kind.Op, "fusion.4")
    assert fusion.args["op_name"] == "jit(f)/jvp(mlp)/exp"
    assert fusion.args["Instruction"]["kind"] == "fusion(elementwise)"


def test_instances_of_one_instruction_in_two_executions_stay_two() -> None:
    device, host = Plane("/device:GPU:0"), Plane("/host:CPU")
    told = {"hlo_op": "&dot.3", "program_id": 3}
    gpu(*(device.event("k", (50 + 10 * i) * US, US, correlation_id=i, **told) for i in (1, 2, 3)), plane=device)
    calls = [
        host.event("jit_f:XLA GPU module", 0, 10 * US), host.event("k", 1 * US, US, correlation_id=1),
        host.event("k", 3 * US, US, correlation_id=2), host.event("jit_f:XLA GPU module", 20 * US, 10 * US),
        host.event("k", 21 * US, US, correlation_id=3),
    ]  # fmt: skip
    host.line(1, "py_xla_execute/1", 0, *calls)
    core = load_core(plain.written(programs(), device, host))
    ops = core.find(Kind.Op)
    assert [(op.start_ns, op.dur_ns, core.gpu_sum_ns[core.row(op.uid)]) for op in ops] == [
        (1000, 3000, 2000),
        (21_000, 1000, 1000),
    ]


def cpu_step() -> bytes:
    host = Plane("/host:CPU")
    told = {"program_id": 3, "run_id": 2**63 + 5}
    thunks = [
        host.event("dot.3", 10 * US, 5 * US, hlo_op="&dot.3", **told),
        host.event("fusion.4", 16 * US, 2 * US, hlo_op="&fusion.4", **told),
        host.event("dot.5", 20 * US, 5 * US, hlo_op="&dot.5", **told),
    ]
    host.line(
        1, "python", 0,
        host.event("train", 0, 40 * US, step_num=7), host.event("load batch", US, US),
        host.event("$model.py:12 forward", 3 * US, 30 * US), host.event("$builtins len", 4 * US, US),
        host.event("PjitFunction(f)", 5 * US, 25 * US), *thunks,
    )  # fmt: skip
    return plain.written(programs(), host)


def test_kinds_on_the_host() -> None:
    core = load_core(cpu_step())
    assert names(core, Kind.Step) == ["train#7"]
    assert names(core, Kind.Annotation) == ["load batch"]
    assert names(core, Kind.PythonFunction) == ["model.py(12): forward", "<built-in function len>"]
    assert names(core, Kind.RuntimeCall) == ["PjitFunction(f)"]
    assert names(core, Kind.Op) == ["dot.3", "fusion.4", "dot.5"]
    assert core.window(step=7).core is core


def test_scopes_hold_the_forward_pass_and_lead_to_the_backward_pass() -> None:
    core = load_core(cpu_step())
    (module,) = core.find(Kind.Module)
    assert (module.name, module.start_ns, module.dur_ns) == ("mlp", 10_000, 8_000)
    assert [child.name for child in module.children] == ["dot.3", "fusion.4"]
    forward, backward = core.autograd.forward, core.autograd.backward
    pairs = [
        (core.names[core.columns.name[a]], core.names[core.columns.name[b]])
        for a, b in zip(forward, backward, strict=True)
    ]
    assert pairs == [("dot.3", "dot.5")]


def test_threads_of_one_name_stay_two() -> None:
    host = Plane("/host:CPU")
    for id in (5, 6):
        host.line(id, "python3", 0, host.event(f"$a.py:{id} f", id * US, 10 * US), host.event("g", (id + 2) * US, US))
    core = load_core(plain.written(host))
    c = core.columns
    assert [core.threads[int(c.thread[core.row(one.uid)])][1] for one in core.find(Kind.PythonFunction)] == [
        "python3", "python3/6",
    ]  # fmt: skip
    assert not c.flags.any()


def test_starts_and_ends_are_rounded_not_durations() -> None:
    host = Plane("/host:CPU")
    host.line(1, "python", 0, host.event("a", 0, 1), host.event("b", 1400, 1200), host.event("c", 2600, 300))
    core = load_core(plain.written(host))
    assert [(one.start_ns, one.end_ns) for one in core.find(Kind.Annotation)] == [(0, 0), (1, 3), (3, 3)]


def test_other_planes_and_derived_lines_are_counted() -> None:
    device, tpu = Plane("/device:GPU:0"), Plane("/device:TPU:0")
    gpu(device.event("k", 0, US), plane=device)
    device.line(9, "XLA Modules", 0, device.event("jit_f", 0, US))
    tpu.line(1, "XLA Ops", 0, tpu.event("fusion", 0, US), tpu.event("fusion", US, US))
    core = load_core(plain.written(device, tpu))
    left_out = {why: count for why, count in core.info.left_out.items() if why != "process or thread"}
    assert left_out == {"line XLA Modules": 1, "plane /device:TPU:0": 2}
    assert len(core.gpu_rows) == 1


def test_a_profile_of_a_tpu_says_what_it_is() -> None:
    tpu, host = Plane("/device:TPU:0"), Plane("/host:CPU")
    tpu.line(1, "XLA Ops", 0, tpu.event("fusion", 0, US))
    host.line(1, "python", 0, host.event("PjitFunction(f)", 0, US))
    for content in (plain.written(tpu, host), plain.written(tpu)):
        core = load_core(content)
        facts = dict(zip(*(inventory(core)["trace"][key] for key in ("what", "value")), strict=True))
        assert facts["accelerator that is no GPU"] == "TPU"
        (finding,) = verdict(core)
        assert "another accelerator (TPU), whose work is not read" in finding.text


def test_a_kernel_without_a_launch_stays_unlinked() -> None:
    device = Plane("/device:GPU:2")
    gpu(device.event("k", 0, US, correlation_id=5), plane=device)
    core = load_core(plain.written(device))
    c, (row,) = core.columns, core.gpu_rows.tolist()
    assert (c.device[row], c.stream[row], c.owner_rule[row]) == (2, 7, OwnerRule.unlinked)


def test_names_of_machines_are_not_kept() -> None:
    core = load_core(cpu_step())
    assert "a-host-name" not in str(core.info)


def expected(path: Path) -> list[plain.Event]:
    content = path.read_bytes()
    return plain.events(gzip.decompress(content) if path.suffix == ".gz" else content)


def _compare(path: Path) -> None:
    told = [event for event in expected(path) if event.plane.startswith(("/device:GPU", "/host:CPU"))]
    core = load_core(path)
    c = core.columns
    recorded = c.uid < len(expected(path))
    start = (c.start_ns + core.info.start_epoch_ns - core.info.metadata["baseTimeNanoseconds"])[recorded]
    order = np.argsort(c.uid[recorded])
    assert start[order].tolist() == [(event.start_ps + 500) // 1000 for event in told]
    ends = [(event.start_ps + event.duration_ps + 500) // 1000 for event in told]
    assert (start + c.dur_ns[recorded])[order].tolist() == ends
    gpu_time = sum(event.duration_ps for event in told if event.plane.startswith("/device")) / 1000
    assert c.dur_ns[core.gpu_rows].sum() == pytest.approx(gpu_time, abs=len(told))
    by_op: Counter[str] = Counter()
    for event in told:
        if event.plane.startswith("/device") and "hlo_op" in event.stats:
            by_op[event.stats["hlo_op"]] += event.duration_ps // 1000
    ours: Counter[str] = Counter()
    for row in core.gpu_rows[c.owner[core.gpu_rows] >= 0].tolist():
        ours[core.names[c.name[c.owner[row]]]] += int(c.dur_ns[row])
    assert ours == by_op


def test_the_example_is_as_a_plain_reader_reads_it() -> None:
    _compare(EXAMPLE)


@parametrize("path", xplane_files())
def test_real_profiles_are_as_a_plain_reader_reads_them(path: Path) -> None:
    _compare(path)


@parametrize("path", xplane_files())
def test_every_instruction_of_real_profiles_has_its_shapes(path: Path) -> None:
    core = load_core(path)
    c = core.columns
    assert (c.argset[c.kind == Kind.Op] >= 0).all()
    assert (c.parent[core.gpu_rows] >= 0).all()
    assert np.isin(c.kind[core.gpu_rows], GPU_KINDS).all()


def _instructions_of_example() -> Counter[str]:
    return Counter(event.name for event in expected(EXAMPLE) if "hlo_op" in event.stats)


def test_the_cpu_runtime_ran_each_instruction_once_per_step() -> None:
    core = load_core(EXAMPLE)
    assert Counter(names(core, Kind.Op)) == _instructions_of_example()
    assert set(_instructions_of_example().values()) == {3}


def test_a_profile_of_which_nothing_is_left(tmp_path: Path) -> None:
    broken = tmp_path / "x.xplane.pb"
    broken.write_bytes(plain.block(1, plain.block(2, "/host:CPU"))[:-3])
    with pytest.raises(NotATraceError, match="no event in it can be read"):
        load_core(broken)


def test_a_cut_profile_keeps_whole_planes_and_says_that_it_is_cut() -> None:
    whole = two_kernels_each(True)
    host_begins = whole.rindex(b"/host:CPU")
    core = load_core(whole[: host_begins + 60])
    assert len(core.gpu_rows) == 4
    assert core.info.ends_early
    assert "the end of the file is missing" in core.info.damage


def loaded_or_none(content: bytes) -> Core | None:
    """The graph of a damaged profile; None if an error says in one line that there is none."""
    try:
        return load_core(content)
    except TraceError as error:
        if "\n" in str(error):
            raise
        return None


@pytest.mark.parametrize("step", [1, 7])
def test_every_cut_gives_a_graph_or_one_line(step: int) -> None:
    whole = two_kernels_each(False)
    for end in range(10, len(whole), 13 * step):
        core = loaded_or_none(whole[:end])
        assert core is None or core.info.ends_early or len(core.columns) >= 4


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_give_a_graph_or_one_line(seed: int) -> None:
    draw = np.random.default_rng(seed)
    for whole in (two_kernels_each(True), cpu_step()):
        for _ in range(60):
            damaged = bytearray(whole)
            for at in draw.integers(0, len(whole), draw.integers(1, 6)).tolist():
                damaged[at] = int(draw.integers(0, 256))
            if core := loaded_or_none(bytes(damaged)):
                assert (core.columns.dur_ns >= 0).all()
                core.details.events(core.columns.uid.tolist())


def test_of_a_folder_as_jax_writes_it_the_profile_is_taken(tmp_path: Path) -> None:
    (tmp_path / "host.xplane.pb").write_bytes(cpu_step())
    (tmp_path / "host.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    (tmp_path / "other.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    found = [Path(file).name for file in trace_files([str(tmp_path)])]
    assert found == ["host.xplane.pb", "other.trace.json.gz"]


def test_a_saved_and_a_cut_profile_have_the_same_owners(tmp_path: Path) -> None:
    core = load_core(two_kernels_each(False))
    write_graph(core, tmp_path / "saved.tlg")
    assert load_core(tmp_path / "saved.tlg").equals(core)
    with (tmp_path / "cut.json").open("wb") as file:
        write_piece(piece_between(core, 0, 10**9), file, packed=False)
    cut = load_core(tmp_path / "cut.json")

    def owners(one: Core) -> list[tuple[str, str]]:
        c = one.columns
        rows = [row for row in one.gpu_rows.tolist() if c.owner[row] >= 0]
        return sorted((one.names[c.name[row]], one.names[c.name[c.owner[row]]]) for row in rows)

    assert owners(cut) == owners(core)
    assert cut.columns.start_ns.tolist() == core.columns.start_ns.tolist()


def test_what_a_cut_profile_lacks_is_named() -> None:
    content = training_profile()
    programs, gpu, host = planes(content)
    assert [one.name for one in (programs, gpu, host)] == ["/host:metadata", "/device:GPU:0", "/host:CPU"]
    in_gpu, in_host = load_core(content[: gpu.lines[0][1]]).info, load_core(content[: host.lines[0][1]]).info
    assert in_gpu.planes == ["/host:metadata", "/device:GPU:0"]
    assert in_gpu.gpu_ends_early
    assert in_gpu.damage.endswith(
        "left, of /host:metadata, /device:GPU:0; the rest of /device:GPU:0 and planes behind it (threads) are missing"
    )
    assert in_host.ends_early
    assert not in_host.gpu_ends_early
    assert "threads" not in in_host.damage


def test_of_two_profiles_in_one_file_the_first_is_read() -> None:
    content = training_profile()
    one, two = load_core(content), load_core(content * 2)
    assert len(one.columns) == len(two.columns)
    assert not one.info.repairs
    assert list(two.info.repairs) == ["second_trace"]


def test_names_of_planes_break_no_line() -> None:
    host = Plane("/host:\n\x1b[31m" + "x" * 1000)
    host.line(1, "python", 0, host.event("call", 0, US))
    with pytest.raises(NotATraceError) as caught:
        load_core(host.written()[:-20].replace(b"call", b""))
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 400
