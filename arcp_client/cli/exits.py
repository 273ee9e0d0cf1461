"""Exit codes, and commands in, exit codes out: every way in which a command can end."""

from __future__ import annotations

import enum
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import IO

__all__ = ["Complaint", "Exit", "guarded", "is_utf8", "tame"]


class Exit(enum.IntEnum):
    """What ``arcp-client`` ends with."""

    SUCCESS = 0
    FAILED = 1
    USAGE = 2
    CONNECTION = 3
    AUTHENTICATION = 4
    NOT_FOUND = 5
    LEASE = 6
    GAP = 7
    TIMED_OUT = 124
    INTERRUPTED = 130


class Complaint(Exception):
    """A command cannot go on.

    Args:
        code: what to exit with.
        happened: what happened, without a full stop.
        remedy: what the person can do about it.
    """

    def __init__(self, code: Exit, happened: str, remedy: str = "") -> None:
        super().__init__(happened)
        self.code = code
        self.happened = happened
        self.remedy = remedy


def guarded(command: Callable[[], int]) -> int:
    """Run a command; whatever happens becomes an exit code and a line or two."""
    try:
        code = command()
        sys.stdout.flush()
    except Complaint as problem:
        return _complained(problem)
    except KeyboardInterrupt:
        return _complained(Complaint(Exit.INTERRUPTED, "interrupted"))
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
        # Whoever read stdout has gone: say nothing more there, not even at interpreter's end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return int(Exit.INTERRUPTED)
    except Exception as error:
        if os.environ.get("ARCP_DEBUG"):
            raise
        happened = f"unexpected {type(error).__name__}: {error}"
        return _complained(Complaint(Exit.FAILED, happened, "with ARCP_DEBUG=1 it says where"))
    return int(code)


def _complained(problem: Complaint) -> int:
    from arcp_client.cli.terminal import complain

    complain(problem)
    return int(problem.code)


def is_utf8(stream: IO[str]) -> bool:
    """Whether the stream takes every character."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


def tame() -> None:
    """Make stdout and stderr take any text: what they cannot show they replace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace" if is_utf8(stream) else "replace")
