"""`FaultyProxy`: a TCP proxy that injects the faults of networks.

The proxy forwards between a client and a server on one machine. It can cut, reset, block, slow down
and refuse their connections.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from arcp_client._tasks import TaskOwner
from arcp_client.testing._pump import Direction, ProxiedLink, ProxyFaults, Stream

__all__ = ["Fault", "FaultyProxy", "port_of"]

_PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}
_BACKLOG = 128


class Fault:
    """A lasting fault, as a context manager for ``with`` and ``async with``."""

    def __init__(self, steps: Generator[None, None, None]) -> None:
        self._steps = steps

    def __enter__(self) -> Self:
        next(self._steps)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        next(self._steps, None)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)


class FaultyProxy:
    """A TCP proxy on the loopback interface whose connections fail on demand.

    ::

        async with FaultyProxy("ws://127.0.0.1:7777/arcp") as proxy:
            client = Client(proxy.url)
            ...
            proxy.cut()                      # the connection ends without a goodbye
            with proxy.stall():              # connected, but nothing moves
                ...

    The data in transit in each direction is bounded (about 256 KiB), so a peer that does not read
    still blocks the other one. "down" is from the server to the client, "up" the opposite.

    Args:
        target: host of the server, or its URL; then ``port`` is not needed.
        port: port of the server.

    Attributes:
        connections: number of accepted connections so far.
        bytes_up: bytes forwarded from client to server so far.
        bytes_down: bytes forwarded from server to client so far.
        cuts: number of connections cut or reset so far.
    """

    def __init__(self, target: str, port: int | None = None) -> None:
        self._target_url = target if "://" in target else None
        if self._target_url is not None:
            self._target_host = urlsplit(target).hostname or "127.0.0.1"
            self._target_port = port_of(target)
        elif port is None:
            raise TypeError("FaultyProxy needs a URL, or a host and a port")
        else:
            self._target_host, self._target_port = target, port
        self._faults = ProxyFaults(on_forward=self._on_forward, on_cut=self._on_cut)
        self._tasks = TaskOwner("proxy")
        self._links: set[ProxiedLink] = set()
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._answers = True
        self._armed: deque[tuple[Direction, int]] = deque()
        self._watchers: set[asyncio.Future[None]] = set()
        self.host = "127.0.0.1"
        self.port = 0
        self.connections = 0
        self.bytes_up = 0
        self.bytes_down = 0
        self.cuts = 0

    @classmethod
    def for_url(cls, url: str) -> Self:
        """Make a proxy for the server of a URL; `url` then has the same path."""
        return cls(url)

    @property
    def url(self) -> str:
        """The URL for clients: the target's URL with the proxy's host and port.

        If a host was given instead of a URL, the path is ``/arcp``.
        """
        if self._target_url is None:
            return f"ws://{self.host}:{self.port}/arcp"
        parts = urlsplit(self._target_url)
        return urlunsplit(parts._replace(netloc=f"{self.host}:{self.port}"))

    @property
    def open_connections(self) -> int:
        """Number of accepted connections that are open, also to a server not reached yet."""
        return len(self._links)

    async def __aenter__(self) -> Self:
        self._bind()
        self._listen()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._socket is not None:
            self._socket.close()
        await self._tasks.close()
        for link in self._links:
            link.drop()

    # ------------------------------------------------------------------ faults that happen at once

    def cut(self) -> asyncio.Task[None]:
        """End all connections now, like a failing router: no goodbye, no reset.

        This includes accepted connections that the server has not accepted yet. Without a
        connection nothing is cut, and ``cuts`` stays the same.

        Bytes that were already forwarded still arrive.

        Returns:
            A task that ends when both sides are closed. It need not be awaited.
        """
        return self._end([link.cut() for link in self._links])

    def cut_after(self, nbytes: int, *, direction: Direction = "down") -> None:
        """Cut a connection after ``nbytes`` further bytes in that direction.

        Exactly this many bytes arrive. If it is called several times, each call counts from the cut
        of the previous one, so that each connection of a client can have a length of its own.
        """
        if nbytes < 0:
            raise ValueError("nbytes must not be negative")
        self._armed.append((direction, nbytes))
        self._arm()

    def reset(self) -> asyncio.Task[None]:
        """End all connections now with a TCP reset; data in transit may be lost.

        Returns:
            A task that ends when both sides are closed. It need not be awaited.
        """
        return self._end([link.reset() for link in self._links])

    # ------------------------------------------------------------------ faults that last

    def stall(self) -> Fault:
        """Block both directions; connections stay open and continue afterwards."""
        return self._hold("up", "down")

    def half_open(self, direction: Direction) -> Fault:
        """Block one direction, like a NAT that lost half of a connection."""
        return self._hold(direction)

    def delay(self, seconds: float) -> Fault:
        """Delay all data by a time, in order."""

        def steps() -> Generator[None, None, None]:
            before, self._faults.delay = self._faults.delay, seconds
            yield
            self._faults.delay = before

        return Fault(steps())

    def throttle(self, bytes_per_second: float) -> Fault:
        """Limit the bytes per second in each direction of a connection."""

        def steps() -> Generator[None, None, None]:
            before, self._faults.rate = self._faults.rate, bytes_per_second
            yield
            self._faults.rate = before

        return Fault(steps())

    def refuse(self) -> Fault:
        """Refuse new connections, like a server that is down. Open ones continue."""

        def steps() -> Generator[None, None, None]:
            self._unlisten()
            # a bound socket that does not listen refuses connections and keeps the port
            self._bind()
            yield
            self._listen()

        return Fault(steps())

    def silent_accept(self) -> Fault:
        """Accept new connections without ever answering them, even after the block."""

        def steps() -> Generator[None, None, None]:
            self._answers = False
            yield
            self._answers = True

        return Fault(steps())

    async def until(self, condition: Callable[[FaultyProxy], bool]) -> None:
        """Wait until a condition over the counters holds: ``until(lambda p: p.cuts == 2)``."""
        while not condition(self):
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.add(watcher)
            try:
                await watcher
            finally:
                self._watchers.discard(watcher)

    # ------------------------------------------------------------------ inside

    def _changed(self) -> None:
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)

    def _on_forward(self, direction: Direction, size: int) -> None:
        if direction == "up":
            self.bytes_up += size
        else:
            self.bytes_down += size
        self._changed()

    def _hold(self, *directions: Direction) -> Fault:
        def steps() -> Generator[None, None, None]:
            for direction in directions:
                self._faults.hold(direction)
            yield
            for direction in directions:
                self._faults.release(direction)

        return Fault(steps())

    def _arm(self) -> None:
        if self._armed and self._faults.cut_after is None:
            direction, nbytes = self._armed.popleft()
            self._faults.set_cut(direction, nbytes)

    def _bind(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setblocking(False)
        self._socket.bind((self.host, self.port))
        self.port = self._socket.getsockname()[1]

    def _listen(self) -> None:
        if self._socket is not None:
            self._socket.listen(_BACKLOG)
            self._accepting = self._tasks.spawn(self._accept(self._socket), name="accept")

    def _unlisten(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(listening)
            self.connections += 1
            link = ProxiedLink(self._faults, accepted, self._upstream if self._answers else _never)
            self._links.add(link)
            self._tasks.spawn(self._serve(link), name=f"connection {self.connections}")
            self._changed()

    async def _serve(self, link: ProxiedLink) -> None:
        try:
            await link.run()
        finally:
            self._links.discard(link)
            self._changed()

    async def _upstream(self) -> Stream:
        return await asyncio.open_connection(self._target_host, self._target_port)

    def _end(self, closed: list[asyncio.Future[None]]) -> asyncio.Task[None]:
        self.cuts += len(closed)
        self._changed()

        async def wait() -> None:
            if closed:
                await asyncio.wait(closed)

        return self._tasks.spawn(wait(), name="cut")

    def _on_cut(self) -> None:
        self.cuts += 1
        self._arm()
        self._changed()


async def _never() -> Stream:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def port_of(url: str) -> int:
    """Return the port of a URL, or the default port of its scheme."""
    parts = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme)
    if port is None:
        raise ValueError(f"no port in {parts.scheme}://{parts.hostname}")
    return port
