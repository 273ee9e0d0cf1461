"""Remembers conversations with ACP agents in a file, so that they can be listed and resumed.

The agent stores the conversation. The file has only which session belongs to which command and
directory, and the first prompt as a title.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import time
from typing import Annotated

import msgspec

from arcp_client.cli.environment import user_directory

__all__ = ["SavedChat", "known", "remember"]

_FILE = "chats.json"
_MOST = 200
_TITLE = 120

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


class SavedChat(msgspec.Struct, frozen=True):
    """One conversation.

    Attributes:
        session: the id of the session at the agent.
        command: the agent's program and its arguments.
        cwd: the directory of the agent.
        title: the first prompt, shortened.
        used: when it was used last, in seconds since 1970.
    """

    session: str
    command: tuple[str, ...]
    cwd: str
    title: str = ""
    used: _Seconds = 0.0


_DECODER = msgspec.json.Decoder(list[SavedChat])


def known(command: Sequence[str], cwd: str) -> list[SavedChat]:
    """The conversations with this command in this directory, the latest first."""
    where = (tuple(command), os.path.realpath(cwd))
    found = [each for each in _read(user_directory("state")) if (each.command, each.cwd) == where]
    return sorted(found, key=lambda each: -each.used)


def remember(command: Sequence[str], cwd: str, session: str, title: str = "") -> None:
    """Save that a conversation was used now; a failed write is ignored.

    The title of an earlier call is kept.
    """
    directory = user_directory("state")
    if directory is None:
        return
    # A full or read-only disk must not end the conversation, nor a text that is not Unicode.
    with contextlib.suppress(OSError, ValueError), _locked(directory):
        chats = _read(directory)
        chat = SavedChat(session, tuple(command), os.path.realpath(cwd), used=time())
        before = next((each for each in chats if _key(each) == _key(chat)), chat)
        chat = msgspec.structs.replace(chat, title=before.title or title.strip()[:_TITLE])
        others = sorted((each for each in chats if _key(each) != _key(chat)), key=_age)
        part = directory / f"{_FILE}.part"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode([chat, *others][:_MOST]))
        part.replace(directory / _FILE)


def _key(chat: SavedChat) -> tuple[str, tuple[str, ...], str]:
    return chat.session, chat.command, chat.cwd


def _age(chat: SavedChat) -> float:
    return -chat.used


def _read(directory: Path | None) -> list[SavedChat]:
    if directory is None:
        return []
    try:
        return _DECODER.decode((directory / _FILE).read_bytes())
    except (OSError, ValueError):  # there is none, or another version has written it
        return []


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    lock = os.open(directory / f"{_FILE}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
