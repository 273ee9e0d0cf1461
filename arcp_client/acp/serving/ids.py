"""Makes the ids of sessions: ULIDs that have the same value as the trace id of the session's jobs.

So the list of jobs shows which jobs belong to a session, and nothing has to be stored elsewhere.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ulid import base32

from arcp_client._wire.ids import is_trace_id, new_id

__all__ = ["new_session_id", "session_of", "started_before", "trace_of"]

_SLACK = timedelta(days=1)  # how much the clocks of an editor and a runtime may differ


def new_session_id() -> str:
    """Make the id of a new session."""
    return new_id()


def trace_of(session_id: str) -> str:
    """Return the trace id of a session's jobs.

    Raises:
        ValueError: this is no id of a session.
    """
    try:
        trace = bytes(base32.decode(session_id)).hex()
    except (ValueError, IndexError, KeyError):
        trace = ""
    if not is_trace_id(trace) or session_of(trace) != session_id:
        raise ValueError("this is no id of a session")
    return trace


def session_of(trace_id: str) -> str:
    """Return the session of a trace id."""
    return base32.encode(bytes.fromhex(trace_id))


def started_before(session_id: str) -> datetime:
    """Return a time that is certainly before the session's first job."""
    milliseconds = int(trace_of(session_id)[:12], 16)
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) - _SLACK
    except (OverflowError, OSError, ValueError):
        return datetime(1970, 1, 2, tzinfo=UTC)
