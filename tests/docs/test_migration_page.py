"""The page on migration names every public name of the reference SDK, and only names that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import arcp
import arcp.client
import arcp.runtime
import pytest

import arcp_client
from arcp_client import errors

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "migrate.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`[^|]+) \| (`[^|]+) \|", TEXT, re.MULTILINE)
NAME = re.compile(r"`((?:errors\.)?[A-Z_]\w*(?:\.\w+)?|[a-z_]+\w*)`")
THEIRS = [name for left, _ in ROWS for name in NAME.findall(left) if name != "arcp"]
PUBLIC = {*arcp.__all__, *arcp.client.__all__, *arcp.runtime.__all__}


def resolve(name: str, *homes: Any) -> bool:
    head, *members = name.split(".")
    for home in homes:
        if (value := getattr(home, head, None)) is not None:
            return all(hasattr(value, member) for member in members)
    return False


def test_the_tables_are_read() -> None:
    assert len(ROWS) > 40


def test_every_public_name_of_the_reference_sdk_is_in_a_table() -> None:
    assert sorted(PUBLIC - {name.split(".")[0] for name in THEIRS}) == []


@pytest.mark.parametrize("name", sorted(set(THEIRS)))
def test_a_name_of_the_reference_sdk_exists(name: str) -> None:
    assert resolve(name, arcp, arcp.client, arcp.runtime)


OURS = {
    name
    for _, right in ROWS
    for name in NAME.findall(right)
    if name[0].isupper() or name.startswith(("errors.", "__"))
}


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_name_of_this_package_exists(name: str) -> None:
    assert resolve(name, arcp_client, errors)
