"""Holds answers until the earlier messages of their sessions have arrived over other streams.

The npm SDK's server answers ``session/load`` over the stream of the connection, and sends the
history over the stream of the session. For each such answer, a request is sent that the agent
answers over the stream of the session, after the history.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from arcp_client._tasks import TaskOwner
from arcp_client.acp._http.routes import MessageRoutes
from arcp_client.acp.errors import HttpRefused
from arcp_client.errors import LinkLost, LocalProtocolError

__all__ = ["HeldAnswers"]

_log = logging.getLogger("arcp_client.acp")

_QUIET = 5.0  # seconds without a message of the session after which its answer waits no longer


class HeldAnswers:
    """The held answers of one link.

    Args:
        owner: owns the tasks that send the requests.
        send: sends a message.
        progress: a number that changes while messages of a session arrive, or could not be read.
        put: hands on an answer that waited too long.
    """

    def __init__(
        self,
        owner: TaskOwner,
        *,
        send: Callable[[bytes], Awaitable[None]],
        progress: Callable[[str], object],
        put: Callable[[list[bytes]], None],
    ) -> None:
        self._owner = owner
        self._send = send
        self._progress = progress
        self._put = put
        self._held: dict[str, tuple[bytes, asyncio.Event]] = {}

    def hold(self, line: bytes, session: str, routes: MessageRoutes) -> None:
        """Hold an answer until `release` is called for the request that is now sent."""
        key, message = routes.order(session)
        self._held[key] = (line, asyncio.Event())
        self._owner.spawn(self._wait(key, message, session), name="order")

    def release(self, key: str) -> list[bytes]:
        """Return the answer that waits for a request, if there is one."""
        line, released = self._held.pop(key, (None, None))
        if line is None or released is None:
            return []
        released.set()
        return [line]

    def clear(self) -> None:
        """Drop everything, because the connection has ended."""
        self._held.clear()

    async def _wait(self, key: str, message: bytes, session: str) -> None:
        why = "the agent did not answer the request that orders the streams"
        try:
            await self._send(message)
            while key in self._held:
                before = self._progress(session)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_QUIET):
                        await self._held[key][1].wait()
                if self._progress(session) == before:
                    break
        except LinkLost:
            return
        except (HttpRefused, LocalProtocolError) as error:
            why = str(error)
        released = self.release(key)
        if released:
            _log.warning("an answer may precede earlier updates of its session: %s", why)
            self._put(released)
