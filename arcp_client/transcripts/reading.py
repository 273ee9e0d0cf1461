"""Reads a transcript line by line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from arcp_client import _arguments as check
from arcp_client import _digits as digits
from arcp_client.errors import TranscriptError
from arcp_client.transcripts.lines import FAMILY, SCHEMA, EndLine, Header, Line, from_fields

__all__ = ["MAX_LINE", "Reader", "read"]

MAX_LINE = 32 * 1024 * 1024
"""Maximum length of a line for writing and reading, in bytes."""


class Reader:
    """Iterates over the lines after the header of a transcript, holding one at a time in memory.

    If the writer was killed, the file ends within a line, or without an end line. The reader
    returns the complete lines. After them, ``complete`` is false, and ``cut`` tells whether a
    partial line follows.

    Args:
        file: the file, open for reading bytes.
        name: the name of the file in errors.
        max_line: maximum length of a line in bytes.

    Attributes:
        header: the first line.
        number: the number of the last line read, from 1.
        position: the position of the end of that line, in bytes.
        cut: whether the file ends within a line; known after the last line.
        end: the end line, once it was read.

    Raises:
        TranscriptError: the file is not a transcript, or of a later version.
    """

    def __init__(self, file: IO[bytes], *, name: str = "", max_line: int = MAX_LINE) -> None:
        self._file = file
        self._name = name or str(getattr(file, "name", "the transcript"))
        self._max_line = max_line
        self.number = 0
        self.position = 0
        self.cut = False
        self.end: EndLine | None = None
        self.header = self._header()

    @property
    def complete(self) -> bool:
        """Whether the file was read up to the end line of a completed recording."""
        return self.end is not None

    def _header(self) -> Header:
        read = self._fields()
        schema = read[0].get("schema") if read is not None else None
        if read is None or not isinstance(schema, str) or not schema.startswith(FAMILY):
            raise self._wrong("this is not a transcript", line=1)
        if schema != SCHEMA:
            raise self._wrong(f"this transcript has schema {schema}, {SCHEMA} is supported", line=1)
        found = self._line(*read)
        if not isinstance(found, Header):
            raise self._wrong("the first line of a transcript must be its header", line=1)
        return found

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        """Return the next line.

        Raises:
            TranscriptError: the file is damaged; ``line`` says where.
        """
        read = self._fields()
        if read is None:
            raise StopIteration
        if self.end is not None:
            raise self._wrong("there are lines after the end line")
        found = self._line(*read)
        if isinstance(found, Header):
            raise self._wrong("a second header")
        if isinstance(found, EndLine):
            self.end = found
        return found

    def _fields(self) -> tuple[dict[str, Any], bytes] | None:
        while True:
            try:
                data = self._file.readline(self._max_line + 1)
            except (OSError, ValueError) as error:
                raise self._wrong(f"it cannot be read: {error}") from error
            if not data:
                return None
            self.number += 1
            self.position += len(data)
            if len(data) > self._max_line:
                raise self._wrong(f"the line is longer than {self._max_line:,} bytes")
            if not data.strip():
                continue
            try:
                return _object(data), data
            except (ValueError, RecursionError) as error:
                if not data.endswith(b"\n"):
                    self.cut = True
                    return None
                raise self._wrong(f"the line is not a JSON object: {error}") from None

    def _line(self, fields: dict[str, Any], data: bytes) -> Line:
        try:
            return from_fields(fields, _exact_event(data))
        except (ValueError, RecursionError) as error:
            raise self._wrong(str(error)) from None

    def _wrong(self, what: str, *, line: int | None = None) -> TranscriptError:
        number = self.number if line is None else line
        return TranscriptError(f"{self._name}, line {number}: {what}", line=number)

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read(path: str | os.PathLike[str], *, max_line: int = MAX_LINE) -> Reader:
    """Open a transcript. The returned reader closes the file.

    Raises:
        TranscriptError: the file is not a transcript, or of a later version.
        OSError: the file cannot be opened.
    """
    check.a_path("path", path)
    check.a_number("max_line", max_line, least=1)
    file = Path(path).open("rb")  # noqa: SIM115  the reader closes it
    try:
        return Reader(file, name=str(path), max_line=max_line)
    except BaseException:
        file.close()
        raise


def line_at(file: IO[bytes], position: int) -> Line:
    """Read the line at a byte position of a transcript that was read before.

    Raises:
        TranscriptError: the file has changed.
    """
    try:
        file.seek(position)
        data = file.readline(MAX_LINE + 1)
        return from_fields(_object(data), _exact_event(data))
    except (OSError, ValueError, RecursionError) as error:
        raise TranscriptError(f"the transcript changed while it was read: {error}") from None


def _object(data: bytes) -> dict[str, Any]:
    found = json.loads(data.decode(), parse_constant=_no_constant)
    if not isinstance(found, dict):
        raise ValueError(f"it is {type(found).__name__}")
    return found


def _exact_event(data: bytes) -> Any:
    """The event of a line with the digits of its numbers; ``None`` if they need no care."""
    if not digits.has_odd_numbers(data, max(data.find(b'"event":'), 0)):
        return None
    return digits.loads(data).get("event")


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON value")
