"""Writes text to stdout and stderr, with colours on terminals and without control characters.

Agents send text. Control characters that would move the cursor, set the title or hide what
follows are made visible.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from arcp_client.cli.exit_codes import CommandError, short_link
from arcp_client.cli.streams import is_utf8

__all__ = ["as_json", "err", "harmless", "log_to_stderr", "out", "print_error", "tell"]

_DEEPEST = 200
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"\\u{code:04x}"


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def harmless(text: str, *, lines: bool = False) -> str:
    """The text without control characters; ``lines`` keeps its line ends."""
    text = text.replace("\r\n", "\n")
    if not lines:
        text = text.replace("\n", " ⏎ ").replace("\t", " ")
    return _CONTROLS.sub(_picture, text)


def _console(*, stderr: bool) -> Console:
    plain = "NO_COLOR" in os.environ and os.environ["NO_COLOR"] != ""
    return Console(
        stderr=stderr,
        color_system=None if plain else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )


def out() -> Console:
    """For data."""
    return _console(stderr=False)


@functools.cache
def err() -> Console:
    """For messages. Always the same: what is written to it goes above a live view on it."""
    return _console(stderr=True)


def tell(console: Console, text: str, style: str = "") -> None:
    """One message, which the terminal may wrap."""
    console.print(Text(harmless(text), style=style), soft_wrap=True)


def print_error(problem: CommandError) -> None:
    """Print what happened, what to do, and a link to the docs, on stderr."""
    console = err()
    line = Text("error: ", style="bold red")
    line.append(harmless(problem.happened), style="default")
    console.print(line, soft_wrap=True)
    if problem.remedy:
        tell(console, f"  {problem.remedy}", "dim")
    tell(console, f"  {short_link(problem.help_url)}", "dim")


def as_json(value: Any, *, cut: bool = False) -> str:
    """One line of JSON that the present stdout can take; a terminal obeys nothing in it.

    Args:
        value: what it says.
        cut: what is nested too deeply to be written becomes a text; else it is an error.
    """
    plain = not is_utf8(sys.stdout)
    try:
        text = json.dumps(value, ensure_ascii=plain)
    except RecursionError:
        if not cut:
            raise
        text = json.dumps(_shallow(value), ensure_ascii=plain)
    # JSON escapes none of the controls beyond ASCII, and half a character cannot be written.
    return _CONTROLS.sub(_escape, text)


def _shallow(value: Any, depth: int = 0) -> Any:
    if not isinstance(value, dict | list):
        return value
    if depth >= _DEEPEST:
        return "(nested too deeply)"
    if isinstance(value, list):
        return [_shallow(each, depth + 1) for each in value]
    return {name: _shallow(each, depth + 1) for name, each in value.items()}


class _ToStderr(logging.Handler):
    """Log records as messages; a trace only where a level asks for it.

    Warnings and errors, or what ``-v`` asked for by the level of the package's logger.
    """

    def __init__(self, *, traces: bool) -> None:
        wanted = logging.getLogger("arcp_client").level or logging.WARNING
        super().__init__(min(wanted, logging.WARNING))
        self._traces = traces or wanted <= logging.DEBUG

    def emit(self, record: logging.LogRecord) -> None:
        try:
            console = err()
            word = record.levelname.lower()
            style = {"warning": "yellow", "info": "dim", "debug": "dim"}.get(word, "red")
            name = f"{record.name}: " if record.levelno < logging.WARNING else ""
            tell(console, f"{word}: {name}{record.getMessage()}", style)
            if self._traces and record.exc_info:
                trace = logging.Formatter().formatException(record.exc_info)
                console.print(Text(harmless(trace, lines=True), style="dim"), soft_wrap=True)
        except Exception:  # noqa: BLE001 - logging must never end what it reports on
            self.handleError(record)


def log_to_stderr(*, traces: bool = False) -> None:
    """Show the package's warnings and errors on stderr, with traces for who runs the agents.

    With ``-v`` and ``-vv`` also what it does.
    """
    logger = logging.getLogger("arcp_client")
    logger.propagate = False
    logger.addHandler(_ToStderr(traces=traces))
