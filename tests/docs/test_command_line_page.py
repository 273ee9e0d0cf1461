"""The page on the command line names the commands and exit codes that there are."""

from __future__ import annotations

import re
import shlex
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


DOCS = PAGE.parents[1]
LINE = re.compile(r"^ *(?:\$ )?(?:\S*/)?arcp-client ([a-z-]+)((?:.*\\\n)*.*)$", re.MULTILINE)


def commands_in_the_documentation() -> list[tuple[str, str, list[str]]]:
    """Each command in a block of a page: the page, the command, its options before any pipe."""
    found = []
    for page in [*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md"]:
        if "_build" in page.parts:
            continue
        for block in re.findall(r"```(?:console|text)\n(.*?)```", page.read_text("utf-8"), re.S):
            for name, rest in LINE.findall(block):
                words = shlex.split(rest.replace("\\\n", " "), comments=True)
                options = [word.partition("=")[0] for word in words if word.startswith("-")]
                found.append((page.name, name, [each for each in options if each != "-"]))
    return found


def test_each_command_in_a_page_has_the_options_with_which_the_page_calls_it() -> None:
    group = get_command(parser())
    found = commands_in_the_documentation()
    assert len(found) > 30
    wrong = []
    for page, name, options in found:
        command = group.commands.get(name)  # type: ignore[attr-defined]
        if command is None:
            wrong.append(f"{page}: there is no command {name}")
            continue
        if name == "config":
            command = command.commands["show"]
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        wrong += [f"{page}: {name} has no {option}" for option in options if option not in known]
    assert wrong == []
