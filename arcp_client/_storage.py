"""Converts the errors of SQLite and of decoding into a StorageError that names the file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from arcp_client.errors import ArcpError, StorageError

__all__ = ["storage_errors"]

_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError)
# Errors of the disk, the system or another program: the file itself is intact.
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
    """Convert every error that an unusable file causes into StorageError.

    Use it around code that only reads, writes and decodes that file. OSErrors pass unchanged,
    because they name the file and distinguish a missing directory from a damaged file.

    Args:
        path: the file.
        what: the kind of file, such as "event log".
    """
    try:
        yield
    except ArcpError:
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # no code: not UTF-8
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
    else:  # the error's text may quote secrets from the file
        text = f"the {what} {file} is damaged: it contains values that this package never writes"
    return StorageError(text, path=file, permanent=permanent)
