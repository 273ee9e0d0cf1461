"""Lists the sessions of an ACP agent, and writes the history of one to a file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from arcp_client.acp import AcpClient, updates
from arcp_client.acp._base import exact_raw
from arcp_client.cli.actions import saved_chats
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.view import render, terminal
from arcp_client.errors import FeatureNotNegotiated

__all__ = ["ExportedChat", "print_sessions"]

_MOST = 1000


async def print_sessions(
    agent: AcpClient, command: Sequence[str], cwd: str, *, json_lines: bool
) -> None:
    """Print the sessions in a directory: those that the agent lists, and those of this command."""
    found: dict[str, dict[str, Any]] = {}
    for chat in saved_chats.known(command, cwd):
        at = datetime.fromtimestamp(chat.used, UTC).isoformat(timespec="seconds")
        found[chat.session] = {"session_id": chat.session, "updated_at": at, "title": chat.title}
    try:
        async for one in agent.list_sessions(cwd=cwd):
            row = found.setdefault(one.session_id, {"session_id": one.session_id})
            row["updated_at"] = one.updated_at or row.get("updated_at")
            row["title"] = one.title or row.get("title") or ""
            if len(found) >= _MOST:
                break
    except FeatureNotNegotiated:
        pass  # the agent keeps no list; those that this command has used are known
    rows = sorted(found.values(), key=lambda row: row.get("updated_at") or "", reverse=True)
    for row in rows:
        if json_lines:
            print(terminal.as_json(row), flush=True)
        else:
            cells = (row["session_id"], _when(row.get("updated_at")), row.get("title") or "")
            print("\t".join(terminal.harmless(cell) for cell in cells), flush=True)
    if not rows:
        terminal.tell(terminal.err(), "no sessions in this directory", "dim")


def _when(text: str | None) -> str:
    try:
        return render.moment(datetime.fromisoformat(text)) if text else ""
    except ValueError:  # the agent's text is no time
        return text or ""


class ExportedChat:
    """Collects the history of a session: as Markdown for a file ``.md``, else as JSON lines.

    Args:
        path: the file; ``-`` is stdout.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._markdown = Path(path).suffix.lower() == ".md"
        self._parts: list[str] = []
        self._speaker = ""

    def add(self, update: updates.Update) -> None:
        """Add one update of the history."""
        if not self._markdown:
            self._parts.append(terminal.as_json(exact_raw(update), cut=True) + "\n")
            return
        match update:
            case updates.UserMessageChunk(content=updates.Text(text=text)):
                self._say("You", text)
            case updates.AgentMessageChunk(content=updates.Text(text=text)):
                self._say("Agent", text)
            case updates.AgentThoughtChunk(content=updates.Text(text=text)):
                self._say("Thought", text)
            case updates.ToolCall(title=title):
                self._speaker = ""
                self._parts.append(f"\n\n*Tool:* {title or 'a tool'}")

    def _say(self, speaker: str, text: str) -> None:
        if speaker != self._speaker:
            self._speaker = speaker
            self._parts.append(f"\n\n## {speaker}\n\n")
        self._parts.append(text)

    def write(self) -> None:
        """Write the file.

        Raises:
            CommandError: the file cannot be written.
        """
        text = "".join(self._parts).strip("\n") + "\n"
        if self._path == "-":
            print(terminal.harmless(text, lines=True), end="", flush=True)
            return
        try:
            Path(self._path).write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            what = f"{self._path} cannot be written: {error.strerror}"
            raise CommandError(Exit.USAGE, what) from None
