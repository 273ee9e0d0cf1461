"""Welcomes and refusals in, the next hello's resume block out (§6.3, S5).

The newest token counts, and only real numbers move the cursor. A refusal is followed by another
try where that can help, and by a fresh session where it cannot; never by a loop.
"""

from __future__ import annotations

import enum

from pydantic import SecretStr

from .._wire import dialect
from .._wire.messages import ResumeBlock
from .._wire.replies import Refusal, Welcome

__all__ = ["Next", "ResumeState"]


class Next(enum.Enum):
    """What follows a refused handshake."""

    AGAIN = "again"
    """The same resume on a new link: the runtime may not have noticed that the old one died."""
    FRESH = "fresh"
    """A new session: this one is gone."""
    GIVE_UP = "give up"
    """No hello will do, unless the token changes."""


_TRANSIENT = frozenset({dialect.PERMISSION_DENIED})


class ResumeState:
    """What is needed to go on with a session on another link.

    Args:
        session_id: the session, ``None`` before the first welcome.
        token: its newest resume token.
        attempts: how often a refusal that may pass is answered by another try, and how often a
            link may die during a resume before the session is given up.
    """

    def __init__(
        self,
        *,
        session_id: str | None = None,
        token: SecretStr | None = None,
        attempts: int = 3,
    ) -> None:
        self.session_id = session_id
        self._token = token
        self._attempts = attempts
        self._refused = 0
        self._stepped_back = False

    @property
    def possible(self) -> bool:
        """Whether there is a session to go on with."""
        return self.session_id is not None and self._token is not None

    def block(self, cursor: int) -> ResumeBlock | None:
        """What to present in the hello, or ``None`` for a fresh session."""
        if self.session_id is None or self._token is None:
            return None
        if self._stepped_back:
            cursor = max(cursor - 1, 0)
        return ResumeBlock(
            session_id=self.session_id, resume_token=self._token, last_event_seq=cursor
        )

    def welcomed(self, welcome: Welcome) -> bool:
        """A welcome came; True if the session went on."""
        went_on = self.possible and welcome.info.id == self.session_id
        self.session_id = welcome.info.id
        # One runtime does not rotate and may leave it out: then the old one still counts.
        if welcome.resume_token is not None or not went_on:
            self._token = welcome.resume_token
        self._refused = 0
        self._stepped_back = False
        return went_on

    def refused(self, refusal: Refusal, spoken: dialect.Dialect | None) -> Next:
        """The runtime refused the hello."""
        if not self.possible:
            return Next.GIVE_UP
        if (
            refusal.code == dialect.RESUME_WINDOW_EXPIRED
            and spoken is not None
            and spoken.refuses_caught_up
            and not self._stepped_back
        ):
            self._stepped_back = True
            return Next.AGAIN
        if refusal.code in _TRANSIENT or refusal.retryable:
            self._refused += 1
            return Next.AGAIN if self._refused < self._attempts else Next.FRESH
        return Next.FRESH

    def forget(self) -> None:
        """The session is gone: id and token go together."""
        self.session_id = None
        self._token = None
        self._refused = 0
        self._stepped_back = False

    @property
    def token(self) -> SecretStr | None:
        """The newest token, for a checkpoint."""
        return self._token
