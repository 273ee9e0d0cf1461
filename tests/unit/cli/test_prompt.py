"""A token is typed on the terminal without an echo."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Iterator

import pytest

from arcp_client.cli import prompt
from arcp_client.cli.exit_codes import CommandError, Exit


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of the terminal that is asked on."""
    ours, theirs = pty.openpty()
    name = os.ttyname(theirs)
    opened = os.open
    monkeypatch.setattr(
        os,
        "open",
        lambda path, flags, *mode: opened(name if path == "/dev/tty" else path, flags, *mode),
    )
    yield ours
    os.close(ours)
    os.close(theirs)


async def asked(keyboard: int, typed: bytes) -> str | None:
    question = asyncio.ensure_future(prompt.ask("token? "))
    await asyncio.to_thread(os.read, keyboard, 100)  # the question
    os.write(keyboard, typed)
    token = await question
    return None if token is None else token.get_secret_value()


async def test_what_is_typed_is_the_token(keyboard: int) -> None:
    assert await asked(keyboard, b" t0ken \n") == "t0ken"


async def test_nothing_typed_is_no_token(keyboard: int) -> None:
    assert await asked(keyboard, b"\n") is None


@pytest.mark.parametrize("typed", [b"two words\n", b"a\tb\n", b"a\x07b\n"])
async def test_what_cannot_be_a_token_is_refused_with_a_reason(keyboard: int, typed: bytes) -> None:
    with pytest.raises(CommandError, match="the typed text must contain one token") as refused:
        await asked(keyboard, typed)
    assert refused.value.code is Exit.USAGE
    assert "must not contain white space" in refused.value.remedy
