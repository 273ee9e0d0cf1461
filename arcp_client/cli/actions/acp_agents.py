"""Makes an agent function for each ``--acp NAME=COMMAND``."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from typing import Any

from arcp_client.cli.exit_codes import CommandError, Exit

__all__ = ["hosted_agents"]


def hosted_agents(options: Sequence[str]) -> dict[str, Any]:
    """Make an agent function for each ``NAME=COMMAND``. Commands are split as in a shell."""
    if not options:
        return {}
    from arcp_client.acp import host

    agents: dict[str, Any] = {}
    for option in options:
        name, _, line = option.partition("=")
        try:
            command = shlex.split(line)
        except ValueError as error:
            raise CommandError(Exit.USAGE, f"--acp {option!r}: {error}") from None
        if not name or not command:
            raise CommandError(
                Exit.USAGE,
                f"--acp {option!r} is not an agent",
                "the form is NAME=COMMAND, such as  claude=claude-agent-acp",
            )
        if shutil.which(command[0]) is None:
            raise CommandError(
                Exit.USAGE,
                f"--acp {name}: the program {command[0]!r} was not found",
                "is it installed, and on PATH?",
            )
        agents[name] = host(command)
    return agents
