"""Reads one event stream, and opens it again if no message can have been lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from arcp_client._deadline import Deadline
from arcp_client.acp._http.events import EventSplitter
from arcp_client.acp._http.exchange import FAILURES, HttpResponse
from arcp_client.acp._http.requests import StatusError, reason_of
from arcp_client.acp._http.statuses import ENDED, NEW_CLIENT, refusal
from arcp_client.errors import LinkLost, RemoteProtocolError

__all__ = ["AgentStream"]

_REOPENING = 30.0  # seconds for all attempts to open a broken stream again
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0

Open: TypeAlias = Callable[[str | None, str, float], Awaitable[HttpResponse]]
Take: TypeAlias = "Callable[[Iterable[bytes | RemoteProtocolError], str | None], None]"


class AgentStream:
    """The stream of one session, or of the connection.

    Args:
        session: the session; None for the stream of the connection.
        peer: the name of the server, for messages.
        open_: opens the stream, after an event id if it is not empty, within some seconds.
        open_timeout: the seconds.
        take: gets the messages of each chunk.
        flowing: set while chunks may be read.
        max_event: the largest message, in bytes.

    Attributes:
        ready: done once the stream is open for the first time, or with the reason why it is not.
        progress: a number that grows while messages arrive.
    """

    def __init__(
        self,
        session: str | None,
        *,
        peer: str,
        open_: Open,
        open_timeout: float,
        take: Take,
        flowing: asyncio.Event,
        max_event: int,
    ) -> None:
        self.session = session
        self._name = "the connection" if session is None else f"session {session:.60}"
        self._peer = peer
        self._open = open_
        self._open_timeout = open_timeout
        self._take = take
        self._flowing = flowing
        self._splitter = EventSplitter(max_event)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.progress = 0

    async def run(self) -> LinkLost | None:
        """Read until no further message can arrive.

        Returns:
            The reason; None if the stream could not be opened at first, which `ready` reports.
        """
        try:
            response = await self._open(self.session, "", self._open_timeout)
        except (StatusError, *FAILURES) as error:
            self._not_ready(error)
            return None
        self.ready.set_result(None)
        pause = 0.0
        while True:
            before = self.progress
            try:
                broken = await self._read(response)
            finally:
                response.close()
            if broken and not self._splitter.last_id:
                return self._lost(f"broke ({broken}), so messages may be missing")
            self._splitter.restart()
            if self.progress > before:
                pause = 0.0
            found = await self._again(self._splitter.retry or pause)
            if isinstance(found, LinkLost):
                return found
            response, pause = found, _longer(pause)

    def abandon(self) -> None:
        """Tell those who wait for `ready` that the stream will not be opened."""
        if not self.ready.done():
            self._not_ready(ConnectionAbortedError("the stream was closed by this side"))

    def _not_ready(self, error: BaseException) -> None:
        self.ready.set_exception(error)
        self.ready.exception()  # mark as retrieved: the next message opens the stream again

    async def _read(self, response: HttpResponse) -> str:
        """Read one answer; return why it broke, or nothing if it ended properly."""
        try:
            while True:
                await self._flowing.wait()
                data = await response.read()
                if not data:
                    break
                messages = self._splitter.feed(data)
                self.progress += bool(messages or self._splitter.partial)
                self._take(messages, self.session)
        except FAILURES as error:
            return reason_of(error, timeout=0)
        if self._splitter.partial:
            return "it ended inside an event"
        if not response.delimited:
            return "the server closed the connection"
        return ""

    async def _again(self, pause: float) -> HttpResponse | LinkLost:
        deadline = Deadline(_REOPENING)
        while True:
            await asyncio.sleep(deadline.share(pause))
            try:
                last_id = self._splitter.last_id
                return await self._open(self.session, last_id, self._open_timeout)
            except StatusError as error:
                # 409: the server has not noticed yet that the last stream has ended.
                problem = refusal(error, self._peer)
                if error.status in ENDED:
                    return self._lost(f"ended, and cannot be opened again: {problem}")
            except FAILURES as error:
                problem = reason_of(error, timeout=self._open_timeout)
            pause = _longer(pause)
            if not deadline.left:
                return self._lost(f"could not be opened again within {_REOPENING:g} s: {problem}")

    def _lost(self, what: str) -> LinkLost:
        return LinkLost(f"the event stream of {self._name} from {self._peer} {what}; {NEW_CLIENT}")


def _longer(pause: float) -> float:
    return min(pause * 2, _LONGEST_PAUSE) or _FIRST_PAUSE
