"""Writes text to stdout and stderr, with colours on terminals and without control characters.

Texts of agents may contain control characters that move the cursor, set the title or hide text.
These characters are made visible.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from arcp_client import _digits as digits
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
    """Make control characters visible; ``lines`` keeps line ends."""
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
    """The console for data."""
    return _console(stderr=False)


@functools.cache
def err() -> Console:
    """The console for messages: always the same object, so that a live view stays below them."""
    return _console(stderr=True)


def tell(console: Console, text: str, style: str = "") -> None:
    """Print one message, which the terminal may wrap."""
    console.print(Text(harmless(text), style=style), soft_wrap=True)


def print_error(problem: CommandError) -> None:
    """Print an error on stderr: the situation, the remedy, and a link to the documentation."""
    console = err()
    line = Text("error: ", style="bold red")
    line.append(harmless(problem.happened), style="default")
    console.print(line, soft_wrap=True)
    if problem.remedy:
        tell(console, f"  {problem.remedy}", "dim")
    tell(console, f"  {short_link(problem.help_url)}", "dim")


def as_json(value: Any, *, cut: bool = False) -> str:
    """Encode one line of JSON for stdout, without characters that a terminal interprets.

    `Digits` keep their text (W1).

    Args:
        value: the value.
        cut: replace a value that is nested too deeply by a string; otherwise it is an error.
    """
    plain = not is_utf8(sys.stdout)
    try:
        text = _encoded(value, ascii=plain)
    except RecursionError:
        if not cut:
            raise
        text = _encoded(_shallow(value), ascii=plain)
    # JSON does not escape control characters beyond ASCII, and lone surrogates cannot be written.
    return _CONTROLS.sub(_escape, text)


def _encoded(value: Any, *, ascii: bool) -> str:
    return digits.dumps(value, ascii=ascii, separators=None, allow_nan=True)


def _shallow(value: Any, depth: int = 0) -> Any:
    if not isinstance(value, dict | list):
        return value
    if depth >= _DEEPEST:
        return "(nested too deeply)"
    if isinstance(value, list):
        return [_shallow(each, depth + 1) for each in value]
    return {name: _shallow(each, depth + 1) for name, each in value.items()}


class _ToStderr(logging.Handler):
    """Prints log records as messages, with tracebacks at debug levels only.

    The level of the package's logger selects the records; ``-v`` lowers it.
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
    """Print the package's warnings and errors on stderr; ``traces`` adds tracebacks.

    ``-v`` and ``-vv`` also print less severe records.
    """
    logger = logging.getLogger("arcp_client")
    logger.propagate = False
    logger.addHandler(_ToStderr(traces=traces))
