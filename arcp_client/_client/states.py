"""Publishes the state of the link: `client.state`, an Observable, hooks, and waits."""

from __future__ import annotations

import asyncio
import copy

from reactivex.subject import BehaviorSubject

from arcp_client._dispatch.hooks import Hooks
from arcp_client.errors import ArcpError, ClientClosed
from arcp_client.state import Closed, Connecting, LinkState, Live

__all__ = ["LOOP_ENDED", "States"]

LOOP_ENDED = (
    "the event loop of the client has ended, and the client with it: use a client within one"
    " asyncio.run, and make a new one for another"
)


class States:
    """The state of one client.

    Attributes:
        now: the present state.
        hooks: the ``on_state`` hooks.
        loop: the event loop of the client, after the first `Client.connect`.
        since: when the link became live, or ceased to be, by the clock of that loop.
        interrupted: whether other code cancelled the client's task, as happens when its loop ends.
    """

    def __init__(self) -> None:
        self.now: LinkState = Connecting(0)
        self._subject: BehaviorSubject[LinkState] | None = None
        self.hooks: Hooks[LinkState] = Hooks("on_state")
        self.loop: asyncio.AbstractEventLoop | None = None
        self.interrupted = False
        self.since = 0.0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def closed(self) -> bool:
        """Whether the client has ended."""
        return isinstance(self.now, Closed)

    @property
    def observable(self) -> BehaviorSubject[LinkState]:
        """Every state, beginning with the present one."""
        if self._subject is None:
            self._subject = BehaviorSubject(self.now)
            if self.closed:
                self._subject.on_completed()
        return self._subject

    def change(self, state: LinkState) -> None:
        """Publish a new state. `Closed` is the last one."""
        if self.closed:
            return
        if self.loop is not None and isinstance(state, Live) != isinstance(self.now, Live):
            self.since = self.loop.time()
        self.now = state
        if self._subject is not None:
            self._subject.on_next(state)
        self.hooks.emit(state)
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)

    async def changed(self) -> None:
        """Wait for the next change."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        await change

    def end(self) -> None:
        """Complete the Observable, and stop the hooks."""
        if self._subject is not None:
            self._subject.on_completed()
        self.hooks.close()

    def closed_error(self) -> ArcpError:
        """Make an exception for one caller. A shared one would collect the callers' tracebacks."""
        cause = self.now.cause if isinstance(self.now, Closed) else None
        if self.interrupted and self.loop is not None and self.loop.is_closed():
            return ClientClosed(LOOP_ENDED)
        if isinstance(cause, ArcpError):
            error = copy.copy(cause)
            error.__cause__ = cause.__cause__
            return error
        return ClientClosed("the client was closed")
