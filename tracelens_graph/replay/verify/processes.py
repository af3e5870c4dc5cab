"""Scripts run in a process of their own, many in each: what hangs or crashes it is lost alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tracelens_graph.errors import NoTorchError
from tracelens_graph.utils.texts import cut_end

RUNNER = Path(__file__).with_name("runner.py")
START_S = 300.0
"""How long importing PyTorch may take."""

_LONGEST = 300
"""Characters of an error that are kept."""


class Order(msgspec.Struct, frozen=True):
    """What to run.

    Attributes:
        script: a file.
        arguments: its arguments, if it is run as a program.
        call: file for the profile of its function `call`, if it is imported for that; else empty.
        imports: modules that it needs besides the framework.
    """

    script: str
    arguments: tuple[str, ...] = ()
    call: str = ""
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ran:
    """How a script ended.

    Attributes:
        device: kind of device that it ran on.
        seconds: how long it took; 0 if it was killed.
        error: why it failed; empty if it did not.
        lacks: why a module that it needs cannot be imported; empty if it was run.
    """

    device: str
    seconds: float
    error: str
    lacks: str = ""


def run_scripts(
    orders: Iterable[Order], python: str, folder: Path, timeout_s: float, framework: str = "torch"
) -> Iterator[Ran]:
    """Run scripts one after another, each as soon as the result of the one before has been taken.

    They share a process as long as it is well: one that crashes it, or takes too long, is killed with all processes
    that it started, and the next one gets a new process. On a GPU a script that fails does, too, as errors stay there.

    Args:
        orders: the scripts, and how each is run.
        python: interpreter with the framework.
        folder: where they run.
        timeout_s: how long each may take, without importing the framework.
        framework: the module that they need: `torch` or `jax`.

    Raises:
        NoTorchError: the interpreter cannot be started, or has no such module.
    """
    process: _Process | None = None
    try:
        for order in orders:
            if process is None:
                process = _Process(python, folder, framework)
            answer, error = process.ask(order, timeout_s)
            error = error or str(answer.get("error", ""))
            lacks = str(answer.get("lacks", ""))
            ran = Ran(process.device, float(answer.get("seconds", 0)), _one_line(error), _one_line(lacks))
            if not answer or (error and process.device != "cpu"):
                process.end()
                process = None
            yield ran
    finally:
        if process is not None:
            process.end()


class _Process:
    """A process that serves scripts.

    Attributes:
        device: kind of device that scripts run on.
    """

    def __init__(self, python: str, folder: Path, framework: str) -> None:
        command = [python, "-u", str(RUNNER), framework]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise NoTorchError(f"{python}: {error.strerror or error}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._reader = ThreadPoolExecutor(1)
        try:
            there, why = self._answer(START_S)
            if not there:
                raise NoTorchError(f"{python}: importing {framework} {why}")
            if "missing" in there:
                raise NoTorchError(f"{python}: {_one_line(str(there['missing']))}")
        except BaseException:
            self.end()
            raise
        self.device = str(there["device"])

    def ask(self, order: Order, timeout_s: float) -> tuple[dict[str, Any], str]:
        """The answer to an order; without one, why there is none, and the process is of no more use."""
        with suppress(BrokenPipeError):  # it has ended; the answer says so
            self._in.write(msgspec.json.encode(order) + b"\n")
            self._in.flush()
        return self._answer(timeout_s)

    def _answer(self, timeout_s: float) -> tuple[dict[str, Any], str]:
        try:
            line = self._reader.submit(self._out.readline).result(timeout_s)
        except TimeoutError:
            return {}, f"took longer than {timeout_s:g} s"
        with suppress(msgspec.DecodeError):
            if line:
                return msgspec.json.decode(line, type=dict[str, Any]), ""
        return {}, _ended(self._kill())

    def _kill(self) -> int:
        """End the process and all that it started; its exit code, which is its own if it has ended already."""
        if self._process.returncode is None:  # nobody has waited for it, so the number of its group is its own
            if sys.platform == "win32":
                self._process.kill()
            else:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def end(self) -> None:
        """End the process, whatever it does, and all that it started."""
        self._kill()
        self._reader.shutdown()
        for pipe in (self._in, self._out):
            with suppress(BrokenPipeError):
                pipe.close()


def _ended(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _one_line(text: str) -> str:
    return cut_end(" ".join(text.split()), _LONGEST)
