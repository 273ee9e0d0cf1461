"""Welcomes, refusals and cuts in, the next hello's resume block out (§6.3, S5).

The newest token counts, and only real numbers move the cursor. A refusal is followed by another
try where that can help, and by a fresh session where it cannot; so is a link that ends without an
answer. Each is counted, so a session that cannot be had is given up, once.
"""

from __future__ import annotations

import enum
from typing import Final

from pydantic import SecretStr

from arcp_client._wire import dialect
from arcp_client._wire.messages import ResumeBlock
from arcp_client._wire.replies import Refusal, Welcome

__all__ = ["Next", "ResumeState"]

REFUSALS: Final = 3
"""Refusals that may pass by themselves, until a session is given up."""
CUTS: Final = 8
"""Links that may end without an answer to the resume. With the default delays, most of a minute."""

_TRANSIENT = frozenset({dialect.PERMISSION_DENIED})


class Next(enum.Enum):
    """What follows a refused handshake."""

    AGAIN = "again"
    """The same resume on a new link: the runtime may not have noticed that the old one died."""
    FRESH = "fresh"
    """A new session: this one is gone."""
    GIVE_UP = "give up"
    """No hello will do, unless the token changes."""


class ResumeState:
    """What is needed to go on with a session on another link.

    Args:
        session_id: the session, ``None`` before the first welcome.
        token: its newest resume token.
        refusals: how many refusals that may pass it takes to give the session up.
        cuts: how many links may end without an answer before it is given up; once the runtime
            may have dropped the session, one is enough.
    """

    def __init__(
        self,
        *,
        session_id: str | None = None,
        token: SecretStr | None = None,
        refusals: int = REFUSALS,
        cuts: int = CUTS,
    ) -> None:
        self.session_id = session_id
        self.token = token
        self._limits = refusals, cuts
        self._window: float | None = None
        self._left_at: float | None = None
        self._fresh_refused = False
        self._clear()

    def _clear(self) -> None:
        self._refused = 0
        self._cut = 0
        self._presented = False
        self._stepped_back = False
        self._bearer: SecretStr | None = None
        self._doubted: SecretStr | None = None

    @property
    def possible(self) -> bool:
        """Whether there is a session to go on with."""
        return self.session_id is not None and self.token is not None

    def block(self, cursor: int, bearer: SecretStr) -> ResumeBlock | None:
        """What to present in a hello with that bearer token, ``None`` for a fresh session."""
        self._bearer = bearer
        if self._doubted is not None and self._doubted == bearer:
            # A hello with it was refused, as if it were no good, and there is no other one. The
            # resume token may be meant: a hello without one tells which.
            self.forget()
        if self.session_id is None or self.token is None:
            return None
        self._presented = True
        if self._stepped_back:
            cursor = max(cursor - 1, 0)
        return ResumeBlock(
            session_id=self.session_id, resume_token=self.token, last_event_seq=cursor
        )

    def welcomed(self, welcome: Welcome) -> bool:
        """A welcome came; True if the session went on."""
        went_on = self.possible and welcome.info.id == self.session_id
        self.session_id = welcome.info.id
        # One runtime does not rotate and may leave it out: then the old one still counts.
        if welcome.resume_token is not None or not went_on:
            self.token = welcome.resume_token
        self._window = welcome.info.resume_window
        self._left_at = None
        self._fresh_refused = False
        self._clear()
        return went_on

    def refused(self, refusal: Refusal, spoken: dialect.Dialect | None) -> Next:
        """The runtime refused the hello; after `Next.FRESH`, `forget` is the caller's to do."""
        presented, self._presented = self._presented, False
        if not presented:
            if refusal.code != dialect.RESUME_WINDOW_EXPIRED or self._fresh_refused:
                return Next.GIVE_UP
            self._fresh_refused = True  # it may not have noticed that nothing was to be resumed
            return Next.FRESH
        if refusal.code == dialect.UNAUTHENTICATED and self._doubted is None:
            self._doubted = self._bearer
            return Next.AGAIN
        if refusal.code == dialect.RESUME_WINDOW_EXPIRED and spoken is not None:
            if spoken.refuses_caught_up and not self._stepped_back:
                self._stepped_back = True
                return Next.AGAIN
            transient = spoken.resumes_late
        else:
            transient = refusal.code in _TRANSIENT or refusal.retryable
        self._refused += 1
        if transient and self._refused < self._limits[0]:
            return Next.AGAIN
        return Next.FRESH

    def left(self, now: float) -> None:
        """The link is gone. One that ended without an answer to the resume counts as a cut."""
        if self._left_at is None:
            self._left_at = now
        if not self._presented:
            return
        self._presented = False
        self._cut += 1
        expired = self._window is not None and now - self._left_at > self._window
        if expired or self._cut >= self._limits[1]:
            self.forget()

    def forget(self) -> None:
        """The session is gone: id and token go together."""
        self.session_id = None
        self.token = None
        self._window = None
        self._clear()
