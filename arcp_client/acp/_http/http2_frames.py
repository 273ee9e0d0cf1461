"""Splits the bytes of an HTTP/2 server into frames, and takes GOAWAY out.

h2 accepts nothing after a GOAWAY, but a server that restarts says it first and then finishes the
requests that it has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["GoAway", "Http1Answer", "split_frames"]

_HEADER = 9
_LARGEST = 16_384  # bytes of a frame's payload, as this side has not allowed more
_GOAWAY = 7


class GoAway(NamedTuple):
    """The server takes no further requests on the connection.

    Attributes:
        last: requests with larger numbers have not been processed.
        code: why; 0 if nothing is wrong.
    """

    last: int
    code: int


class Http1Answer(Exception):
    """The server speaks HTTP/1."""


def split_frames(buffer: bytearray, *, first: bool) -> Iterator[bytes | GoAway]:
    """Take the whole frames out of a buffer, and leave the rest in it: less than one frame.

    A frame that is too large comes in parts, for h2 to refuse.

    Args:
        buffer: what has been received and not taken.
        first: whether these are the first bytes of the connection.

    Raises:
        Http1Answer: the first bytes begin an answer of HTTP/1.
    """
    if first and buffer.startswith(b"HTTP/"):
        raise Http1Answer
    while len(buffer) >= _HEADER:
        size = int.from_bytes(buffer[:3], "big")
        end = len(buffer) if size > _LARGEST else _HEADER + size
        if end > len(buffer):
            return
        frame = bytes(buffer[:end])
        del buffer[:end]
        if frame[3] == _GOAWAY and size >= 8:
            last, code = struct.unpack_from("!II", frame, _HEADER)
            yield GoAway(last & 0x7FFF_FFFF, code)
        else:
            yield frame
