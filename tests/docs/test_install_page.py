"""The page on the installation names each extra, and each dependency of the library."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGE = (ROOT / "docs" / "howto" / "install.md").read_text(encoding="utf-8")


def name(requirement: str) -> str:
    return re.split(r"[<>=!~\[; ]", requirement)[0]


def test_the_page_lists_every_extra_and_no_other() -> None:
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE) == sorted(
        PROJECT["optional-dependencies"]
    )


def test_the_page_names_the_dependencies() -> None:
    sentence = re.search(r"has six dependencies: ([^.]+)\.", PAGE)
    assert sentence is not None
    assert re.split(r", | and ", sentence[1]) == sorted(map(name, PROJECT["dependencies"]))


def test_the_extra_all_has_every_other_one_but_that_for_tests() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert set(re.findall(r"[\w-]+", everything.partition("[")[2])) == set(
        PROJECT["optional-dependencies"]
    ) - {"all", "testing"}
