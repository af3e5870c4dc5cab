"""What pages have from others is what was written down when it was fetched."""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib.resources import files

import pytest

from corpus import CHECKOUT

FOLDER = files("tracelens_graph.reports.html") / "page/vendor"
LOCK = [line.split() for line in (FOLDER / "vendor.lock").read_text("ascii").splitlines()]


def test_every_file_is_written_down() -> None:
    assert {name for _, _, name, _, _ in LOCK} | {"vendor.lock"} == {one.name for one in FOLDER.iterdir()}


@pytest.mark.parametrize(("package", "licence", "name", "size", "digest"), LOCK)
def test_files_are_those_that_were_fetched(package: str, licence: str, name: str, size: str, digest: str) -> None:
    content = (FOLDER / name).read_bytes()
    assert len(content) == int(size)
    assert sha256(content).hexdigest() == digest
    assert licence == "MIT"
    version = package.partition("@")[2]
    if name.endswith(".js"):
        assert f"v{version}".encode() in content[:200]
    if name.endswith(".LICENSE"):
        assert b"MIT License" in content


@pytest.mark.checkout
def test_the_script_that_renews_them_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(CHECKOUT / "docs")
    import make_vendored

    del sys.modules["make_vendored"]
    contents = {name: (FOLDER / name).read_bytes() for _, _, name, _, _ in LOCK}
    packages = {package: licence for package, licence, *_ in LOCK}
    assert {package.partition("@")[0] for package in packages} == set(make_vendored.FILES)
    for package, licence in packages.items():
        ours = {name: contents[name] for name in make_vendored.FILES[package.partition("@")[0]].values()}
        assert make_vendored.lines(package, licence, ours) == [" ".join(line) for line in LOCK if line[0] == package]
