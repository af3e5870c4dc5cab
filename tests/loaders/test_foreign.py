"""Files of other tools: each is named by its content in one line that says what to do."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from handmade import small_trace
from typer.testing import CliRunner

from corpus import parametrize, xplane_files
from tracelens_graph.cli.app import app
from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.loading.one import load_core


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer that holds bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def plane(name: bytes, number: int = 1) -> bytes:
    return b"\x08" + varint(number) + field(2, name) + field(3, b"\x08\x01")


def packet(time: int) -> bytes:
    return b"\x40" + varint(time) + b"\x50\x01"


def chrome(*events: dict[str, Any], **beside: Any) -> bytes:
    timed = {"ph": "X", "name": "f", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
    return json.dumps({"traceEvents": [timed | event for event in events], **beside}).encode()


def process(name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "args": {"name": name}}


ROCPROF_V3 = (
    b'"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    b'"Start_Timestamp","End_Timestamp"\n"KERNEL_DISPATCH",4,1\n'
)

FILES = {
    "t.pftrace": (b"".join(field(1, packet(time)) for time in (5, 10**12, 2)), "Perfetto trace"),
    "one-packet.perfetto-trace": (field(1, b"\x40\xff\x01\xff"), "protocol buffer"),
    "kernel_trace.csv": (ROCPROF_V3, "rocprof (rocprofv3)"),
    "hip_api_trace.csv": (b'"Domain","Kind","Function","Process_Id","Start_Timestamp"\n', "rocprof (rocprofv3)"),
    "results.csv": (b'"Index","KernelName","gpu-id","queue-id"\n0,"k",1,0\n', "CSV table of AMD's rocprof"),
    "results.stats.csv": (b'"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n', "CSV table of AMD's rocprof"),
    "a.nsys-rep": (b"\x01\x02nsys\x00\xff" * 20, "report of Nsight Systems (.nsys-rep)"),
    "a.ncu-rep": (b"NVR\0\x10\x00\x00\x00", "report of Nsight Compute"),
    "a.csv": (b"Start (ns),Duration (ns),CorrId,Name\n1,2,3,k\n", "CSV table of nsys stats"),
    "browser.json": (
        chrome({"cat": "devtools.timeline,v8"}, metadata={"product-version": "HeadlessChrome/1"}),
        "Chrome trace of another tool",
    ),
    "tensorflow.json": (chrome(process("/device:GPU:0"), {}, displayTimeUnit="ns"), "of JAX or TensorFlow"),
    "perf.json": (chrome({"cat": "cpu-clock"}, {"cat": "sched"}), "of another tool: no event has a category of"),
    "memory.json": (b"[[1000, 1001], [[0, 512], [0, 1024]]]", "memory timeline, as export_memory_timeline"),
    "memory.raw.json": (
        b"[[1000, 2, 512, 3],\n [1001, 1, 0, 3]]",
        "memory timeline, as export_memory_timeline",
    ),
    "numbers.json": (b"[1, 2]", "JSON list without events"),
    "list.json": (b'[{"ph": "B", "name": "f", "ts": 1, "pid": 1, "tid": 1}]', "Chrome trace of another tool"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FILES)
def test_files_of_other_tools_are_named(name: str, packed: bool, tmp_path: Path) -> None:
    content, words = FILES[name]
    file = tmp_path / name
    file.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(NotATraceError) as caught:
        load_core(file)
    line = str(caught.value)
    assert line.startswith(f"{file}: is a")
    assert words in line
    assert "torch.profiler" in line or "tracelens-graph reads what" in line, "it says what to do"
    assert "\n" not in line


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jit_f.hlo_proto.pb", "reads profiles of JAX (*.xplane.pb) and PyTorch's own traces"),
        ("host.xplane.pb", "is named as a profile of JAX and does not begin as one"),
        ("host.xplane.pb.gz", "is named as a profile of JAX and does not begin as one"),
    ],
)
def test_other_protocol_buffers_are_no_profiles(name: str, words: str, tmp_path: Path) -> None:
    content = field(1, b"\x08\x01" + field(3, b"\xff" * 40))
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(NotATraceError) as caught:
        load_core(tmp_path / name)
    assert words in str(caught.value)


def tar(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def zipped(content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", content)
    return out.getvalue()


TRACE = json.dumps(small_trace()).encode()
SAVED = b"TLGRAPH1" + bytes(range(256))
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123\n"
WRAPPED = {
    "twice.json.gz": (gzip.compress(gzip.compress(TRACE)), "is packed twice, the inner file with gzip: unpack it once"),
    "a.tar": (tar("t.json", TRACE), "is a tar archive: unpack it first"),
    "a.tar.gz": (gzip.compress(tar("t.json", TRACE)), "is a tar archive: unpack it first"),
    "utf16.json": (TRACE.decode().encode("utf-16"), "is UTF-16 text: convert it to UTF-8"),
    "utf16le.json": (TRACE.decode().encode("utf-16-le"), "is UTF-16 text: convert it to UTF-8"),
    "utf16be.json": (TRACE.decode().encode("utf-16-be"), "is UTF-16 text: convert it to UTF-8"),
    "utf16.json.gz": (gzip.compress(TRACE.decode().encode("utf-16")), "is UTF-16 text: convert it to UTF-8"),
    **{
        f"{encoding}.json": (TRACE.decode().encode(encoding), "is UTF-32 text: convert it to UTF-8")
        for encoding in ("utf-32", "utf-32-le", "utf-32-be")
    },
    "none.json": (b'{"x": 1, "traceEvents": null}', "is JSON whose outermost object has no list `traceEvents`"),
    "lfs.json": (LFS, "git lfs pull"),
    "lfs.json.gz": (LFS, "git lfs pull"),
    "damaged.json.gz": (b"\x1e" + gzip.compress(TRACE)[1:], "is named as a gzip file and does not begin as one"),
    "zeros.json.gz": (bytes(20) + gzip.compress(TRACE)[20:], "copy or record it again"),
    "method.json.gz": (b"\x1f\x8b\x00" + gzip.compress(TRACE)[3:], "the compressed file is damaged: copy"),
    "damaged.tlg": (b"\0\0\0" + SAVED[3:], "is named as a saved graph and does not begin as one"),
    "binary.json.gz": (gzip.compress(bytes(range(1, 255))), "is binary data"),
    "cut.zip": (zipped(TRACE)[:-40], "is a zip archive that is cut short or damaged: copy it again"),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_traces_in_another_wrapping_say_how_to_get_at_them(name: str, tmp_path: Path) -> None:
    content, words = WRAPPED[name]
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        load_core(file)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_member_of_a_zip_archive_says_so(tmp_path: Path) -> None:
    packed = bytearray(zipped(TRACE))
    packed[80] ^= 255
    file = tmp_path / "damaged.zip"
    file.write_bytes(packed)
    with pytest.raises(TraceError, match="the zip archive is damaged: .*; copy it again"):
        load_core(file)


PROFILES = {
    "jax.xplane.pb": field(1, plane(b"/host:metadata")),
    "gpu.xplane.pb": field(1, plane(b"/device:GPU:0", 4000)),
    "large-first-plane.pb": field(1, field(2, b"/device:TPU:0") + b"x" * 500_000),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", PROFILES)
def test_profiles_of_jax_are_told_by_their_content(name: str, packed: bool, tmp_path: Path) -> None:
    file = tmp_path / "x.bin"
    file.write_bytes(gzip.compress(PROFILES[name]) if packed else PROFILES[name])
    assert load_core(file).framework.compiles_programs


@parametrize("path", xplane_files())
def test_real_profiles_of_jax_are_told_by_their_content(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "trace.json"
    copy.write_bytes(path.read_bytes())
    assert load_core(copy).framework.compiles_programs


@pytest.mark.parametrize(
    "content",
    [
        {"traceEvents": []},
        {"traceEvents": [{"ph": "i", "s": "g", "name": "Record Window End", "ts": 5}], "schemaVersion": 1},
        {"traceEvents": [{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": 1, "dur": 2, "pid": 1}]},
        {"traceEvents": [*small_trace()["traceEvents"], {"ph": "X", "cat": "mine", "name": "f", "ts": 1, "dur": 2}]},
    ],
)
def test_a_trace_of_pytorch_is_never_taken_for_another_tool_s(content: dict[str, Any]) -> None:
    load_core(content)


def test_every_command_says_so_in_one_line(tmp_path: Path) -> None:

    file = tmp_path / "browser.json"
    file.write_bytes(FILES["browser.json"][0])
    for command in ("report", "info", "timeline", "tree", "attribution", "modules"):
        done = CliRunner().invoke(app, [command, str(file)])
        assert done.exit_code == 1
        assert done.stderr.startswith(f"error: {file}: is a Chrome trace of another tool")
        assert len(done.stderr.splitlines()) == 1


def long_trace(gpu_last: int) -> bytes:
    """Many ops, then the GPU events, as the profiler writes them; packed so that a cut hits the end."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{i * 7919 % 1000}", "ts": i, "dur": 1, "pid": 1, "tid": 1}
        for i in range(5000)
    ]
    kernels = [
        {"ph": "X", "cat": "kernel", "name": f"k{i * 31}", "ts": i, "dur": 1, "pid": 0, "tid": 7, "args": {"stream": 7}}
        for i in range(gpu_last)
    ]
    return gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events + kernels}).encode())


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_a_packed_file_cut_short_says_what_is_left(tmp_path: Path, share: float) -> None:

    packed = long_trace(gpu_last=20)
    file = tmp_path / "cut.json.gz"
    file.write_bytes(packed[: int(share * len(packed))])
    core = load_core(file)
    assert 0 < core.info.cut_short < len(gzip.decompress(packed))
    assert core.info.cut_short == pytest.approx(len(gzip.decompress(packed)) * share, rel=0.5)
    left = core.info.events - core.info.lost_events
    for words, code, out in ((["report"], 1, ""), (["ask", "gpu_timeline"], 1, "the trace has no GPU events")):
        done = CliRunner().invoke(app, [*words, str(file)])
        assert (done.exit_code, out in done.stdout) == (code, True)
        (line,) = done.stderr.splitlines()
        assert f"the compressed file is cut short: {core.info.cut_short:,} bytes of JSON could be read" in line
        assert f"{left:,} entries are left, and GPU events usually stand last" in line
    assert CliRunner().invoke(app, ["info", str(file)]).exit_code == 0


def test_where_gpu_events_are_left_the_report_goes_on_with_a_warning(tmp_path: Path) -> None:

    packed = long_trace(gpu_last=5000)
    file = tmp_path / "cut.json.gz"
    file.write_bytes(packed[: int(0.8 * len(packed))])
    done = CliRunner().invoke(app, ["timeline", str(file)])
    assert done.exit_code == 0
    assert "GPU events usually stand last" in done.stderr


@pytest.mark.parametrize("kept", [5, 18, 40])
def test_a_packed_file_with_nothing_left_says_that_it_is_cut(tmp_path: Path, kept: int) -> None:
    file = tmp_path / "cut.json.gz"
    file.write_bytes(long_trace(gpu_last=1)[:kept])
    done = CliRunner().invoke(app, ["report", str(file)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "cut short" in done.stderr
    assert len(done.stderr.splitlines()) == 1
