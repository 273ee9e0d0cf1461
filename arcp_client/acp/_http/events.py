"""Splits a stream of server-sent events into messages.

The format is that of the HTML standard, "Server-sent events". Each event holds one message; names
of events and comments are skipped.
"""

from __future__ import annotations

import re

from arcp_client.errors import RemoteProtocolError
from arcp_client.transports._lines import BoundedBytes, too_long, utf8

__all__ = ["EventSplitter"]

_LINE_END = re.compile(rb"\r\n?|\n")
_BOM = b"\xef\xbb\xbf"
_NAME = 64  # room for the name of a field, beside its value
_LONGEST_ID = 1024
_LONGEST_PAUSE = 10.0


class EventSplitter:
    """The messages of one stream, which may arrive in pieces of any size.

    An event over the limit is dropped up to its end, so that no part of it is read as a message.

    Args:
        max_event: the largest data of an event, in bytes.

    Attributes:
        last_id: the id of the last message, after which a server can continue the stream; empty if
            that message has no id that fits a header.
        retry: seconds to wait before the stream is opened again, if the server has set them.
    """

    def __init__(self, max_event: int) -> None:
        self._max = max_event
        self.last_id = ""
        self.retry: float | None = None
        self._after_cr = False  # the next "\n" belongs to a line end that has been seen
        self._first = True  # the next line may begin with a byte order mark
        self._line = BoundedBytes(max_event + _NAME)
        self._event = BoundedBytes(max_event)
        self._has_data = False
        self._id: str | None = None

    @property
    def partial(self) -> bool:
        """Whether a part of an event has arrived, and its end has not."""
        return bool(self._line.size or self._has_data)

    def feed(self, data: bytes) -> list[bytes | RemoteProtocolError]:
        """Add a chunk; return the messages that it completes, and an error for each dropped one."""
        if not data:
            return []
        ends_with_cr = data.endswith(b"\r")
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = ends_with_cr
        messages: list[bytes | RemoteProtocolError] = []
        *lines, rest = _LINE_END.split(data)
        for line in lines:
            self._line.add(line)
            self._end_line(messages)
        self._line.add(rest)
        return messages

    def restart(self) -> None:
        """Drop the incomplete event, because the stream is opened again."""
        self._after_cr, self._first, self._has_data, self._id = False, True, False, None
        self._line.take()
        self._event.take()

    def _end_line(self, messages: list[bytes | RemoteProtocolError]) -> None:
        whole = self._line.whole
        line, size = self._line.take()
        if self._first:
            self._first = False
            if line.startswith(_BOM):
                line, size = line[len(_BOM) :], size - len(_BOM)
        if not line:
            self._end_event(messages)
            return
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._event.add(b"\n" if self._has_data else b"")
            self._event.add(value, size - (len(line) - len(value)))
            self._has_data = True
        elif whole and name == b"id":
            self._id = _usable_id(value)
        elif whole and name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = min(int(value) / 1000, _LONGEST_PAUSE)

    def _end_event(self, messages: list[bytes | RemoteProtocolError]) -> None:
        has_data, self._has_data = self._has_data, False
        id_, self._id = self._id, None
        if not has_data:
            if id_ is not None:
                self.last_id = id_
            return
        self.last_id = id_ or ""
        whole = self._event.whole
        data, size = self._event.take()
        if not whole:
            messages.append(too_long("an event", size, data, limit=self._max))
        elif data and not data.isspace():
            messages.append(utf8("an event", data))


def _usable_id(value: bytes) -> str:
    """Return an id as text; empty if it does not fit a header of HTTP."""
    text = value.decode(errors="replace")
    return text if len(text) <= _LONGEST_ID and text.isascii() and text.isprintable() else ""
