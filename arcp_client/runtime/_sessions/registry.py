"""Opens, resumes and expires the sessions of a runtime (§6.2, §6.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from arcp_client._log_fields import log_fields
from arcp_client._wire import names
from arcp_client._wire.ids import new_prefixed_id
from arcp_client.errors import PermissionDenied, RequestError, request_error
from arcp_client.runtime._log.directory import TakenSession
from arcp_client.runtime._log.entries import Gone, SessionState
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._log.replay_buffers import SessionLog
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.runtime.limits import Limits

__all__ = ["SessionRegistry"]

_log = logging.getLogger("arcp_client.runtime")


class _Bounds(Protocol):
    @property
    def max_events(self) -> int: ...

    @property
    def max_bytes(self) -> int: ...


class SessionRegistry:
    """The sessions of a runtime, with and without a connection.

    Args:
        limits: bounds the sessions of one principal.
        bounds: the size of each session's event log.
        window: seconds that a session without a connection and without running jobs is kept.
        on_gone: called with each expired session.
        journal: stores sessions, if they must survive the process.

    Attributes:
        resumes: number of sessions that were resumed.
    """

    def __init__(
        self,
        limits: Limits,
        bounds: _Bounds,
        *,
        window: float,
        on_gone: Callable[[ServerSession], None],
        journal: Journal | None = None,
    ) -> None:
        self._limits = limits
        self._bounds = bounds
        self._window = window
        self._on_gone = on_gone
        self._journal = journal
        self._sessions: dict[str, ServerSession] = {}
        self._of: dict[str, dict[str, ServerSession]] = {}
        self._sent_before = 0
        self._closed = False
        self.resumes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, principal: str) -> ServerSession:
        """Open a new session.

        Raises:
            RequestError: the principal has too many sessions, or the event log cannot be written.
        """
        if self._journal is not None:
            self._journal.check()
        theirs = self._of.setdefault(principal, {})
        if len(theirs) >= self._limits.sessions_per_principal:
            self._make_room(theirs)
        session = self._add(new_prefixed_id("sess"), principal)
        _log.info(
            "session %s opened for %s", session.id, principal, extra=log_fields(session=session.id)
        )
        return session

    def restore(self, state: SessionState) -> ServerSession:
        """Restore a stored session, which waits for its client."""
        session = self._add(state.id, state.principal)
        session.features = frozenset(state.features)
        session.tokens.hashes = list(state.tokens)
        session.log.restore(state.floor)
        self.left(session)
        return session

    def adopt(self, taken: TakenSession) -> ServerSession:
        """Enter a session that this replica has taken over."""
        state = taken.state
        session = self._add(state.id, state.principal)
        session.features = frozenset(state.features)
        session.tokens.hashes = list(state.tokens)
        session.jobs = set(taken.open_jobs)
        log = session.log
        log.restore(state.floor)
        for seq, record in taken.events:
            if seq != log.last + 1:  # the sequence has a hole here: only events above it remain
                log.restore(seq - 1)
            log.append(record)
        if log.last < taken.last:
            log.restore(taken.last)
        log.settled = session.sent = log.last
        session.acked = state.floor
        self.left(session)
        return session

    def lose(self, session_id: str) -> None:
        """Drop a session that another replica holds now; nothing of it is stored any more."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        session.lose()
        self._drop(session)
        _log.info(
            "session %s of %s was taken over elsewhere",
            session.id,
            session.principal,
            extra=log_fields(session=session.id),
        )

    def ids(self) -> list[str]:
        """Return the ids of all sessions."""
        return list(self._sessions)

    def get(self, session_id: str) -> ServerSession | None:
        """Return a session."""
        return self._sessions.get(session_id)

    def _add(self, id: str, principal: str) -> ServerSession:
        log = SessionLog(self._bounds.max_events, self._bounds.max_bytes)
        session = ServerSession(
            id, principal, log, lag_events=self._limits.lag_events, journal=self._journal
        )
        self._sessions[id] = session
        self._of.setdefault(principal, {})[id] = session
        return session

    def _make_room(self, theirs: dict[str, ServerSession]) -> None:
        for session in theirs.values():
            if session.outlet is None and not session.jobs:
                self.expire(session)
                return
        raise request_error(
            names.INTERNAL_ERROR, "too many sessions of this principal", retryable=True
        )

    def resume(
        self, principal: str, session_id: str | None, token: str, last: int
    ) -> ServerSession:
        """Return the session that a client may resume (§6.3).

        A refusal changes nothing: a client that guesses tokens cannot disturb the session.

        Raises:
            PermissionDenied: the token or the principal is not the session's.
            RequestError: RESUME_WINDOW_EXPIRED: the session, or an event above ``last``, is no
                longer held.
        """
        session = self._find(principal, session_id, token)
        if session is None:
            raise _gone("the session is unknown or has expired")
        if not session.tokens.valid(token) or session.principal != principal:
            _log.warning(
                "%s may not resume session %s",
                principal,
                session.id,
                extra=log_fields(session=session.id),
            )
            raise PermissionDenied("the resume token does not belong to this session")
        if last < max(session.log.floor, session.acked):
            raise _gone("the events after last_event_seq are no longer held")
        if last > session.log.last:
            raise _gone("last_event_seq is higher than any number sent in this session")
        self.resumes += 1
        return session

    @property
    def sent(self) -> int:
        """Number of events that were passed to a connection, those of expired sessions included."""
        return self._sent_before + sum(session.sent for session in self._sessions.values())

    @property
    def unsent(self) -> int:
        """Number of events that were not passed to a connection."""
        return sum(session.unsent for session in self._sessions.values())

    @property
    def behind(self) -> int:
        """Number of sessions for which agents wait."""
        return sum(session.behind for session in self._sessions.values())

    def _find(self, principal: str, session_id: str | None, token: str) -> ServerSession | None:
        if session_id:
            return self._sessions.get(session_id)
        for session in self._of.get(principal, {}).values():
            if session.tokens.valid(token):
                return session
        return None

    def supports(self, principal: str, feature: str) -> bool:
        """Whether any session of a principal has negotiated a feature."""
        theirs = self._of.get(principal, {})
        return any(feature in session.features for session in theirs.values())

    def left(self, session: ServerSession) -> None:
        """Start the resume window of a session that lost its connection."""
        if self._closed or session.expired or session.lost:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        loop = asyncio.get_running_loop()
        session.expiry = loop.call_later(self._window, partial(self._due, session))

    def _due(self, session: ServerSession) -> None:
        session.expiry = None
        if session.outlet is not None:
            return
        if session.jobs:
            self.left(session)  # its jobs keep running; the client may resume to get their outcomes
        else:
            self.expire(session)

    def expire(self, session: ServerSession) -> None:
        """End a session; its jobs keep running."""
        session.expired = True
        self._drop(session)
        if self._journal is not None:
            self._journal.put(Gone(session_id=session.id))
        fields = log_fields(session=session.id)
        _log.info("session %s of %s expired", session.id, session.principal, extra=fields)

    def _drop(self, session: ServerSession) -> None:
        session.stop()
        if self._sessions.pop(session.id, None) is not None:
            self._sent_before += session.sent
        theirs = self._of.get(session.principal)
        if theirs is not None:
            theirs.pop(session.id, None)
            if not theirs:
                del self._of[session.principal]
        self._on_gone(session)

    def close(self) -> None:
        """Stop the timers; no resume window starts any more."""
        self._closed = True
        for session in self._sessions.values():
            session.stop()


def _gone(message: str) -> RequestError:
    return request_error(names.RESUME_WINDOW_EXPIRED, message)
