"""Selects the ACP agent of a command: a program, or an agent behind a URL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from arcp_client.acp import LocalFiles, LocalTerminals
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.tokens import served_token

__all__ = ["ChosenAgent", "choose"]

_TOKEN = "ARCP_ACP_TOKEN"
_URL = re.compile(r"(ws|wss|http|https)://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ChosenAgent:
    """An agent, and what it gets.

    Attributes:
        command: its program with arguments, or its URL alone.
        remote: whether it is behind a URL.
        versions: the versions of the protocol to speak; the first one is preferred.
        token: the token for its server.
        write: whether it may write files.
    """

    command: tuple[str, ...]
    remote: bool
    versions: tuple[int, ...]
    token: SecretStr | None
    write: bool

    @property
    def known_as(self) -> tuple[str, ...]:
        """The command under which its sessions are saved; of a URL, the part without secrets."""
        if not self.remote:
            return self.command
        # Imported here: it imports aiohttp, which an agent that is a program does not need.
        from arcp_client.transports._connect import sanitized

        return (sanitized(self.command[0]),)

    def options(self, cwd: str) -> dict[str, Any]:
        """The arguments for `AcpClient`.

        An agent behind a URL gets no files and no commands of this machine: unlike a program, which
        this user started, it has no access to them otherwise.
        """
        if self.remote:
            own: dict[str, Any] = {"argv": self.command[0], "token": self.token}
        else:
            files = LocalFiles(cwd, writable=self.write)
            own = {"argv": self.command, "fs": files, "terminal": LocalTerminals()}
        return {**own, "cwd": cwd, "versions": self.versions}

    @property
    def not_started(self) -> str:
        """What to do if there is no connection."""
        if self.remote:
            return f"check the URL; {_TOKEN} or --token-file gives a token"
        return "name the agent's program, such as  arcp-client acp claude-agent-acp"

    @property
    def not_answering(self) -> str:
        """What to check if it does not answer."""
        if self.remote:
            return "does the server at that URL speak the Agent Client Protocol?"
        return "does that program speak the Agent Client Protocol on its standard input and output?"


def choose(
    command: Sequence[str], *, versions: str | None, token_file: Path | None, write: bool
) -> ChosenAgent:
    """Read the arguments of a command. Afterwards the environment holds no secrets.

    Raises:
        CommandError: they contradict each other, or a value is invalid.
    """
    token = served_token(token_file, name=_TOKEN)  # also withholds the runtime's from the agent
    remote = _URL.match(command[0]) is not None
    if remote and len(command) > 1:
        raise CommandError(
            Exit.USAGE, "an agent behind a URL takes no arguments", f"remove {command[1]!r:.60}"
        )
    if remote and write:
        raise CommandError(
            Exit.USAGE,
            "--write is for an agent on this machine",
            "an agent behind a URL gets no files of this machine",
        )
    if not remote and token_file is not None:
        raise CommandError(
            Exit.USAGE,
            "--token-file is for an agent behind a URL",
            "name a URL such as  wss://agents.example/acp",
        )
    return ChosenAgent(tuple(command), remote, _versions(versions), token, write)


def _versions(text: str | None) -> tuple[int, ...]:
    numbers = {"1": 1, "2": 2}
    words = ["1", "2"] if text is None else [word.strip() for word in text.split(",")]
    if len(set(words)) < len(words) or not set(words) <= set(numbers):
        raise CommandError(
            Exit.USAGE,
            f"--versions {text!r:.60} does not list versions of the protocol",
            "name those to speak, the preferred one first, such as  --versions 2,1",
        )
    return tuple(numbers[word] for word in words)
