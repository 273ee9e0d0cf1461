"""Gives a process whose standard streams are closed streams that say so when they are used."""

from __future__ import annotations

import io
import os
import sys

from arcp_client.cli.exit_codes import Complaint, Exit

__all__ = ["open_closed"]


class _ClosedInput(io.RawIOBase):
    """Standard input that was closed (``<&-``): whoever reads it is told, all others go on."""

    def readable(self) -> bool:
        return True

    def readinto(self, _: object) -> int:
        raise Complaint(
            Exit.USAGE, "standard input is closed", "give it something to read, or </dev/null"
        )


def open_closed() -> None:
    """Replace closed standard streams, before anything is opened under their numbers.

    Reading a closed input is an error of usage. Writing to a closed output fails as writing to a
    full disk does. What is said on a closed standard error goes nowhere.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one, since those below it are open.
            os.open(os.devnull, mode)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
