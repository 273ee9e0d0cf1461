"""Effects in, the same effects out in order; and the heartbeat, since every frame sent counts."""

from __future__ import annotations

from collections.abc import Mapping

from arcp_client._protocol.effects import Effect, Relink, Report, Send
from arcp_client._protocol.liveness import Liveness, Pulse
from arcp_client._protocol.requests import Request
from arcp_client._protocol.terms import Terms
from arcp_client._wire import dialect
from arcp_client._wire.codec import ControlFrame, encode
from arcp_client._wire.ids import new_id, now_text
from arcp_client._wire.messages import Ping, Pong
from arcp_client.errors import ArcpError, HeartbeatLost, RemoteProtocolError

__all__ = ["Outbox"]


class Outbox:
    """What a session asks for, until somebody takes it.

    Args:
        terms: what was agreed on.

    Attributes:
        effects: what is to be done; always the same list.
        liveness: of the present link.
        relinking: a new link was asked for, in place of the present one.
    """

    def __init__(self, terms: Terms) -> None:
        self.effects: list[Effect] = []
        self.liveness = Liveness(None, 0.0)
        self.relinking = False
        self._terms = terms

    def take(self) -> list[Effect]:
        """Everything, in order; each effect is given once."""
        taken = self.effects[:]
        self.effects.clear()
        return taken

    def emit(self, effect: Effect) -> None:
        """One more effect."""
        self.effects.append(effect)

    def frame(self, data: bytes, now: float, request: Request | None = None) -> None:
        """Send a frame."""
        self.liveness.sent(now)
        self.effects.append(Send(data, request))

    def control(
        self, kind: str, payload: Mapping[str, object], now: float, *, job_id: str | None = None
    ) -> None:
        """Send a message that has no answer, or none that is waited for."""
        session_id = self._terms.session_id or None
        self.frame(encode(kind, payload, id=new_id(), session_id=session_id, job_id=job_id), now)

    def relink(self, cause: ArcpError) -> None:
        """This link is of no more use: said once a link."""
        if not self.relinking:
            self.relinking = True
            self.effects.append(Relink(cause))

    def report(self, message: str, error: ArcpError | None = None) -> None:
        """Something that a person may want to know."""
        self.effects.append(Report(message, error))

    # -- the link

    def linked(self, now: float, interval: float | None = None) -> None:
        """A new link, or a new session on it: nothing of the old one counts for it.

        Args:
            now: the time.
            interval: seconds of the heartbeat, once it is negotiated.
        """
        self.relinking = False
        self.liveness = Liveness(interval, now)

    def pulse(self, now: float) -> None:
        """Time has passed: ping an idle runtime, leave a silent one (§6.4)."""
        if self.relinking:
            return
        pulse = self.liveness.look(now)
        if pulse is Pulse.DEAD:
            silent = now - self.liveness.heard_at
            self.relink(HeartbeatLost(f"nothing heard from the runtime for {silent:.3g} s (§6.4)"))
        elif pulse is Pulse.PING:
            self.ping(now)

    def ping(self, now: float) -> None:
        """Ask for a sign of life."""
        self.control(dialect.PING, Ping(nonce=new_id(), sent_at=now_text()).wire(), now)

    def pong(self, frame: ControlFrame, now: float) -> None:
        """Answer a ping, whether heartbeats were negotiated or not."""
        nonce = frame.payload.get("nonce")
        if isinstance(nonce, str) and len(nonce) > dialect.MAX_NONCE:
            text = f"a ping with a nonce of {len(nonce)} characters is not answered"
            self.report(text, RemoteProtocolError(text))
            return
        pong = Pong(ping_nonce=nonce if isinstance(nonce, str) else "", received_at=now_text())
        self.control(dialect.PONG, pong.wire(), now)
