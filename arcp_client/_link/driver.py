"""Carries out the actions of a session: sends frames, sets timers, publishes events.

The driver owns the session, its timer and the current link. It never awaits: a frame passes from
the link through the session to the fan-out in one synchronous step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from arcp_client._protocol import actions
from arcp_client._protocol.session import Session
from arcp_client.errors import ArcpError, ClientClosed, LinkLost, RemoteProtocolError
from arcp_client.events import Event, Gap

__all__ = ["Driver", "LinkOutlet"]


_log = logging.getLogger("arcp_client.link")


class LinkOutlet(Protocol):
    """The link that is up, as the driver sees it."""

    def send(self, effect: actions.Send) -> None:
        """Queue a frame."""

    def drop(self, cause: ArcpError, *, flush: bool = False) -> None:
        """End the link, with ``flush`` after what is queued was sent."""


class Driver:
    """Carries a session.

    Args:
        session: the session to carry.
        publish: takes all events, in order, as many at once as were read at once.
        tell: takes every other effect that is not the link's business, in order.
    """

    def __init__(
        self,
        session: Session,
        *,
        publish: Callable[[list[Event]], None],
        tell: Callable[[actions.Action], None],
    ) -> None:
        self.session = session
        self._publish = publish
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._link: LinkOutlet | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._carrying = False
        self._turn: float | None = None
        self._batch: list[Event] = []
        self._published = 0
        self._gaps = 0
        self._routes: dict[type, Callable[[Any], None]] = {
            actions.Send: self._send,
            actions.Relink: self._relink,
            actions.Opened: tell,
            actions.Ended: self._ended,
            actions.Answered: tell,
            actions.Refused: tell,
            actions.JobKnown: tell,
            actions.JobGone: tell,
            actions.Rotated: tell,
            actions.Report: tell,
        }

    @property
    def now(self) -> float:
        """The time that the session is told."""
        return self._loop.time()

    @property
    def moving(self) -> bool:
        """Whether its loop runs, so that events can be published."""
        return self._loop.is_running()

    @property
    def events(self) -> int:
        """How many came that are no gaps."""
        return self._published + len(self._batch) - self._gaps

    # -- the link

    def attach(self, link: LinkOutlet) -> None:
        """A link is up."""
        self._link = link

    def detach(self, refusal: ArcpError | None = None) -> None:
        """The link is gone; for a frame of the runtime that was not taken, with a refusal."""
        self.flush()
        self._link = None
        self.session.lost(self.now, refusal)
        self.carry()

    def received(self, data: bytes) -> None:
        """A frame came over the link."""
        now = self._turn
        if now is None:
            # One look at the clock for all frames that are read in one turn of the loop.
            now = self._turn = self._loop.time()
            self._loop.call_soon(self._turn_over)
        try:
            event = self.session.receive(data, now)
            if event is not None:
                self._batch.append(event)
            else:
                self.carry()
        except Exception as error:  # noqa: BLE001  a defect: transports must not take it for theirs
            self.failed(error)

    def _turn_over(self) -> None:
        self._turn = None
        try:
            self.flush()
        except Exception as error:  # noqa: BLE001  a defect
            self.failed(error)

    def flush(self) -> None:
        """Publish what was read in this turn of the loop."""
        if self._batch:
            batch, self._batch = self._batch, []
            self._published += len(batch)
            self._publish(batch)

    def heard(self) -> None:
        """A frame came that the session is not given yet."""
        self.session.frame_seen(self.now)

    def unreadable(self, error: RemoteProtocolError) -> None:
        """The transport dropped a frame."""
        self.session.unreadable(error, self.now)
        self.carry()

    def failed(self, error: BaseException) -> None:
        """End the client: this package has a defect, which another link would meet again."""
        _log.error("a defect of arcp-client ends the client; please report it", exc_info=error)
        cause = ClientClosed(f"a defect of arcp-client ended the client: {type(error).__name__}")
        cause.__cause__ = error
        self.session.end(cause)
        self.carry()

    # -- effects

    def carry(self) -> None:
        """Do what the session asks for, until it asks for nothing, and set its timer."""
        if self._carrying:
            return  # called from within an effect: the outer call goes on with what was added
        self._carrying = True
        try:
            while out := self.session.take():
                self._do(out)
        finally:
            self._carrying = False
        self._arm()

    def _do(self, out: list[actions.Action]) -> None:
        for effect in out:
            route = self._routes.get(type(effect))
            if route is None:
                self._batch.append(effect)  # type: ignore[arg-type]  # every other one has a route
                self._gaps += type(effect) is Gap
            else:
                self.flush()
                route(effect)
        self.flush()

    def _send(self, effect: actions.Send) -> None:
        if self._link is not None:
            self._link.send(effect)

    def _relink(self, effect: actions.Relink) -> None:
        if self._link is not None:
            self._link.drop(effect.cause)

    def _ended(self, effect: actions.Ended) -> None:
        self._tell(effect)
        if self._link is not None:
            self._link.drop(effect.cause or LinkLost("the session was closed here"), flush=True)

    # -- time

    def _arm(self) -> None:
        deadline = self.session.deadline
        timer = self._timer
        if timer is not None:
            if deadline is not None and timer.when() <= deadline:
                return  # early is harmless: it looks and sets itself anew
            timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self.session.tick(self.now)
            self.carry()
        except Exception as error:  # noqa: BLE001  a defect
            self.failed(error)

    def stop(self) -> None:
        """No more timers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
