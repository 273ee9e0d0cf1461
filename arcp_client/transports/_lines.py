"""Splits chunks of a byte stream into lines."""

from __future__ import annotations

from arcp_client._wire.unreadable import head_of, identify
from arcp_client.errors import LocalProtocolError, RemoteProtocolError

__all__ = [
    "BoundedBytes",
    "DroppedLine",
    "LineSplitter",
    "one_line",
    "start_of",
    "too_long",
    "utf8",
]

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
        # the incomplete line; one more for a "\r", which does not belong to the line
        self._line = BoundedBytes(max_line + 1)
        self._last = b""  # its last byte

    @property
    def held(self) -> int:
        """Bytes of the incomplete line that are in memory."""
        return self._line.size if self._line.whole else 0

    def feed(self, data: bytes) -> list[bytes | RemoteProtocolError]:
        """Add a chunk; return the lines that it completes, and an error for each dropped line."""
        *whole, tail = data.split(b"\n")
        lines: list[bytes | RemoteProtocolError] = []
        if whole and self._line.size:
            self._extend(whole.pop(0))
            self._finish(lines)
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
        if piece:
            self._line.add(piece)
            self._last = piece[-1:]

    def _finish(self, lines: list[bytes | RemoteProtocolError]) -> None:
        whole = self._line.whole
        line, size = self._line.take()
        if whole:
            self._check(line, lines)
        else:
            size -= self._last == b"\r"
            start = start_of(line, self._max_line)
            lines.append(too_long("a line", size, start, limit=self._max_line))

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


class BoundedBytes:
    """Collects bytes up to a limit; of more bytes, keeps the beginning and the number.

    Attributes:
        size: how many bytes arrived.
        whole: whether all of them are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()  # not a list: many small pieces would take far more memory
        self.size = 0
        self.whole = True

    def add(self, piece: bytes, size: int | None = None) -> None:
        """Append a piece, of which ``size`` bytes arrived, if these were more."""
        self.size += len(piece) if size is None else size
        if self.whole:
            self._data += piece
            self.whole = self.size <= self._limit
            if not self.whole:
                self._data = bytearray(start_of(bytes(self._data), self._limit))

    def take(self) -> tuple[bytes, int]:
        """Return the bytes and how many arrived, and begin again."""
        data, size = bytes(self._data), self.size
        self._data.clear()
        self.size, self.whole = 0, True
        return data, size


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
