"""Serves an aiohttp application on one address, within the limits of `_connection_limits`."""

from __future__ import annotations

import asyncio
import logging
import os
from ssl import SSLContext

from aiohttp import web
from aiohttp.http import HttpProcessingError

from arcp_client._connection_limits import ConnectionTable, LimitedProtocol
from arcp_client._tasks import TaskOwner

__all__ = ["Listener"]

_BACKLOG = 1024
"""Length of the listen queue. The system delays connections beyond it by a second."""


class _Failures(logging.Filter):
    """Drops the log records of malformed requests, which may contain a token."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)


class Listener:
    """Listens on one address for the connections of an application.

    Args:
        app: the application.
        table: counts the connections.
        logger: the logger of aiohttp's protocol.
        ssl: the context for TLS; ``None`` for plain HTTP.
        keepalive: seconds for which an idle connection stays open.
        shutdown: seconds that handlers may take to end.

    Attributes:
        port: the port that it listens on, after `start`.
    """

    def __init__(
        self,
        app: web.Application,
        table: ConnectionTable,
        *,
        logger: logging.Logger,
        ssl: SSLContext | None = None,
        keepalive: float = 75.0,
        shutdown: float = 1.0,
    ) -> None:
        self._app = app
        self._table = table
        self._logger = logger
        self._ssl = ssl
        self._keepalive = keepalive
        self._shutdown = shutdown
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None
        self._tasks = TaskOwner("listener")
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Start the application and listen.

        Raises:
            OSError: the address is in use or cannot be bound.
        """
        if not any(isinstance(each, _Failures) for each in self._logger.filters):
            self._logger.addFilter(_Failures())
        runner = web.AppRunner(
            self._app,
            access_log=None,
            logger=self._logger,
            keepalive_timeout=self._keepalive,
            shutdown_timeout=self._shutdown,
            auto_decompress=False,  # clients of this server send no compressed bodies
        )
        await runner.setup()
        server = runner.server
        assert server is not None

        secure = None if self._ssl is None else self._secure

        def connection() -> LimitedProtocol:
            return LimitedProtocol(self._table, server, secure)

        try:
            self._listening = await asyncio.get_running_loop().create_server(
                connection, host, port, reuse_address=os.name == "posix", backlog=_BACKLOG
            )
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = self._listening.sockets[0].getsockname()[1]

    def _secure(self, transport: asyncio.Transport, protocol: LimitedProtocol) -> None:
        # Not create_server(ssl=…), which reports a connection only after its TLS handshake.
        self._tasks.spawn(self._start_tls(transport, protocol), name="tls")

    async def _start_tls(self, transport: asyncio.Transport, protocol: LimitedProtocol) -> None:
        assert self._ssl is not None
        secured = None
        loop = asyncio.get_running_loop()
        try:
            if transport.is_closing():
                return
            loop.call_soon(protocol.pass_early)  # before start_tls resumes reading
            secured = await loop.start_tls(
                transport,
                protocol,
                self._ssl,
                server_side=True,
                ssl_handshake_timeout=self._table.limits.request_timeout,
            )
            if transport.is_closing():  # uvloop returns although the connection was lost meanwhile
                secured = None
        except (OSError, ValueError) as error:  # SSLError is an OSError
            self._logger.debug("a TLS handshake failed: %s", type(error).__name__)
        finally:
            if secured is None:  # the loop does not call connection_lost
                protocol.connection_lost(None)
                transport.abort()
        if secured is not None:
            protocol.begin(secured)

    async def close(self) -> None:
        """Stop listening, then shut the application down. Idempotent."""
        runner, self._runner = self._runner, None
        if self._listening is not None:
            self._listening.close()
        await self._tasks.close()
        if runner is not None:
            await runner.cleanup()
