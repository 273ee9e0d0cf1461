"""The page on the command line names the commands and exit codes that there are."""

from __future__ import annotations

import re
from pathlib import Path

from typer.main import get_command

from arcp_client.cli.app import parser
from arcp_client.cli.exit_codes import Exit

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"


def test_commands() -> None:
    named = re.findall(r"^\| `([\w-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(get_command(parser()).commands)


def test_exit_codes() -> None:
    named = re.findall(r"^\| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(code) for code in named] == sorted(Exit)
