"""Fetch what the pages of reports have from others, check it, and write down what it is.

    python docs/make_vendored.py                  # the versions that are written down, again
    python docs/make_vendored.py uplot@1.6.32     # another version

Needs npm, which is asked for a package as it is published: nothing of it is run. Beside the files stands
`vendor.lock`, a line for each: package, licence, file, bytes, SHA-256. Where a version that is written down has other
files than those, nothing is written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path

HOME = Path(__file__).resolve().parents[1] / "tracelens_graph/reports/html/page/vendor"
LOCK = HOME / "vendor.lock"
FILES = {
    "uplot": {
        "LICENSE": "uPlot.LICENSE",
        "dist/uPlot.iife.min.js": "uPlot.iife.min.js",
        "dist/uPlot.min.css": "uPlot.min.css",
    }
}
"""Package -> its files that pages have -> their names here."""


def fetched(package: str) -> tuple[str, dict[str, bytes]]:
    """Licence of a package, named with its version, and those of its files that pages have, by their names here."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", package, "--ignore-scripts", "--silent", "--pack-destination", folder], check=True
        )
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as content:

            def read(name: str) -> bytes:
                member = content.extractfile(f"package/{name}")
                if member is None:
                    raise SystemExit(f"{package} has no {name}")
                return member.read()

            licence: str = json.loads(read("package.json"))["license"]
            return licence, {ours: read(theirs) for theirs, ours in FILES[package.partition("@")[0]].items()}


def lines(package: str, licence: str, contents: dict[str, bytes]) -> list[str]:
    """What `vendor.lock` says of a package."""
    return [
        f"{package} {licence} {name} {len(content)} {sha256(content).hexdigest()}"
        for name, content in sorted(contents.items())
    ]


def main() -> None:
    """Fetch, check and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE@VERSION")
    told = LOCK.read_text("ascii").splitlines() if LOCK.exists() else []
    known = dict.fromkeys(line.split()[0] for line in told)
    asked = parser.parse_args().packages or list(known)
    renewed = {package.partition("@")[0] for package in asked}
    written = [line for line in told if line.partition("@")[0] not in renewed]
    for package in asked:
        licence, contents = fetched(package)
        found = lines(package, licence, contents)
        if package in known and (others := set(found) - set(told)):
            raise SystemExit("other files than those that are written down:\n" + "\n".join(sorted(others)))
        written += found
        HOME.mkdir(exist_ok=True)
        for name, content in contents.items():
            (HOME / name).write_bytes(content)
            print(HOME / name)
    LOCK.write_text("".join(f"{line}\n" for line in sorted(written)), "ascii")


if __name__ == "__main__":
    main()
