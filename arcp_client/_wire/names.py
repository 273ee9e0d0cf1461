"""Names on the wire: those of the specification, and aliases that public runtimes use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["first", "first_text", "present", "status_of", "text_of"]

PROTOCOL: Final = "1.1"

# -- message types (§6, §7) ------------------------------------------------------------------
HELLO: Final = "session.hello"
WELCOME: Final = "session.welcome"
RESUME: Final = "session.resume"
PING: Final = "session.ping"
PONG: Final = "session.pong"
ACK: Final = "session.ack"
LIST_JOBS: Final = "session.list_jobs"
JOBS: Final = "session.jobs"
CLOSE: Final = "session.close"
CLOSED: Final = "session.closed"
BYE: Final = "session.bye"
SESSION_ERROR: Final = "session.error"
SUBMIT: Final = "job.submit"
ACCEPTED: Final = "job.accepted"
EVENT: Final = "job.event"
RESULT: Final = "job.result"
JOB_ERROR: Final = "job.error"
CANCEL: Final = "job.cancel"
CANCELLED: Final = "job.cancelled"
SUBSCRIBE: Final = "job.subscribe"
SUBSCRIBED: Final = "job.subscribed"
UNSUBSCRIBE: Final = "job.unsubscribe"

TERMINALS: Final = frozenset({RESULT, JOB_ERROR})

REFUSED_HANDSHAKES: Final = frozenset({"session.rejected", "session.unauthenticated"})
"""The older family of runtimes refuses a session with these messages."""

LEGACY_TYPES: Final = frozenset(
    {"session.open", "session.accepted", "tool.invoke", "job.started", "nack", *REFUSED_HANDSHAKES}
)
"""Messages of the older family of runtimes, which shares only the version number with this
protocol.
"""

# -- the extensions of this package: see the page "Extensions of the protocol" ---------------
PREFIX: Final = "x-vendor.arcp-client."
ANSWER: Final = f"{PREFIX}answer"
ANSWER_TAKEN: Final = f"{PREFIX}answer_taken"
LIST_QUESTIONS: Final = f"{PREFIX}list_questions"
QUESTIONS: Final = f"{PREFIX}questions"
QUESTIONS_CHANGED: Final = f"{PREFIX}questions_changed"

QUESTION: Final = f"{PREFIX}question"
ANSWERED: Final = f"{PREFIX}answered"
EXPIRED: Final = f"{PREFIX}expired"
WITHDRAWN: Final = f"{PREFIX}withdrawn"

SEND: Final = f"{PREFIX}send"
QUEUED: Final = f"{PREFIX}queued"

SENT: Final = f"{PREFIX}sent"
CONSUMED: Final = f"{PREFIX}consumed"
RETURNED: Final = f"{PREFIX}returned"

WORK_ID: Final = f"{PREFIX}work_id"
"""The field of a submit that names its work."""
PAUSES: Final = f"{PREFIX}pauses"
"""The field of ``lease_constraints`` by which questions stop the clock of the lease."""

# -- features (§6.2) -------------------------------------------------------------------------
HEARTBEAT: Final = "heartbeat"
ACKS: Final = "ack"
LISTING: Final = "list_jobs"
SUBSCRIPTIONS: Final = "subscribe"
LEASE_EXPIRY: Final = "lease_expires_at"
BUDGETS: Final = "cost.budget"
MODEL_USE: Final = "model.use"
CREDENTIALS: Final = "provisioned_credentials"
PROGRESS: Final = "progress"
RESULT_CHUNKS: Final = "result_chunk"
AGENT_VERSIONS: Final = "agent_versions"

MAX_NONCE: Final = 1024
"""Longest nonce of a ping, in characters. A ping with a longer nonce is not answered, because each
pong repeats it.
"""

FEATURES: Final = (
    HEARTBEAT,
    ACKS,
    LISTING,
    SUBSCRIPTIONS,
    LEASE_EXPIRY,
    BUDGETS,
    MODEL_USE,
    CREDENTIALS,
    PROGRESS,
    RESULT_CHUNKS,
    AGENT_VERSIONS,
)
"""The features of the specification."""

ASKING: Final = f"{PREFIX}ask"

STEERING: Final = f"{PREFIX}steer"

WORKS: Final = f"{PREFIX}work"
"""A submit may name its work."""
OFFERED: Final = (*FEATURES, ASKING, STEERING, WORKS)
"""The features that clients and runtimes of this package offer."""

DECLARATIONS: Final = "x-vendor.arcp-client.declarations"
"""The member of an entry of the agent inventory with descriptions and input schemas.

