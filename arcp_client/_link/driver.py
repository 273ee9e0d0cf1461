"""Carries out the actions of a session: sends frames, publishes events, sets a timer.

The session engine, `_client.engine`, owns the session and its driver. The driver holds one timer,
for everything that is due later, and a reference to the session's current link. It awaits nothing:
a frame passes from the link through the session to the fan-out in one synchronous step.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from arcp_client._log_fields import log_fields
from arcp_client._protocol import actions
from arcp_client._protocol.session import Session
from arcp_client.errors import ArcpError, ClientClosed, LinkLost, RemoteProtocolError
from arcp_client.events import Event, Gap

__all__ = ["Driver", "LinkOutlet"]


_log = logging.getLogger("arcp_client.link")


class LinkOutlet(Protocol):
    """The driver's interface to the current link."""

    def send(self, action: actions.Send) -> None:
        """Queue a frame."""

    def drop(self, cause: ArcpError, *, flush: bool = False) -> None:
        """End the link; with ``flush``, only after the queued frames have been sent."""


class Driver:
    """Carries out the actions of a session.

    Args:
        session: the session.
        publish: publishes the events, in order, in batches.
        apply: carries out the actions that do not concern the link, in order.

    Attributes:
        published: number of events passed to ``publish``, gaps included.
    """

    def __init__(
        self,
        session: Session,
        *,
        publish: Callable[[list[Event]], None],
        apply: Callable[[actions.Action], None],
    ) -> None:
        self.session = session
        self._publish = publish
        self._apply = apply
        self._loop = asyncio.get_running_loop()
        self._link: LinkOutlet | None = None
        self._timer: asyncio.TimerHandle | None = None  # one for all that is due later
        self._due = 0.0  # of the timer; in uvloop, the handle of a past time does not tell it
        self._deadline = math.inf  # of the session, when actions were last carried out
        self._planned: tuple[float, Callable[[float], None]] | None = None
        self._carrying_out = False
        self.published = 0
        self._gaps = 0

    @property
    def now(self) -> float:
        """The loop's time, which the session uses."""
        return self._loop.time()

    @property
    def events(self) -> int:
        """The number of events, without gaps."""
        return self.published - self._gaps

    # -- the link

    def attach(self, link: LinkOutlet) -> None:
        """Set the current link."""
        self._link = link

    def detach(self, refusal: ArcpError | None = None) -> None:
        """End the current link.

        Args:
            refusal: the reason, if the link ended because a frame of the runtime was refused.
        """
        self._link = None
        self.session.lost(self.now, refusal)
        self.carry_out()

    def received(self, frames: Sequence[bytes]) -> None:
        """Pass frames of the link to the session, and publish their events."""
        now = self._loop.time()
        taken, more = 0, True
        try:
            while more:
                run = self.session.receive(frames, now, taken)
                self._publish_run(run)
                taken += len(run) + 1
                more = run.more
                if more:
                    self.carry_out()
        except Exception as error:  # noqa: BLE001  a defect, not an error of the transport
            self.failed(error)

    def _publish_run(self, events: list[Event]) -> None:
        if events:
            self.published += len(events)
            self._publish(events)

    def frame_seen(self) -> None:
        """Count a frame as a sign of life although the session gets it later."""
        self.session.frame_seen(self.now)

    def unreadable(self, error: RemoteProtocolError) -> None:
        """Report a frame that the transport dropped."""
        self.session.unreadable(error, self.now)
        self.carry_out()

    def failed(self, error: BaseException) -> None:
        """End the client, because of a defect in this package that a new link would not cure."""
        _log.error(
            "a defect of arcp-client ends the client; please report it",
            exc_info=error,
            extra=log_fields(session=self.session.session_id),
        )
        cause = ClientClosed(f"a defect of arcp-client ended the client: {type(error).__name__}")
        cause.__cause__ = error
        self.session.end(cause)
        self.carry_out()

    # -- actions

    def carry_out(self) -> None:
        """Carry out the session's actions until none are left, and set its timer."""
        if self._carrying_out:
            return  # called from an action: the outer call carries out the added actions
        self._carrying_out = True
        try:
            while out := self.session.take():
                self._do(out)
        finally:
            self._carrying_out = False
        deadline = self.session.deadline
        self._deadline = math.inf if deadline is None else deadline
        self._arm()

    def acknowledge(self, number: int, now: float) -> bool:
        """Acknowledge the events up to a number (§6.5); False if the session does not.

        This is the shortest way to the link, because the next events wait for it: see
        `ActionQueue.ack`. An acknowledgement makes no deadline of the session earlier.
        """
        frame = self.session.ack(number, now)
        if frame is None:
            return False
        if self._link is not None:
            self._link.send(frame)
        return True

    def _do(self, out: list[actions.Action]) -> None:
        events: list[Event] = []
        for action in out:
            route = self._ROUTES.get(type(action))
            if route is None:
                events.append(action)  # type: ignore[arg-type]  # all other actions have routes
                self._gaps += type(action) is Gap
            else:
                self._publish_run(events)
                events = []
                route(self, action)
        self._publish_run(events)

    def _send(self, action: actions.Send) -> None:
        if self._link is not None:
            self._link.send(action)

    def _relink(self, action: actions.Relink) -> None:
        if self._link is not None:
            self._link.drop(action.cause)

    def _ended(self, action: actions.Ended) -> None:
        self._apply(action)
        if self._link is not None:
            self._link.drop(action.cause or LinkLost("the session was closed here"), flush=True)

    def _pass_on(self, action: actions.Action) -> None:
        self._apply(action)

    _ROUTES: Final[Mapping[type, Callable[[Driver, Any], None]]] = {
        actions.Send: _send,
        actions.Relink: _relink,
        actions.Opened: _pass_on,
        actions.Ended: _ended,
        actions.Replied: _pass_on,
        actions.Refused: _pass_on,
        actions.JobKnown: _pass_on,
        actions.HistoryRequested: _pass_on,
        actions.JobGone: _pass_on,
        actions.Rotated: _pass_on,
        actions.QuestionsChanged: _pass_on,
        actions.Report: _pass_on,
    }

    # -- time

    def plan(self, due: float, now: float, call: Callable[[float], None]) -> None:
        """Call a function once, with the time: when ``due``, which may be now.

        Only one call is planned at a time, the earlier one: this replaces a call that is planned
        for later, and does nothing if a call is planned for an earlier time.
        """
        if due <= now:
            self._planned = None
            call(now)
        elif self._planned is None or due < self._planned[0]:
            self._planned = due, call
            if self._timer is None or due < self._due:
                self._set_timer(due)

    def call(self, function: Callable[[float], None]) -> None:
        """Call a function of the client with the time; if it raises, the client ends."""
        try:
            function(self._loop.time())
        except Exception as error:  # noqa: BLE001  a defect
            self.failed(error)

    def _arm(self) -> None:
        due = self._deadline
        if self._planned is not None and self._planned[0] < due:
            due = self._planned[0]
        if self._timer is None or due == math.inf or due < self._due:
            self._set_timer(due)
        # Otherwise the timer is early, which is harmless: the tick sets it again.

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due != math.inf:
            self._timer, self._due = self._loop.call_at(due, self._tick), due

    def _tick(self) -> None:
        self._timer = None
        self.call(self._do_due)

    def _do_due(self, now: float) -> None:
        planned = self._planned
        if planned is not None and planned[0] <= now:
            self._planned = None
            planned[1](now)
        if self._deadline <= now:
            self.session.tick(now)
            self.carry_out()
        else:
            self._arm()

    def stop(self) -> None:
        """Cancel the timer and what is planned."""
        self._planned = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
