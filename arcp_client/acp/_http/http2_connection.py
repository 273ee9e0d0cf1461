"""One connection of HTTP/2: requests side by side, each with a window of its own.

h2 keeps the rules of the protocol. One task reads, always: it answers pings and settings while
bodies wait to be read. A body that is not read holds at most its window, and holds up no other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from arcp_client.acp._http.dialing import Pipe
from arcp_client.acp._http.exchange import HttpFailed
from arcp_client.acp._http.http2_frames import GoAway, Http1Answer, split_frames

__all__ = ["Http2Connection", "Http2Response"]

_WINDOW = 256 * 1024  # bytes of a body that may wait to be read
_WHOLE_WINDOW = 2**30  # of all bodies together: no limit, so that none holds up the others
_HEADERS = 64 * 1024  # bytes of the headers of a response
_CHUNK = 64 * 1024
_UNSENT = 1024 * 1024  # bytes: only answers to pings and the like can pile up so high
_CLOSED = "the server closed the connection"


class Http2Connection:
    """A connection whose server has agreed to HTTP/2, or is known to speak it.

    Args:
        pipe: the connection of TCP or TLS; closed with this object.
    """

    def __init__(self, pipe: Pipe) -> None:
        self._reader, self._writer = pipe
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
                SettingCodes.MAX_HEADER_LIST_SIZE: _HEADERS,
            },
        )
        # Some servers refuse settings that are newer than HTTP/2.
        del self._h2.local_settings[SettingCodes.ENABLE_CONNECT_PROTOCOL]
        self._h2.decoder.max_header_list_size = _HEADERS
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WHOLE_WINDOW)
        self._flush()
        self._streams: dict[int, Http2Response] = {}
        self._windows = asyncio.Event()  # set for a moment when the server takes more bytes
        self._draining = False  # the server takes no further requests
        self._lost: HttpFailed | None = None

    @property
    def lost(self) -> bool:
        """Whether the connection has ended."""
        return self._lost is not None

    @property
    def has_room(self) -> bool:
        """Whether the server takes a further request now."""
        limit: int = self._h2.remote_settings.max_concurrent_streams
        return self._lost is None and not self._draining and len(self._streams) < limit

    async def request(
        self, headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> Http2Response:
        """Send a request, and wait for the head of its response.

        Raises:
            HttpFailed: there was none.
        """
        if self._lost is not None:
            raise HttpFailed(self._lost.reason, unprocessed=True)
        response = self._begin(headers, ends=not body)
        try:
            if body:
                await self._send(response, body)
            await response.head()
        except ProtocolError as error:
            response.close()
            raise HttpFailed(f"the request broke off ({type(error).__name__})") from None
        except BaseException:
            response.close()
            raise
        return response

    async def run(self) -> None:
        """Read until the connection ends."""
        reason = "it was closed by this side"
        try:
            reason = await self._read()
        except Http1Answer:
            reason = "the server answers in HTTP/1.1; do not pass http2=True"
            self._end(HttpFailed(reason, permanent=True))
        except (ProtocolError, ValueError) as error:
            reason = f"the server broke a rule of HTTP/2 ({type(error).__name__})"
            self._flush()  # h2 has prepared what the server is told
        except OSError:
            reason = _CLOSED
        finally:
            self._end(HttpFailed(reason))

    def close(self) -> None:
        """Close the connection; open requests fail."""
        if self._lost is None:
            with contextlib.suppress(ProtocolError):
                self._h2.close_connection()
                self._flush()
        self._end(HttpFailed("it was closed by this side"))

    # ------------------------------------------------------------------ what responses use

    def acknowledge(self, number: int, size: int) -> None:
        """Let the server send ``size`` more bytes of a body."""
        if self._lost is None and size:
            with contextlib.suppress(ProtocolError):
                self._h2.acknowledge_received_data(size, number)
                self._flush()

    def drop(self, number: int, *, over: bool) -> None:
        """Forget a request; tell the server if it is not over."""
        if self._streams.pop(number, None) is None or self._lost is not None:
            return
        if not over:
            with contextlib.suppress(ProtocolError):  # it was over already
                self._h2.reset_stream(number, ErrorCodes.CANCEL)
                self._flush()
        if self._draining:
            self._retire()

    # ------------------------------------------------------------------ sending

    def _begin(self, headers: Sequence[tuple[str, str]], *, ends: bool) -> Http2Response:
        try:
            number = self._h2.get_next_available_stream_id()
            self._h2.send_headers(number, headers, end_stream=ends)
        except ProtocolError as error:
            self._retire()  # all numbers of requests are used, for example
            reason = f"the request does not fit HTTP/2 ({type(error).__name__})"
            raise HttpFailed(reason, unprocessed=True) from None
        self._flush()
        response = self._streams[number] = Http2Response(self, number)
        return response

    async def _send(self, response: Http2Response, body: bytes) -> None:
        """Send a body, unless the server refuses it or fails before it is sent."""
        rest = memoryview(body)
        while rest and not response.over and response.status < 300:
            window = self._h2.local_flow_control_window(response.number)
            size = min(window, self._h2.max_outbound_frame_size, len(rest))
            if size <= 0:
                await self._windows.wait()
                continue
            ends = size == len(rest)
            self._h2.send_data(response.number, bytes(rest[:size]), end_stream=ends)
            self._flush()
            rest = rest[size:]
            with contextlib.suppress(OSError):  # the task that reads says why
                await self._writer.drain()
        response.sent = not rest

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data:
            self._writer.write(data)

    # ------------------------------------------------------------------ receiving

    async def _read(self) -> str:
        """Read; return why nothing more comes."""
        buffer, first = bytearray(), True
        while data := await self._reader.read(_CHUNK):
            buffer += data
            for found in split_frames(buffer, first=first):
                if isinstance(found, GoAway):
                    self._go_away(found)
                    if found.code != ErrorCodes.NO_ERROR:
                        return f"the server ended the connection ({_name(found.code)})"
                    continue
                for event in self._h2.receive_data(found):
                    self._take(event)
                self._flush()
                first = False
            if self._writer.transport.get_write_buffer_size() > _UNSENT:
                return "the server sends pings or settings faster than it reads the answers"
        return _CLOSED

    def _take(self, event: Event) -> None:
        match event:
            case RemoteSettingsChanged() | WindowUpdated():
                self._pulse()
                return
            case ResponseReceived() | DataReceived() | StreamEnded() | StreamReset():
                pass
            case _:
                return
        response = self._streams.get(event.stream_id)
        if response is None:
            return
        match event:
            case ResponseReceived():
                response.begin(event.headers or [])
                self._pulse()
            case DataReceived():
                data = event.data or b""
                response.feed(data)
                self.acknowledge(response.number, (event.flow_controlled_length or 0) - len(data))
            case StreamEnded():
                response.end(None)
                self._pulse()
            case StreamReset():
                unprocessed = event.error_code == ErrorCodes.REFUSED_STREAM
                reason = f"the server ended the answer ({_name(event.error_code)})"
                response.end(HttpFailed(reason, unprocessed=unprocessed))
                self._pulse()

    def _go_away(self, said: GoAway) -> None:
        reason = f"the server ended the connection ({_name(said.code)})"
        for number, response in list(self._streams.items()):
            if number > said.last:
                response.end(HttpFailed(reason, unprocessed=True))
        self._pulse()
        self._retire()

    def _retire(self) -> None:
        """Send no further requests; close when the open ones are over."""
        self._draining = True
        if not self._streams:
            self.close()

    def _pulse(self) -> None:
        self._windows.set()
        self._windows.clear()

    def _end(self, error: HttpFailed) -> None:
        if self._lost is not None:
            return
        self._lost = error
        for response in self._streams.values():
            response.end(error)
        self._streams.clear()
        self._pulse()
        self._writer.transport.abort()


class Http2Response:
    """A response, from its request on.

    Args:
        connection: its connection.
        number: of the stream.
    """

    delimited: Final = True

    def __init__(self, connection: Http2Connection, number: int) -> None:
        self.number = number
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.cookies: list[str] = []
        self.sent = True  # as a request without a body is
        self.over = False
        self._connection = connection
        self._body = bytearray()
        self._failed: HttpFailed | None = None
        self._news = asyncio.Event()

    async def head(self) -> None:
        """Wait for status and headers.

        Raises:
            HttpFailed: there are none.
        """
        while not self.status:
            self._check()
            await self._wait()

    async def read(self) -> bytes:
        """Return the next bytes of the body; nothing at its end."""
        while not self._body:
            self._check()
            if self.over:
                return b""
            await self._wait()
        data = bytes(self._body)
        self._body.clear()
        self._connection.acknowledge(self.number, len(data))
        return data

    def close(self) -> None:
        """Close the response; the server stops sending it."""
        self._connection.acknowledge(self.number, len(self._body))
        self._body.clear()
        self._connection.drop(self.number, over=self.over and self.sent)

    # ------------------------------------------------------------------ what the connection tells

    def begin(self, headers: Iterable[tuple[Any, Any]]) -> None:
        """Take the head.

        Raises:
            ValueError: the status does not have three digits.
        """
        found: dict[str, str] = {}
        for raw_name, raw_value in headers:
            name, value = _text(raw_name), _text(raw_value)
            if name == ":status":
                if not (len(value) == 3 and value.isascii() and value.isdigit()):
                    raise ValueError("a status")
                self.status = int(value)
            elif name == "set-cookie":
                self.cookies.append(value)
            found.setdefault(name, value)
        self.headers = found
        self._news.set()

    def feed(self, data: bytes) -> None:
        """Take bytes of the body."""
        self._body += data
        self._news.set()

    def end(self, failed: HttpFailed | None) -> None:
        """Take the end. What arrived before can still be read."""
        if not self.over:
            self.over, self._failed = True, failed
            self._news.set()

    def _check(self) -> None:
        if self._failed is not None:
            error = self._failed
            raise HttpFailed(error.reason, permanent=error.permanent, unprocessed=error.unprocessed)

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()


def _name(code: int | ErrorCodes | None) -> str:
    try:
        return ErrorCodes(code or 0).name
    except ValueError:
        return f"error {code}"


def _text(raw: bytes | str) -> str:
    return raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")
