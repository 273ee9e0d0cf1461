"""Connects one HTTP request of an ASGI server with aiohttp's protocol.

aiohttp handles the routes of the dashboard under an ASGI server, too. This module presents each
request of an ASGI server to aiohttp as a connection of its own: it passes the bytes of the request
to aiohttp, and reads the bytes of the response. So each limit, time-out and security header of the
routes applies unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote

from arcp_client._asgi import AsgiPeer, Message, Receive, Scope, Send

__all__ = ["AsgiConnection", "request_head"]

_HIGH = 64 * 1024
"""Number of unsent bytes at which aiohttp waits."""
_OWN = frozenset(
    b"connection expect keep-alive proxy-connection te trailer transfer-encoding upgrade".split()
)
"""Headers that concern only the connection between the ASGI server and its client."""
_DROPPED = _OWN | {b"date", b"server"}


def request_head(scope: Scope) -> bytes | None:
    """The request line and the headers of a request; ``None`` if they cannot be those of HTTP."""
    root = str(scope.get("root_path") or "").rstrip("/")
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw else quote(scope["path"])
    for prefix in (quote(root), root):
        if root and (path == prefix or path.startswith(f"{prefix}/")):
            path = path[len(prefix) :]
            break
    target = path.encode("latin-1", "replace") or b"/"
    if scope.get("query_string"):
        target += b"?" + scope["query_string"]
    lines = [b"%b %b HTTP/1.1" % (scope["method"].encode("ascii", "replace"), target)]
    sized = False
    for name, value in scope["headers"]:
        if name.lower() not in _OWN:
            sized = sized or name.lower() == b"content-length"
            lines.append(b"%b: %b" % (name, value))
    lines.append(b"connection: close")
    if not sized and scope["method"] not in ("GET", "HEAD"):
        lines.append(b"transfer-encoding: chunked")
    if b" " in target or any(mark in line for line in lines for mark in (b"\r", b"\n", b"\0")):
        return None
    return b"\r\n".join(lines) + b"\r\n\r\n"


class AsgiConnection(asyncio.Transport):
    """The connection of one request, as a transport for aiohttp's protocol.

    Args:
        scope: the scope of the request.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self._peer = AsgiPeer(scope)
        self._protocol: asyncio.Protocol = asyncio.Protocol()
        self._response = _Response(body=scope["method"] != "HEAD")
        self._unsent = bytearray()
        self._sending = 0
        self._wake = asyncio.Event()
        self._readable = asyncio.Event()
        self._readable.set()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._paused = False
        self._closing = False

    # ------------------------------------------------------------------ between the two servers

    async def over(self) -> None:
        """Wait until the connection was aborted or its client has disconnected."""
        await asyncio.wait({self._over})

    async def pump(self, receive: Receive, *, chunked: bool) -> None:
        """Pass the body of the request to aiohttp, then wait until the client disconnects."""
        more = True
        while True:
            await self._readable.wait()
            message = await receive()
            if message["type"] == "http.disconnect":
                self.abort()
                return
            data, last = message.get("body", b""), not message.get("more_body", False)
            if not more:
                continue
            more = not last
            if chunked:
                data = (b"%x\r\n%b\r\n" % (len(data), data) if data else b"") + (
                    b"0\r\n\r\n" if last else b""
                )
            if data:
                self._protocol.data_received(data)

    async def reply(self, send: Send) -> None:
        """Pass the response to the ASGI server; returns when it is complete."""
        try:
            while not self._response.complete:
                await self._wake.wait()
                self._wake.clear()
                data, self._unsent = bytes(self._unsent), bytearray()
                self._sending = len(data)
                for message in self._response.take(data):
                    await send(message)
                self._sending = 0
                if self._paused and not self.is_closing():
                    self._paused = False
                    self._protocol.resume_writing()
                if self._closing and not self._unsent:
                    return  # without the end of the body if it is missing
        except OSError:  # the client has disconnected
            self.abort()

    # ------------------------------------------------------------------ called by aiohttp

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Information on the connection, from the scope."""
        return self._peer.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol of the connection."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol of the connection."""
        self._protocol = cast(asyncio.Protocol, protocol)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Pass bytes of the response on, at once or when the ASGI server has taken earlier ones."""
        if self.is_closing():
            return
        self._unsent += data
        self._wake.set()
        if not self._paused and self.get_write_buffer_size() > _HIGH:
            self._paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """The bytes that the ASGI server has not taken yet."""
        return len(self._unsent) + self._sending

    def pause_reading(self) -> None:
        """Stop asking for the body of the request."""
        self._readable.clear()

    def resume_reading(self) -> None:
        """Ask for the body of the request again."""
        self._readable.set()

    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self._closing or self._over.done()

    def close(self) -> None:
        """End the response after the bytes that are written."""
        self._closing = True
        self._wake.set()

    def abort(self) -> None:
        """End the response at once."""
        self._closing = True
        if not self._over.done():
            self._over.set_result(None)


class _Response:
    """Reads a response of aiohttp, and makes the messages of ASGI from it.

    Args:
        body: whether the response has a body; one to HEAD has none.

    Attributes:
        complete: whether the end of the response was read.
    """

    def __init__(self, *, body: bool) -> None:
        self._body = body
        self._rest = b""
        self._begun = False
        self._chunked = False
        self._left: int | None = None
        self.complete = False

    def take(self, data: bytes) -> Iterator[Message]:
        """The messages for the next bytes."""
        self._rest += data
        if not self._begun:
            head, end, rest = self._rest.partition(b"\r\n\r\n")
            if not end:
                return
            self._begun, self._rest = True, rest
            yield self._start(head)
        pieces = b"".join(self._chunks()) if self._chunked else self._plain()
        if pieces or self.complete:
            yield {
                "type": "http.response.body",
                "body": pieces,
                "more_body": not self.complete,
            }

    def _start(self, head: bytes) -> Message:
        status, *lines = head.split(b"\r\n")
        headers = []
        for line in lines:
            name, _, value = line.partition(b":")
            name, value = name.lower(), value.strip()
            if name == b"content-length":
                self._left = int(value)
            elif name == b"transfer-encoding":
                self._chunked = self._body
            if name not in _DROPPED:
                headers.append((name, value))
        code = int(status.split(b" ", 2)[1])
        if not self._body or code in (204, 304):
            self._chunked, self._left = False, 0
        return {"type": "http.response.start", "status": code, "headers": headers}

    def _plain(self) -> bytes:
        body, self._rest = self._rest, b""
        if self._left is not None:
            body = body[: self._left]
            self._left -= len(body)
            self.complete = not self._left
        return body

    def _chunks(self) -> Iterator[bytes]:
        while not self.complete:
            head, end, rest = self._rest.partition(b"\r\n")
            size = int(head, 16) if end else 0
            if not end or len(rest) < size + 2:
                return
            self._rest = rest[size + 2 :]
            self.complete = not size
            yield rest[:size]
