"""Makes the table of operator schemas that plans of replays are made with.

    python docs/make_op_schemas.py --add 1.13.1 2.0.1 2.1.2 ...

The newest schemas are those of the PyTorch that is installed here. Those of other versions are read out of their
wheels: of each only the part that holds `native_functions.yaml` is fetched, from where pip would download it. Wheels
for macOS are taken, which are small. Operators that are generated, such as most `.out` forms, are in no such file, so
of old versions they are missing.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracelens_graph.replay.schemas import TABLE, Schema, literal, parse, version_key

HOME = Path(__file__).resolve().parents[1] / "tracelens_graph/replay"
LISTING = "torchgen/packaged/ATen/native/native_functions.yaml"
PLATFORMS = ("macosx_11_0_arm64", "macosx_10_9_x86_64", "macosx_14_0_arm64")
NAMESPACES = ("aten", "prims")


class RemoteFile(io.RawIOBase):
    """A file on a server; only the parts that are read are fetched."""

    def __init__(self, url: str) -> None:
        self._url, self._at = url, 0
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
            self._size = int(answer.headers["Content-Length"])

    def seekable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fetch what is to be read."""
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        asked = urllib.request.Request(self._url, headers={"Range": f"bytes={self._at}-{end - 1}"})
        with urllib.request.urlopen(asked) as answer:
            if answer.status != 206:
                sys.exit("the server does not send parts of files")
            got = answer.read()
        buffer[: len(got)] = got
        self._at += len(got)
        return len(got)


def wheel_url(version: str) -> str:
    """Where pip would download a small wheel of a version of PyTorch."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        for python in ("3.10", "3.12", "3.13"):
            command = [
                sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet",
                "--only-binary=:all:", "--python-version", python, "--target", folder, *platforms,
                "--report", str(report), f"torch=={version}",
            ]  # fmt: skip
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return str(json.loads(report.read_text())["install"][0]["download_info"]["url"])
    sys.exit(f"pip finds no wheel of torch {version}")


def of_wheel(version: str) -> list[str]:
    """Schemas in the wheel of a version."""
    with zipfile.ZipFile(io.BufferedReader(RemoteFile(wheel_url(version)), 1 << 20)) as wheel:
        listing = wheel.read(LISTING).decode()
    return [f"aten::{line}" for line in re.findall(r"^- func: (.+?)\s*$", listing, re.MULTILINE)]


def of_installed() -> tuple[str, list[str]]:
    """Version and schemas of the PyTorch that is installed here, without those of TorchScript alone."""
    import torch

    names = set(torch._C._dispatch_get_all_op_names())
    known = torch._C._jit_get_all_schemas()
    found = [one for one in known if one.name.partition("::")[0] in NAMESPACES]
    texts = [str(one) for one in found if one.name + (f".{one.overload_name}" * bool(one.overload_name)) in names]
    return torch.__version__.partition("+")[0], texts


def meaning(schema: Schema) -> tuple[Any, ...]:
    """What makes two schemas one for a caller: neither symbolic sizes nor aliases nor how defaults are written."""
    of = []
    for one in schema.parameters:
        default = None if one.default is None else repr(literal(one.default))
        of.append((one.name, one.type.replace("SymInt", "int"), default, one.is_keyword))
    return schema.qualified, tuple(of)


def short(version: str) -> str:
    """`2.1` of `2.1.2`."""
    return ".".join(version.split(".")[:2])


def rows(of_versions: dict[str, list[str]]) -> Iterator[tuple[str, str, str]]:
    """First version, last version and text of each schema."""
    seen: dict[tuple[Any, ...], tuple[str, str, str]] = {}
    for version in sorted(of_versions, key=version_key):
        for text in of_versions[version]:
            key = meaning(parse(text))
            first = seen[key][0] if key in seen else short(version)
            seen[key] = (first, short(version), text)
    yield from sorted(seen.values(), key=lambda row: (row[2].partition("(")[0], version_key(row[1])))


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Make the table of operator schemas.")
    parser.add_argument("--add", nargs="*", default=[], metavar="VERSION", help="versions besides the installed one")
    parser.add_argument("--cache", type=Path, help="folder that keeps the schemas of each version")
    options = parser.parse_args()
    newest, texts = of_installed()
    of_versions = {newest: texts}
    for version in options.add:
        kept = options.cache / f"{version}.txt" if options.cache else None
        if kept and kept.exists():
            of_versions[version] = kept.read_text().splitlines()
            continue
        of_versions[version] = of_wheel(version)
        if kept:
            kept.write_text("\n".join(of_versions[version]))
        print(f"{version}: {len(of_versions[version]):,} schemas", flush=True)
    found = list(rows(of_versions))
    packed = gzip.compress("".join("\t".join(row) + "\n" for row in found).encode(), 9, mtime=0)
    (HOME / TABLE).write_bytes(packed)
    print(f"{len(found):,} schemas of {len(of_versions)} versions, {len(packed):,} bytes")


if __name__ == "__main__":
    main()
