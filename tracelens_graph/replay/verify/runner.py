"""The program that runs scripts one after another in one process, so that PyTorch, or JAX, is imported once.

It needs nothing of this package, as it runs under whatever Python has that module, which its argument names. Its first
line says what is there: `{"version": "2.9.0", "device": "cuda"}`, or `{"missing": "No module named 'torch'"}`. Then it
answers each line of standard input, `{"script": FILE, "arguments": [...]}`, with `{"seconds": 0.4, "error": ""}`: it
ran the script as a program; with `"call": FILE` in it, it imported it, and wrote the profile of its function `call` to
that file. Modules that `"imports"` lists are imported before; where one cannot be, the answer is `{"lacks": WHY}`. It
ends with its input.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import queue
import runpy
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any


def main() -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    orders: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=listen, args=(orders,), daemon=True).start()
    answers.write(json.dumps(there(sys.argv[1])) + "\n")
    while True:
        answers.write(json.dumps(ran(**orders.get())) + "\n")


def listen(orders: queue.Queue[dict[str, Any]]) -> None:
    """Pass on what comes, and end this process when nothing more can come, whatever it does."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)


def there(framework: str) -> dict[str, str]:
    """What PyTorch, or JAX, is there."""
    try:
        module: Any = importlib.import_module(framework)
        kinds = [kind for kind in ("cuda", "xpu") if framework == "torch" and getattr(module, kind).is_available()]
        device = module.default_backend() if framework == "jax" else [*kinds, "cpu"][0]
        return {"version": str(module.__version__), "device": device}
    except Exception as error:
        return {"missing": str(error) or type(error).__name__}


def reset() -> None:
    """Undo what a program set for itself alone, as it has a process of its own elsewhere."""
    if "torch" not in sys.modules:
        return
    backends: Any = sys.modules["torch"].backends
    backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32 = False, True
    backends.cudnn.benchmark = backends.cudnn.deterministic = False


def profile(program: dict[str, Any], file: str) -> None:
    """Write the profile of one call of a program's function; the one before it is not profiled."""
    torch: Any = importlib.import_module("torch")
    program["call"]()
    program["ready"]()
    with torch.profiler.profile(record_shapes=True) as session:
        program["call"]()
        program["gpu"].synchronize()
    session.export_chrome_trace(file)


def ran(script: str, arguments: Sequence[str] = (), call: str = "", imports: Sequence[str] = ()) -> dict[str, Any]:
    """Run a script as a program, or profile its function: how long it took, and the last line of its error."""
    try:
        for module in imports:
            importlib.import_module(module)
    except Exception as lacking:
        return {"lacks": str(lacking) or type(lacking).__name__}
    begun = time.perf_counter()
    messages = io.StringIO()
    error = ""
    sys.argv = [script, *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(messages):
            found = runpy.run_path(script, run_name="program" if call else "__main__")
            if call:
                profile(found, call)
    except SystemExit as end:
        if end.code:
            lines = messages.getvalue().strip().splitlines()
            error = end.code if isinstance(end.code, str) else lines[-1] if lines else f"exit code {end.code}"
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
    reset()
    gc.collect()
    return {"seconds": time.perf_counter() - begun, "error": error}


if __name__ == "__main__":
    main()
