"""Collects the actions that a session asks the layer above, ``_link``, to carry out, in order.

The delivery of a public event (`arcp_client.events.Event`) is the most frequent action. For that
reason the list holds the event itself, without a wrapper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import SecretStr

from arcp_client._protocol.heartbeat import Heartbeat, Pulse
from arcp_client._protocol.negotiated import Negotiated
from arcp_client._protocol.pending import Request
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame, encode
from arcp_client._wire.ids import new_id, now_text
from arcp_client._wire.messages import Ping, Pong
from arcp_client._wire.replies import Accepted, Subscribed, Welcome
from arcp_client.errors import ArcpError, HeartbeatLost, RemoteProtocolError
from arcp_client.events import Event

__all__ = [
    "Action",
    "ActionQueue",
    "Ended",
    "EventRun",
    "HistoryRequested",
    "JobGone",
    "JobKnown",
    "Opened",
    "QuestionsChanged",
    "Refused",
    "Relink",
    "Replied",
    "Report",
    "Rotated",
    "Send",
]


class Send(msgspec.Struct):
    """Send one frame over the link. ``request`` is the request that the frame carries, if any."""

    data: bytes
    request: Request | None = None


class Opened(msgspec.Struct):
    """The runtime's welcome has arrived: the session is live.

    Attributes:
        welcome: the terms that both sides agreed on.
        resumed: the session continues an earlier one; False for a new one.
    """

    welcome: Welcome
    resumed: bool


class Relink(msgspec.Struct):
    """Drop this link and connect again."""

    cause: ArcpError


class Ended(msgspec.Struct):
    """The session is over. ``cause`` is None after a close by this client."""

    cause: ArcpError | None


class Replied(msgspec.Struct):
    """A request got its answer."""

    request: Request
    value: Any


class Refused(msgspec.Struct):
    """A request ended without an answer."""

    request: Request
    error: ArcpError


class JobKnown(msgspec.Struct):
    """The runtime announced a job: in the answer to a submit or a subscription, or by a delegation.

    Comes before `Replied` for the request, and before the job's later events.

    Attributes:
        submitted: this client submitted the job.
        request: the request that the message answers.
        elsewhere: another session got the acceptance first.
        again: the job has ended, and its events come again from the beginning.
    """

    job: Accepted | Subscribed
    submitted: bool
    request: Request | None = None
    elsewhere: bool = False
    again: bool = False


class HistoryRequested(msgspec.Struct):
    """Past events of an accepted job may follow, because another session may have begun it."""

    job_id: str


class JobGone(msgspec.Struct):
    """The runtime has no outcome for an open job; ``status`` is its final status, if known."""

    job_id: str
    error: ArcpError
    status: str | None = None


class Rotated(msgspec.Struct):
    """A job's credential has a new value (§9.8)."""

    job_id: str
    credential_id: str
    value: SecretStr


class QuestionsChanged(msgspec.Struct):
    """The open questions that this principal may see have changed (an extension)."""


class Report(msgspec.Struct):
    """A message for the log, about something that changed nothing."""

    message: str
    error: ArcpError | None = None
    job_id: str | None = None
    seq: int | None = None


_ACKS: Final = 1000
"""The number of acknowledgements whose ids differ only in their last digits."""

Action = (
    Event
    | Send
    | Opened
    | Relink
    | Ended
    | Replied
    | Refused
    | HistoryRequested
    | JobGone
    | JobKnown
    | Rotated
    | QuestionsChanged
    | Report
)


class EventRun(list[Event]):
    """Events that are delivered together, in order.

    Attributes:
        envelopes: their envelopes, if each event is equal to the one that is decoded from its
            envelope; ``None`` otherwise.
        one_job: all events are of one job.
        more: a frame after the last event was taken in, too; it may have left actions for
            `Session.take`.
    """

    __slots__ = ("envelopes", "more", "one_job")

    def __init__(self, events: Iterable[Event] = ()) -> None:
        super().__init__(events)
        self.envelopes: Sequence[bytes] | None = None
        self.one_job = False
        self.more = False


