"""Reads a token or an answer from the terminal while the event loop keeps running."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import SecretStr

from arcp_client.cli.tokens import to_token

__all__ = ["ask", "ask_line", "can_ask"]

_LONGEST = 65_536


def can_ask() -> bool:
    """Whether stdin and stderr are terminals."""
    return sys.stderr.isatty() and sys.stdin.isatty()


async def ask(question: str) -> SecretStr | None:
    """Ask for a token; ``None`` if the answer is empty, or if there is no terminal.

    A signal ends the `Interrupts.stop` block in which the caller waits; the echo is then restored.

    Raises:
        CommandError: the answer contains white space or control characters.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        with _quiet(terminal):
            os.write(terminal, question.encode())
            typed = await _line(terminal)
            os.write(terminal, b"\n")
    except OSError:
        return None
    finally:
        os.close(terminal)
    text = typed.decode(errors="replace").strip()
    return to_token(text, "the typed text") if text else None


async def ask_line(question: str) -> str:
    """Ask for a line of text, with echo; empty if nothing is typed, or there is no terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        os.write(terminal, question.encode(errors="replace"))
        typed = await _line(terminal)
    except OSError:
        return ""
    finally:
        os.close(terminal)
    return typed.decode(errors="replace").rstrip("\r\n")


@contextmanager
def _quiet(terminal: int) -> Iterator[None]:
    """Turn echo off during the block."""
    try:
        before = termios.tcgetattr(terminal)
        after = termios.tcgetattr(terminal)
        after[3] &= ~termios.ECHO
        termios.tcsetattr(terminal, termios.TCSAFLUSH, after)
    except termios.error as error:
        raise OSError(str(error)) from None
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


async def _line(terminal: int) -> bytes:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    typed = bytearray()

    def readable() -> None:
        try:
            piece = os.read(terminal, 4096)
        except BlockingIOError:
            return
        except OSError as error:
            piece = b""
            if not done.done():
                done.set_exception(error)
        typed.extend(piece)
        over = not piece or piece.endswith(b"\n") or len(typed) > _LONGEST
        if over and not done.done():
            done.set_result(None)

    loop.add_reader(terminal, readable)
    try:
        await done
    finally:
        loop.remove_reader(terminal)
    return bytes(typed)
