"""What names of events on the host's threads tell, and how frames of Python are called elsewhere.

JAX's Python frames are `$file.py:12 function`, `$builtins len` and `$<unknown> append`. What else stands on a thread
was marked in C++: by XLA, its runtime and its profiler, or through `jax.profiler.TraceAnnotation`; nothing but the
name separates these.
"""

from __future__ import annotations

import re

from tracelens_graph.schema import Kind

_FRAME = re.compile(r"\$(.+):(\d+) (.+)", re.DOTALL)
_BUILTIN = re.compile(r"\$(\S+) (.+)", re.DOTALL)

_OF_XLA = re.compile(
    r"""
    .*::                                                    # PjRtStreamExecutorLoadedExecutable::Execute
  | end:\ | Wait                                            # end: dot.43, Wait for donation holds, Wait: pending_..
  | (?:Pjit|Xla|PJRT|Pj[rR]t|Py|TfrtCpu|Thunk|Rendezvous|Memory|Handle|Build|Make|Allocate|Compute|Execute|Compile)
  | (?:ParseArguments|RecordUsage|DevicePut|ThenExecuteCallback|Resolve\ constant\ globals)$
  | (?:cpp_|shard_args|backend_compile|compile|lower|infer_params|cache|tracing|trace_to|xla_|jit_.+:XLA)
  | (?:cuda|cu|hip|nccl|rccl|cudnn|cublas)[A-Z]
  | np\.asarray\(jax\.Array\)|InitialAllReduce|InvokeRendezvous|all-|collective|reduce-scatter
    """,
    re.VERBOSE,
)
_OWN_THREADS = re.compile(r"tf_|py_xla|xla|XLA|pjrt|Host Threads|jax_|StreamExecutor|Eigen|cuda|hip", re.IGNORECASE)

FILLS, COPIES = re.compile(r"(?:cuda|cu|hip)\w*Memset"), re.compile(r"(?:cuda|cu|hip)\w*Memcpy")
"""What launches of fills and of copies are called."""


def host_kind(name: str, thread: str) -> Kind:
    """The kind of an event on a thread of the host, of which nothing but its name tells.

    >>> host_kind("$profiler.py:91 start_trace", "python").name
    'PythonFunction'
    >>> host_kind("PjitFunction(f)", "python").name
    'RuntimeCall'
    >>> host_kind("load batch", "python").name
    'Annotation'
    """
    if name.startswith("$"):
        return Kind.PythonFunction
    if _OF_XLA.match(name) or _OWN_THREADS.match(thread):
        return Kind.RuntimeCall
    return Kind.Annotation


def frame_name(name: str) -> str:
    """A Python frame in the form that PyTorch's profiler gives it.

    >>> frame_name("$pxla.py:125 shard_args")
    'pxla.py(125): shard_args'
    >>> frame_name("$builtins len")
    '<built-in function len>'
    >>> frame_name("$<unknown> append")
    '<built-in method append>'
    """
    if found := _FRAME.fullmatch(name):
        return f"{found[1]}({found[2]}): {found[3]}"
    if found := _BUILTIN.fullmatch(name):
        what = "function" if found[1] == "builtins" else "method"
        return f"<built-in {what} {found[2]}>"
    return name


_SIZE = re.compile(r"(?:^|\s)(?:size|num_bytes):(\d{1,18})(?:\s|$)")


def bytes_in(details: str) -> int | None:
    """The size in the details of a copy or fill (`kind:Unknown size:655360 dest:2 async:1`); None if it tells none."""
    found = _SIZE.search(details)
    return int(found[1]) if found else None
