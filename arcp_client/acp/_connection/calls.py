"""Tracks the calls that wait for an answer of the agent, and completes each with its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import logging
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TypeAlias

from arcp_client.acp._connection.messages import Key
from arcp_client.errors import BufferFull, LinkLost

__all__ = ["Arrive", "Outcome", "PendingCall", "PendingCalls", "Settle"]

_log = logging.getLogger("arcp_client.acp")

Outcome: TypeAlias = "bytes | Exception"
"""The JSON of a result, or the error."""

Settle: TypeAlias = Callable[[Outcome], None]
Arrive: TypeAlias = Callable[[Outcome, Settle], None]


class PendingCall:
    """A call without an outcome yet."""

    __slots__ = ("arrive", "future", "method", "nested", "serving")

    def __init__(self, method: str, arrive: Arrive | None, nested: bool, serving: bool) -> None:
        self.method = method
        self.arrive = arrive
        self.nested = nested
        self.serving = serving
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome, if there is none yet."""
        if self.future.done():
            return
        if isinstance(outcome, bytes):
            self.future.set_result(outcome)
        else:
            self.future.set_exception(outcome)


class PendingCalls:
    """The pending calls, by number.

    While the reader waits for a handler, a call from that handler fails at once, because its answer
    could not be read.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._last = 0
        self._calls: dict[int | Decimal, PendingCall] = {}
        self._waits_for_handlers = False
        self._waits_for_services = False

    def begin(
        self, method: str, arrive: Arrive | None, *, nested: bool, serving: bool
    ) -> tuple[int, PendingCall]:
        """Number and register a call; see `JsonRpcPeer.call`.

        Raises:
            BufferFull: the reader waits for the caller.
        """
        blocked = self._waits_for_services and (nested or serving)
        if blocked or (self._waits_for_handlers and nested):
            raise _blocked(method)
        number = self._last = next(self._numbers)
        call = self._calls[number] = PendingCall(method, arrive, nested, serving)
        return number, call

    def drop(self, number: int) -> None:
        """Remove a call. Idempotent."""
        self._calls.pop(number, None)

    def __contains__(self, number: int) -> bool:
        return number in self._calls

    @contextlib.contextmanager
    def reader_waits(self, *, for_services: bool) -> Iterator[None]:
        """While the reader waits in the ``with`` block, fail the calls of handlers or services."""
        if for_services:
            self._waits_for_services = True
        else:
            self._waits_for_handlers = True
        for number, call in list(self._calls.items()):
            if call.nested or (for_services and call.serving):
                del self._calls[number]
                call.settle(_blocked(call.method))
        try:
            yield
        finally:
            if for_services:
                self._waits_for_services = False
            else:
                self._waits_for_handlers = False

    def settle(self, key: Key, outcome: Outcome) -> bool:
        """Complete the call with an id; return False if the id was never used."""
        if isinstance(key, str) and key.isdecimal() and len(key) < 20:
            key = int(key)  # some agents return ids as strings
        if isinstance(key, str) or key is None:
            return False
        call = self._calls.pop(key, None)
        if call is None:
            _log.debug("answer to call %.40s arrived too late", key)
            return 0 <= key <= self._last and key == int(key)
        if call.arrive is None:
            call.settle(outcome)
        else:
            call.arrive(outcome, call.settle)
        return True

    def fail(self, error: LinkLost) -> None:
        """Fail every call with a copy of the error, because the link has ended."""
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if call.arrive is not None:
                call.arrive(copy.copy(error), _ignored)
            call.settle(copy.copy(error))


def _blocked(method: str) -> BufferFull:
    return BufferFull(
        f"{method} inside a handler cannot be answered: the buffers are full, and reading continues"
        " only when handlers have ended"
    )


def _ignored(_: Outcome) -> None:
    pass
