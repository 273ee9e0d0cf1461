"""Effects in, the same effects out in order; frames among them keep the link from being idle."""

from __future__ import annotations

from collections.abc import Mapping

from .._wire.codec import encode
from .._wire.ids import new_id
from ..errors import ArcpError
from .effects import Effect, Relink, Report, Send
from .liveness import Liveness
from .requests import Request
from .terms import Terms

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

    def linked(self, now: float) -> None:
        """A new link: nothing of the old one counts for it."""
        self.relinking = False
        self.liveness = Liveness(None, now)
