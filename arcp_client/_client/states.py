"""Publishes the state of the link as `client.state`, an Observable, hooks, and a wait."""

from __future__ import annotations

import asyncio
import copy

from reactivex.subject import BehaviorSubject

from arcp_client._dispatch.hooks import Hooks
from arcp_client.errors import ArcpError, ClientClosed
from arcp_client.state import Closed, Connecting, LinkState

__all__ = ["LOOP_ENDED", "States"]

LOOP_ENDED = (
    "the event loop of the client has ended, and the client with it: a client is used within one"
    " asyncio.run; make a new one"
)


class States:
    """The state of one client.

    Attributes:
        now: where the link stands.
        observable: every change, beginning with the present state.
        hooks: the ``on_state`` hooks.
        home: the event loop of the client, once it has one.
        interrupted: code that is not the client's cancelled its task, as the end of a loop does.
    """

    def __init__(self) -> None:
        self.now: LinkState = Connecting(0)
        self.observable: BehaviorSubject[LinkState] = BehaviorSubject(self.now)
        self.hooks: Hooks[LinkState] = Hooks("on_state")
        self.home: asyncio.AbstractEventLoop | None = None
        self.interrupted = False
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def closed(self) -> bool:
        """Whether it is over."""
        return isinstance(self.now, Closed)

    def change(self, state: LinkState) -> None:
        """Tell everybody; nothing follows `Closed`."""
        if self.closed:
            return
        self.now = state
        self.observable.on_next(state)
        self.hooks.tell(state)
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
        """Nothing follows."""
        self.observable.on_completed()
        self.hooks.close()

    def closed_error(self) -> ArcpError:
        """A new exception for each caller: a shared one would collect their tracebacks."""
        cause = self.now.cause if isinstance(self.now, Closed) else None
        if self.interrupted and self.home is not None and self.home.is_closed():
            return ClientClosed(LOOP_ENDED)
        if isinstance(cause, ArcpError):
            error = copy.copy(cause)
            error.__cause__ = cause.__cause__
            return error
        return ClientClosed("the client was closed")
