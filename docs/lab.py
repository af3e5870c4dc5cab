"""A JupyterLab of this machine, with a folder of notebooks, for tests and pictures.

It listens on this machine only and asks nothing of a network. Its settings, and what it remembers, are in a folder of
its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

PATIENCE_S = 60
_OPTIONS = [
    "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", "--IdentityProvider.token=", "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.extension_manager=readonly",
]  # fmt: skip


@contextmanager
def running(notebooks: Path, home: Path, trusted: str) -> Iterator[str]:
    """The address of a server, which ends with the block, and its kernels with it.

    Args:
        notebooks: what it shows.
        home: a folder for all else.
        trusted: the notebook whose outputs it shows as they are; those of others lose scripts and frames.

    Raises:
        RuntimeError: it does not start; with what it said.
    """
    settings = home / "config/lab/user-settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')  # nor ask whether it may
    env = {**os.environ, "HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "JUPYTER_PREFER_ENV_PATH": "1"}
    env |= {f"JUPYTER_{name.upper()}_DIR": str(home / name) for name in ("config", "data", "runtime")}
    subprocess.run([sys.executable, "-m", "nbformat.sign", trusted], cwd=notebooks, env=env, check=True)
    command = [sys.executable, "-m", "jupyterlab", *_OPTIONS, f"--ServerApp.root_dir={notebooks}"]
    with (home / "log").open("wb") as log:
        server = psutil.Popen(command, cwd=home, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{_port(home, server)}"
    finally:
        with suppress(psutil.NoSuchProcess):
            processes = [server, *server.children(recursive=True)]  # kernels are in groups of their own
            server.terminate()
            _, alive = psutil.wait_procs(processes, timeout=20)
            for process in alive:
                process.kill()
        server.wait()


def _port(home: Path, server: psutil.Popen) -> int:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and server.poll() is None:
        for path in (home / "runtime").glob("jpserver-*.json"):
            with suppress(ValueError):  # half of it
                return int(json.loads(path.read_text())["port"])
        time.sleep(0.1)
    raise RuntimeError((home / "log").read_text())
