"""Splits chunks of a byte stream into lines. Knows nothing of pipes."""

from __future__ import annotations

from arcp_client._wire.unreadable import head_of, identify
from arcp_client.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["DroppedLine", "LineSplitter", "one_line"]

_START = 4096  # of a line that is too long: enough for what identifies a message


class DroppedLine(RemoteProtocolError):
    """A line that is no frame, for a reader that can still tell what it was part of.

    Attributes:
        start: the whole line; of one that is too long, its first bytes.
        complete: whether ``start`` is the whole line.
    """

    def __init__(self, message: str, *, size: int, start: bytes, complete: bool) -> None:
        super().__init__(message, size=size, head=head_of(start))
        identify(self, start)
        self.start = start
        self.complete = complete

    @property
    def help_url(self) -> str:
        """The page of the class that users know."""
        return RemoteProtocolError("").help_url


class LineSplitter:
    r"""Splits at ``b"\n"`` only, whatever else Unicode calls a line end.

    A line may arrive in any number of pieces. ``\r\n`` is taken for ``\n``; blank lines vanish. A
    line that is too long is dropped up to its newline, so that its tail is never read as a line.

    Args:
        max_line: bytes, without the line end.
    """

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._start_size = min(_START, max_line)
        self._pieces: list[bytes] = []  # of the line that has no newline yet
        self._size = 0
        self._head = b""  # of a line that is too long, while it is being dropped
        self._last = b""  # and its last byte, which may be a "\r"

    @property
    def held(self) -> int:
        """Bytes of the unfinished line that are in memory."""
        return 0 if self._head else self._size

    def feed(self, data: bytes) -> list[bytes | RemoteProtocolError]:
        """Take the next chunk; the lines that it completes, and what was wrong with others."""
        first, newline, rest = data.partition(b"\n")
        self._extend(first)
        if not newline:
            return []
        lines: list[bytes | RemoteProtocolError] = []
        self._finish(lines)
        whole = rest.split(b"\n")
        tail = whole.pop()
        for line in whole:
            self._check(line, lines)
        self._extend(tail)
        return lines

    def end(self) -> list[bytes | RemoteProtocolError]:
        """The stream has ended: a last line without a newline is a line."""
        lines: list[bytes | RemoteProtocolError] = []
        self._finish(lines)
        return lines

    def _extend(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        self._last = piece[-1:]
        if self._head:
            return
        self._pieces.append(piece)
        if self._size > self._max_line + 1:  # one more for a "\r" that is no part of the line
            self._head = b"".join(self._pieces)[: self._start_size]
            self._pieces.clear()

    def _finish(self, lines: list[bytes | RemoteProtocolError]) -> None:
        if self._head:
            size = self._size - (self._last == b"\r")
            lines.append(self._too_long(size, self._head))
            self._head = b""
        else:
            self._check(b"".join(self._pieces), lines)
        self._pieces.clear()
        self._size = 0

    def _check(self, line: bytes, lines: list[bytes | RemoteProtocolError]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if not line or line.isspace():
            return
        if len(line) > self._max_line:
            lines.append(self._too_long(len(line), line))
        elif line.isascii():
            lines.append(line)
        else:
            lines.append(_decoded(line))

    def _too_long(self, size: int, line: bytes) -> RemoteProtocolError:
        return DroppedLine(
            f"a line of {size} bytes is over this side's limit of {self._max_line} bytes"
            " and was dropped",
            size=size,
            start=line[: self._start_size],
            complete=False,
        )


def _decoded(line: bytes) -> bytes | RemoteProtocolError:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return DroppedLine(
            f"a line is no UTF-8 ({error.reason} at byte {error.start}) and was dropped",
            size=len(line),
            start=line,
            complete=True,
        )
    return line


def one_line(frame: bytes, *, limit: int) -> bytes:
    """A frame as a line of its own.

    Raises:
        LocalProtocolError: the frame is over the limit or has a line end in it.
    """
    if len(frame) > limit:
        raise LocalProtocolError(
            f"a frame of {len(frame)} bytes is over this side's limit of {limit} bytes"
        )
    if b"\n" in frame or b"\r" in frame:
        raise LocalProtocolError("a frame with a line end in it cannot go over a stream of lines")
    return frame + b"\n"
