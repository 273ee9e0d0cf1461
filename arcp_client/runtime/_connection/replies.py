"""Keeps the replies to the requests of one connection in the order of the requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from arcp_client._tasks import pass_on
from arcp_client._wire.codec import ControlFrame
from arcp_client.errors import RequestError

__all__ = ["Replies", "RequestLine", "reply_later"]

T = TypeVar("T")


class RequestLine(Protocol):
    """The connection that a request arrived on.

    Attributes:
        unanswered: requests that were handled and whose answer waits for the event log.
    """

    unanswered: int

    def control(self, frame: bytes) -> None: ...

    def in_turn(self, frame: bytes) -> None: ...

    def refuse(self, frame: ControlFrame, error: BaseException) -> None: ...

    def finish(self, frame: bytes | None = None) -> None: ...


class Replies:
    """Sends replies at once, or when what they confirm is stored.

    Args:
        then: calls its first argument once all changes so far are stored, or its second one if
            they cannot be stored, in the order of such calls.
    """

    def __init__(
        self, then: Callable[[Callable[[], None], Callable[[RequestError], None]], None]
    ) -> None:
        self._then = then

    def once_stored(
        self,
        line: RequestLine,
        written: Callable[[], None],
        failed: Callable[[RequestError], None],
    ) -> None:
        """Answer a request once all changes so far are stored, in the order of such calls."""
        line.unanswered += 1

        def on_written() -> None:
            line.unanswered -= 1
            written()

        def on_failed(error: RequestError) -> None:
            line.unanswered -= 1
            failed(error)

        self._then(on_written, on_failed)

    def send(self, line: RequestLine, send: Callable[[], None]) -> None:
        """Answer at once, or after the earlier requests that wait to be stored."""
        if line.unanswered:
            self.once_stored(line, send, lambda _: send())
        else:
            send()


async def reply_later(
    line: RequestLine, frame: ControlFrame, deciding: Awaitable[T], confirm: Callable[[T], None]
) -> None:
    """Answer a request, in a task of its own, once it is decided."""
    task = asyncio.current_task()
    try:
        decided = await deciding
    except BaseException as error:  # noqa: BLE001 - the line tells refusals from faults
        pass_on(error, task)
        line.refuse(frame, error)
    else:
        confirm(decided)
