"""Splits chunks of a byte stream into lines."""

from __future__ import annotations

from arcp_client._wire.unreadable import head_of, identify
from arcp_client.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["DroppedLine", "LineSplitter", "one_line", "start_of", "too_long", "utf8"]

_START = 4096  # kept of an overlong line: enough to identify its message


class DroppedLine(RemoteProtocolError):
    """A line that cannot be a frame, with the bytes that identify the dropped message.

    Attributes:
        start: the whole line, or the first bytes of an overlong line.
        complete: whether ``start`` is the whole line.
    """

    def __init__(self, message: str, *, size: int, start: bytes, complete: bool) -> None:
        super().__init__(message, size=size, head=head_of(start))
        identify(self, start)
        self.start = start
        self.complete = complete

    @property
    def help_url(self) -> str:
        """The documentation page of `RemoteProtocolError`, the public class."""
        return RemoteProtocolError("").help_url


class LineSplitter:
    r"""Splits at ``b"\n"`` only, not at other line ends of Unicode.

    A line may arrive in any number of pieces. ``\r\n`` counts as ``\n``; blank lines are skipped.
    An overlong line is dropped up to its newline, so that its tail is never read as a line.

    Args:
        max_line: the longest line in bytes, without its line end.
    """

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._pieces: list[bytes] = []  # the incomplete line
        self._size = 0
        self._head = b""  # the beginning of the overlong line being dropped
        self._last = b""  # and its last byte, which may be "\r"

    @property
    def held(self) -> int:
        """Bytes of the incomplete line that are in memory."""
        return 0 if self._head else self._size

    def feed(self, data: bytes) -> list[bytes | RemoteProtocolError]:
        """Add a chunk; return the lines that it completes, and an error for each dropped line."""
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
        """End the stream: a last line without a newline counts as complete."""
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
        # one more for a "\r", which does not belong to the line
        if self._size > self._max_line + 1:
            self._head = start_of(b"".join(self._pieces), self._max_line)
            self._pieces.clear()

    def _finish(self, lines: list[bytes | RemoteProtocolError]) -> None:
        if self._head:
            size = self._size - (self._last == b"\r")
            lines.append(too_long("a line", size, self._head, limit=self._max_line))
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
            start = start_of(line, self._max_line)
            lines.append(too_long("a line", len(line), start, limit=self._max_line))
        else:
            lines.append(utf8("a line", line))


def start_of(data: bytes, limit: int) -> bytes:
    """Return the beginning of overlong data, which identifies its message."""
    return data[: min(_START, limit)]


def too_long(what: str, size: int, start: bytes, *, limit: int) -> DroppedLine:
    """Make the error for data over the limit.

    Args:
        what: names the data in the message, such as "a line".
        size: its size in bytes.
        start: its beginning, from `start_of`.
        limit: the limit in bytes.
    """
    return DroppedLine(
        f"{what} of {size} bytes is over this side's limit of {limit} bytes and was dropped",
        size=size,
        start=start,
        complete=False,
    )


def utf8(what: str, line: bytes) -> bytes | RemoteProtocolError:
    """Return the data, or an error if it is not UTF-8; ``what`` names it in the message."""
    if line.isascii():
        return line
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return DroppedLine(
            f"{what} is not UTF-8 ({error.reason} at byte {error.start}) and was dropped",
            size=len(line),
            start=line,
            complete=True,
        )
    return line


def one_line(frame: bytes, *, limit: int) -> bytes:
    """Return a frame as one line, line end included.

    Raises:
        LocalProtocolError: the frame is over the limit or contains a line end.
    """
    if len(frame) > limit:
        raise LocalProtocolError(
            f"a frame of {len(frame)} bytes is over this side's limit of {limit} bytes"
        )
    if b"\n" in frame or b"\r" in frame:
        raise LocalProtocolError("a frame that contains a line end cannot be sent as one line")
    return frame + b"\n"