The specification has none. Its value is a list of objects, one for each version that declares
something, with ``version`` (absent for an agent without versions), ``description`` and
``input_schema``. Other clients ignore it.
"""
HISTORY_LAST: Final = f"{PREFIX}history_last"
"""The member of ``job.subscribed`` with the envelope id of the last past event that follows.

It is an empty text if no past event follows. Other clients ignore it.
"""
INPUT_FIELDS: Final = "input_fields"
"""The member of the details of INVALID_REQUEST that names the invalid fields of an input."""

# -- error codes (§12) -----------------------------------------------------------------------
PERMISSION_DENIED: Final = "PERMISSION_DENIED"
LEASE_SUBSET_VIOLATION: Final = "LEASE_SUBSET_VIOLATION"
JOB_NOT_FOUND: Final = "JOB_NOT_FOUND"
DUPLICATE_KEY: Final = "DUPLICATE_KEY"
AGENT_NOT_AVAILABLE: Final = "AGENT_NOT_AVAILABLE"
AGENT_VERSION_NOT_AVAILABLE: Final = "AGENT_VERSION_NOT_AVAILABLE"
CODE_CANCELLED: Final = "CANCELLED"
TIMEOUT: Final = "TIMEOUT"
RESUME_WINDOW_EXPIRED: Final = "RESUME_WINDOW_EXPIRED"
HEARTBEAT_LOST: Final = "HEARTBEAT_LOST"
LEASE_EXPIRED: Final = "LEASE_EXPIRED"
BUDGET_EXHAUSTED: Final = "BUDGET_EXHAUSTED"
INVALID_REQUEST: Final = "INVALID_REQUEST"
UNAUTHENTICATED: Final = "UNAUTHENTICATED"
INTERNAL_ERROR: Final = "INTERNAL_ERROR"

QUESTION_NOT_FOUND: Final = "QUESTION_NOT_FOUND"
QUESTION_ANSWERED: Final = "QUESTION_ANSWERED"
QUESTION_CLOSED: Final = "QUESTION_CLOSED"
QUESTION_EXPIRED: Final = "QUESTION_EXPIRED"
INVALID_ANSWER: Final = "INVALID_ANSWER"
JOB_ENDED: Final = "JOB_ENDED"

RETRYABLE_BY_DEFAULT: Final = frozenset({INTERNAL_ERROR, HEARTBEAT_LOST})

# -- statuses (§7.3) -------------------------------------------------------------------------
SUCCESS: Final = "success"
ERROR: Final = "error"
STATUS_CANCELLED: Final = "cancelled"
TIMED_OUT: Final = "timed_out"
ENDED: Final = frozenset({SUCCESS, ERROR, STATUS_CANCELLED, TIMED_OUT})
"""Statuses of a job that has ended; every other status may still change."""
STATUS_ALIASES: Final = {
    "timedout": TIMED_OUT,
    "canceled": STATUS_CANCELLED,
    "completed": SUCCESS,
    "failed": ERROR,
}

_STATUSES: Final = frozenset({"pending", "running", *ENDED})

CREDENTIAL_ROTATED: Final = "credential_rotated"
"""The phase of a status event that carries a new credential value (§9.8)."""
ROTATED_ID_NAMES: Final = ("id", "credential_id")
ROTATED_VALUE_NAMES: Final = ("value", "credential_value")

# -- fields under several names --------------------------------------------------------------
REPLY_TO_NAMES: Final = ("request_id", "reply_to")
RESULT_NAMES: Final = ("result", "output", "value")
CREATED_NAMES: Final = ("created_at", "submitted_at")
DETAILS_NAMES: Final = ("details", "detail")


def first(payload: Mapping[str, Any], names: tuple[str, ...], default: Any = None) -> Any:
    """Return the first present value that is not null, in the order of ``names``."""
    for name in names:
        value = payload.get(name)
        if value is not None:
            return value
    return default


def present(payload: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the first present value, in the order of ``names``; an explicit null counts."""
    for name in names:
        if name in payload:
            return payload[name]
    return None


def first_text(payload: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Return the first non-empty string, in the order of ``names``."""
    for name in names:
        value = text_of(payload.get(name))
        if value:
            return value
    return None


def text_of(value: Any) -> str | None:
    """Return an encodable string, or ``None``. Unpaired surrogates are joined or replaced."""
    if not isinstance(value, str):
        return None
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def status_of(value: Any) -> str:
    """Return a status in the specification's spelling, or an unknown status unchanged."""
    text = text_of(value) or ""
    word = text.lower().replace("-", "_")
    word = STATUS_ALIASES.get(word, word)
    return word if word in _STATUSES else text