class ActionQueue:
    """Queues the actions of one session, and owns the heartbeat of its current link.

    The queue makes or passes on every frame that the session sends, and tells the heartbeat.

    Args:
        negotiated: the terms of the session.

    Attributes:
        actions: the actions; always the same list.
        heartbeat: the heartbeat of the current link.
        relinking: the session has requested a new link in place of the current one.
    """

    def __init__(self, negotiated: Negotiated) -> None:
        self.actions: list[Action] = []
        self.heartbeat = Heartbeat(None, 0.0)
        self.relinking = False
        self._negotiated = negotiated
        self._ack_format = b""
        self._acks = _ACKS  # number of frames made with the format

    def take(self) -> list[Action]:
        """Return all actions, in order; each one is returned once."""
        taken = self.actions[:]
        self.actions.clear()
        return taken

    def emit(self, action: Action) -> None:
        """Add one action."""
        self.actions.append(action)

    def frame(self, data: bytes, now: float, request: Request | None = None) -> None:
        """Send a frame."""
        self.heartbeat.sent_at = now
        self.actions.append(Send(data, request))

    def control(
        self, kind: str, payload: Mapping[str, object], now: float, *, job_id: str | None = None
    ) -> None:
        """Send a message whose answer, if it has one, is not awaited."""
        session_id = self._negotiated.session_id or None
        self.frame(encode(kind, payload, id=new_id(), session_id=session_id, job_id=job_id), now)

    def ack(self, number: int, now: float) -> Send:
        """Return the frame that acknowledges the events up to a number (§6.5), to be sent at once.

        It is formatted, not encoded, and not queued. While events arrive, a client seldom sends
        other frames, so the processor has to fetch the memory of that code: each function takes
        some 20 µs instead of one, and the next events wait (docs/explanation/performance.md).
        """
        if self._acks == _ACKS:
            self._acks, self._ack_format = 0, _ack_format(self._negotiated.session_id)
        frame = Send(self._ack_format % (self._acks, number))
        self._acks += 1
        self.heartbeat.sent_at = now
        return frame

    def relink(self, cause: ArcpError) -> None:
        """Request a new link, once for each link."""
        if not self.relinking:
            self.relinking = True
            self.actions.append(Relink(cause))

    def report(
        self,
        message: str,
        error: ArcpError | None = None,
        *,
        job_id: str | None = None,
        seq: int | None = None,
    ) -> None:
        """Add a message for the log, about a job or an event if these are given."""
        self.actions.append(Report(message, error, job_id, seq))

    # -- the link

    def linked(self, now: float, interval: float | None = None) -> None:
        """Start a new heartbeat: a link was opened, or a session on it.

        Args:
            now: the time.
            interval: seconds of the heartbeat; ``None`` until it is negotiated.
        """
        self.relinking = False
        self.heartbeat = Heartbeat(interval, now)
        if self._negotiated.live:
            self._acks, self._ack_format = 0, _ack_format(self._negotiated.session_id)

    def beat(self, now: float) -> None:
        """Ping the runtime if it is idle; request a new link if it counts as dead (§6.4)."""
        if self.relinking:
            return
        pulse = self.heartbeat.look(now)
        if pulse is Pulse.DEAD:
            silent = now - self.heartbeat.heard_at
            self.relink(HeartbeatLost(f"nothing heard from the runtime for {silent:.3g} s (§6.4)"))
        elif pulse is Pulse.PING:
            self.ping(now)

    def ping(self, now: float, nonce: str | None = None) -> None:
        """Send a ping."""
        self.control(names.PING, Ping(nonce=nonce or new_id(), sent_at=now_text()).wire(), now)

    def pong(self, frame: ControlFrame, now: float) -> None:
        """Answer a ping, whether heartbeats were negotiated or not."""
        nonce = frame.payload.get("nonce")
        if isinstance(nonce, str) and len(nonce) > names.MAX_NONCE:
            text = f"a ping with a nonce of {len(nonce)} characters is not answered"
            self.report(text, RemoteProtocolError(text))
            return
        pong = Pong(ping_nonce=nonce if isinstance(nonce, str) else "", received_at=now_text())
        self.control(names.PONG, pong.wire(), now)


def _ack_format(session_id: str) -> bytes:
    """A ``session.ack``, to be formatted with the last digits of its id and with a number."""
    data = encode(names.ACK, {"last_processed_seq": 0}, id="", session_id=session_id)
    start = new_id()[:-3].encode("ascii")
    data = data.replace(b"%", b"%%").replace(b'"id":""', b'"id":"%b%%03d"' % start, 1)
    return data.replace(b'_seq":0', b'_seq":%d', 1)
