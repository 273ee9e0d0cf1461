"""The built documentation, for tests.

A build takes a minute. So tests use what ``make docs`` has built if it is newer than everything it
is made from, as in `.ci/run`. Otherwise they build it where ``CI`` is set, and skip elsewhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BUILT = DOCS / "_build" / "html"
SOURCES = ("docs", "examples", "arcp_client", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")


@dataclass(frozen=True)
class Entry:
    """One name of the inventory; an alias is neither displayed nor searched."""

    kind: str
    page: str
    alias: bool


def sources() -> Iterator[Path]:
    for name in SOURCES:
        path = ROOT / name
        for file in path.rglob("*") if path.is_dir() else [path]:
            if file.is_file() and "_build" not in file.parts and file.suffix != ".pyc":
                yield file


def is_current() -> bool:
    index = BUILT / "objects.inv"
    last = BUILT / "llms.txt"  # is written last
    if not (index.exists() and last.exists()):
        return False
    built = last.stat().st_mtime
    return all(path.stat().st_mtime <= built for path in sources())


def built_site() -> Path:
    if not is_current():
        if os.environ.get("CI") != "true":
            pytest.skip("the documentation is not built, or older than its sources: `make docs`")
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
        done = subprocess.run(
            [*command, str(DOCS), str(BUILT)], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr[-4000:]
    return BUILT


def inventory(site: Path) -> dict[str, Entry]:
    """The names of the Python domain; an entry that is displayed counts before an alias."""
    *_, compressed = (site / "objects.inv").read_bytes().split(b"\n", maxsplit=4)
    found: dict[str, Entry] = {}
    for line in zlib.decompress(compressed).decode().splitlines():
        name, kind, priority, place, _ = line.split(maxsplit=4)
        if kind.startswith("py:"):
            page = place.partition("#")[0]
            entry = Entry(kind.removeprefix("py:"), page, alias=priority == "-1")
            if name not in found or found[name].alias:
                found[name] = entry
    return found


class Page(HTMLParser):
    """What a test asks of one HTML page: its links, its anchors and its description."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.descriptions: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        for name in ("id", "name"):
            if (anchor := values.get(name)) and tag != "meta":
                self.anchors.add(anchor)
        if (target := values.get("href" if tag in ("a", "link") else "src")) is not None:
            self.links.append(target)
        if tag == "meta" and values.get("name") == "description":
            self.descriptions.append(values.get("content") or "")
