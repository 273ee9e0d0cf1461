"""Makes the standard streams usable: replaces closed ones, and lets them write any text."""

from __future__ import annotations

import io
import os
import sys
from typing import IO

from arcp_client.cli.exit_codes import CommandError, Exit

__all__ = ["accept_any_text", "is_utf8", "replace_closed"]


class _ClosedInput(io.RawIOBase):
    """Standard input that was closed (``<&-``): reading it is a usage error."""

    def readable(self) -> bool:
        return True

    def readinto(self, _: object) -> int:
        raise CommandError(
            Exit.USAGE, "standard input is closed", "redirect it from a file or from /dev/null"
        )


def replace_closed() -> None:
    """Replace closed standard streams, before other files get their descriptors.

    To read a closed input is then a usage error. To write to a closed output fails like a write to
    a full disk. Messages to a closed standard error are dropped.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free descriptor is this one, since the lower ones are open.
            os.open(os.devnull, mode)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def is_utf8(stream: IO[str]) -> bool:
    """Whether the stream encodes every character."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


def accept_any_text() -> None:
    """Let stdout and stderr replace characters that they cannot encode.

    Messages are dropped once stderr cannot be written, because its pipe is closed or its disk is
    full. This affects neither the command nor its exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace" if is_utf8(stream) else "replace")
    old = sys.stderr
    if isinstance(old, io.TextIOWrapper) and old is sys.__stderr__:
        sys.stderr = _Messages(
            io.BufferedWriter(io.FileIO(old.fileno(), "wb", closefd=False)),
            encoding=old.encoding,
            errors=old.errors,
            line_buffering=True,
        )


class _Messages(io.TextIOWrapper):
    """Standard error that never fails."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
