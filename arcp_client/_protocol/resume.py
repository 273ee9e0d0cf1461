"""Decides what follows a failed resume: another attempt, or a new session (§6.3).

`ResumeState` holds the id and the token of the session. `handshake` is the layer above, which sends
the hellos and reads the answers. `Peer.resume_refused` tells what a refusal means.
"""

from __future__ import annotations

from typing import Final

from pydantic import SecretStr

from arcp_client._protocol.peer import Next, Peer
from arcp_client._wire import names
from arcp_client._wire.messages import ResumeBlock
from arcp_client._wire.replies import ErrorReply, Welcome

__all__ = ["CUTS", "REFUSALS", "ResumeState"]

REFUSALS: Final = 3
"""Transient refusals until a session is given up."""
CUTS: Final = 8
"""Links that may end without an answer to the resume, or with one that the runtime cannot answer at
present: with the default delays, almost a minute."""


class ResumeState:
    """The id and token of a session, and the count of failed resumes.

    Args:
        session_id: the session, ``None`` before the first welcome.
        token: its newest resume token.
        refusals: how many transient refusals lead to giving up the session.
        cuts: how many links that end without an answer, or with INTERNAL_ERROR that may be tried
            again, lead to giving up the session; 1 once the resume window has passed.
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
        self._refusals = refusals
        self._cuts = cuts
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
        """Whether there is a session to resume."""
        return self.session_id is not None and self.token is not None

    def block(self, cursor: int, bearer: SecretStr) -> ResumeBlock | None:
        """The resume block of a hello with that bearer token; ``None`` to open a new session."""
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
        """Take over the id and token of a welcome. Returns whether the session was resumed."""
        resumed = self.possible and welcome.info.id == self.session_id
        self.session_id = welcome.info.id
        # One runtime does not rotate and may leave it out: then the old one still counts.
        if welcome.resume_token is not None or not resumed:
            self.token = welcome.resume_token
        self._window = welcome.info.resume_window
        self._left_at = None
        self._fresh_refused = False
        self._clear()
        return resumed

    def refused(self, refusal: ErrorReply, peer: Peer | None) -> Next:
        """The next attempt after a refused hello. After `Next.FRESH` the caller calls `forget`."""
        presented, self._presented = self._presented, False
        if not presented:
            if refusal.code != names.RESUME_WINDOW_EXPIRED or self._fresh_refused:
                return Next.GIVE_UP
            self._fresh_refused = True  # it may not have noticed that nothing was to be resumed
            return Next.FRESH
        if refusal.code == names.UNAUTHENTICATED and self._doubted is None:
            self._doubted = self._bearer
            return Next.AGAIN
        if refusal.code == names.RESUME_WINDOW_EXPIRED and peer is not None:
            step = peer.resume_refused()
            if step is Next.STEP_BACK:
                if not self._stepped_back:
                    self._stepped_back = True
                    return Next.AGAIN
                step = Next.FRESH
            transient = step is Next.AGAIN
        else:
            transient = refusal.code == names.PERMISSION_DENIED or refusal.retryable
        if refusal.code == names.INTERNAL_ERROR and refusal.retryable:
            self._cut += 1  # the session is not refused: its runtime or database is away
            return Next.AGAIN if self._cut < self._cuts else Next.FRESH
        self._refused += 1
        if transient and self._refused < self._refusals:
            return Next.AGAIN
        return Next.FRESH

    def left(self, now: float) -> None:
        """Count a link that ended without an answer to the resume."""
        if self._left_at is None:
            self._left_at = now
        if not self._presented:
            return
        self._presented = False
        self._cut += 1
        expired = self._window is not None and now - self._left_at > self._window
        if expired or self._cut >= self._cuts:
            self.forget()

    def forget(self) -> None:
        """Drop the id and the token of the session, so that a new one is opened."""
        self.session_id = None
        self.token = None
        self._window = None
        self._clear()
