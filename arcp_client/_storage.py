"""Turns the errors of SQLite and of decoding into the one error that names the file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from arcp_client.errors import ArcpError, StorageError

__all__ = ["storage_errors"]

_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError)
# Of the disk, the system or another program: the file itself is as it should be.
_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


@contextmanager
def storage_errors(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Raise StorageError instead of everything that a file at fault makes code raise.

    For code that does nothing but read, write and decode that file. An OSError stays one: it
    names the file by itself, and tells a directory that is missing from a file that is damaged.

    Args:
        path: the file.
        what: what the file is, such as "event log".
    """
    try:
        yield
    except ArcpError:
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # none: no UTF-8
        damaged = code & 0xFF not in _PASSING
        raise _at_fault(path, what, error, permanent=damaged) from error
    except _UNREADABLE as error:
        raise _at_fault(path, what, error, permanent=True) from error


def _at_fault(
    path: str | os.PathLike[str], what: str, error: Exception, *, permanent: bool
) -> StorageError:
    file = os.fspath(path)
    if not permanent:
        text = f"the {what} {file} cannot be used: {error}"
    elif isinstance(error, sqlite3.Error):
        text = f"the {what} {file} is damaged, or is no {what}: {error}"
    else:  # what a damaged file holds is not for every log
        text = f"the {what} {file} is damaged: it holds what was never written to it"
    return StorageError(text, path=file, permanent=permanent)
