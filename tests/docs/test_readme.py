"""The README is short, shows a program that runs, and can be read on a package index."""

from __future__ import annotations

import re
from pathlib import Path

from arcp_client.version import DOCS_URL

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
FIRST = ROOT / "examples" / "first_client.py"
LONGEST = 5_300  # characters


def test_it_is_short() -> None:
    assert len(README) <= LONGEST


def test_it_says_in_two_sentences_what_the_package_is() -> None:
    title, _, rest = README.partition("\n\n")
    assert title == "# arcp-client"
    first = " ".join(rest.split("\n\n")[0].split())
    assert len(re.findall(r"\.(?:\s|$)", first.replace("v1.1", ""))) == 2


def test_its_two_commands_its_program_and_the_output_are_those_that_the_tests_run() -> None:
    [(_, commands)] = [block for block in BLOCKS if block[0] == "console"]
    assert commands.splitlines() == ["$ make demo", "$ .venv/bin/arcp-client serve"]
    [(_, program)] = [block for block in BLOCKS if block[0] == "python"]
    assert program == FIRST.read_text(encoding="utf-8")
    [(_, output)] = [block for block in BLOCKS if block[0] == "text"]
    assert output == FIRST.with_suffix(".out").read_text(encoding="utf-8")


def test_every_picture_is_one_that_a_page_of_the_documentation_shows() -> None:
    pages = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "docs").rglob("*.md")
        if "_build" not in path.parts
    )
    for url in re.findall(r"!\[[^]]+\]\((\S+)\)", README):
        assert url.startswith(f"{DOCS_URL}_images/"), url
        name = url.rpartition("/")[2]
        assert (ROOT / "docs" / "images" / name).is_file(), name
        assert f"images/{name})" in pages, name


def test_the_number_of_other_runtimes_is_that_of_the_page_on_interoperability() -> None:
    page = (ROOT / "docs" / "reference" / "interop.md").read_text(encoding="utf-8")
    each = page.partition("\n## How each runtime deviates\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^### ", each, re.MULTILINE)) == 6
    assert "adapts to six" in README
