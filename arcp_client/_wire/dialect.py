"""Every name on the wire in one place, and how the known runtimes differ.

The specification's names are constants here. Where public runtimes use others, the aliases stand
beside them, and `Dialect` holds the behaviour that a client must adapt to, chosen from the welcome.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

__all__ = [
    "DIALECTS",
    "Dialect",
    "first",
    "first_text",
    "present",
    "recognise",
    "status_of",
    "text_of",
]

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
"""How the older family of runtimes refuses a session."""

LEGACY_TYPES: Final = frozenset(
    {"session.open", "session.accepted", "tool.invoke", "job.started", "nack", *REFUSED_HANDSHAKES}
)
"""Messages of the older family of runtimes, which shares the version number and nothing else."""

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
"""Characters of a ping's nonce; a longer one is not answered: it comes back with each pong."""

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

RETRYABLE_BY_DEFAULT: Final = frozenset({INTERNAL_ERROR, HEARTBEAT_LOST})

# -- statuses (§7.3) -------------------------------------------------------------------------
SUCCESS: Final = "success"
ERROR: Final = "error"
STATUS_CANCELLED: Final = "cancelled"
TIMED_OUT: Final = "timed_out"
ENDED: Final = frozenset({SUCCESS, ERROR, STATUS_CANCELLED, TIMED_OUT})
"""Statuses of a job that has ended; any other may still change."""
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
    """The first of several names that is present and not null."""
    for name in names:
        value = payload.get(name)
        if value is not None:
            return value
    return default


def present(payload: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The first of several names that is present, null or not: a null that was sent is a value."""
    for name in names:
        if name in payload:
            return payload[name]
    return None


def first_text(payload: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of several names that holds a text that is not empty."""
    for name in names:
        value = text_of(payload.get(name))
        if value:
            return value
    return None


def text_of(value: Any) -> str | None:
    """A text that can be encoded, or ``None``: stray surrogates are paired up or replaced."""
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
    """A status word in the specification's spelling; one that it does not have stays as it is."""
    text = text_of(value) or ""
    word = text.lower().replace("-", "_")
    word = STATUS_ALIASES.get(word, word)
    return word if word in _STATUSES else text


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How one runtime differs from the specification, as far as a client must know.

    Attributes:
        name: ``arcp-client`` (this package), ``python``, ``typescript``, ``csharp``, ``java``,
            ``go``, ``ruby`` or ``unknown``.
        strict: ``event_seq`` can be trusted: gaps are real and repeats are known by number.
        patience: seconds in which a hole in the numbers may fill itself: frames of several jobs
            overtake one another, since they are numbered before they are queued.
        watched_space: where events of a watched job are numbered: with the session's own events,
            in a space of their own, or as in the session that submitted the job.
        one_at_a_time: refusals carry no correlation, so only one request may be in flight.
        close_with: the message that ends a session; ``drop`` where any would cancel the jobs.
        jobs_survive_drop: events emitted while the link is down are replayed by a resume.
        deaf_after_resume: a resumed link gets nothing of jobs that were submitted before it but
            what had happened until then; the next resume brings the rest.
        hears_by_subscribing: a resumed session hears of such a job again once it subscribes to it.
        counts_by_job: the starting point of a history counts the job's own events.
        refuses_caught_up: a resume that has missed nothing is refused, one event earlier is not.
        stale_subscriptions: a subscription outlives its link and stays bound to it; the resumed
            session must end it before it can have a new one.
        renames_copies: an event gets a new envelope id each time it is sent to a subscriber, so
            that a repeat is known by its content and its time only.
        mixes_histories: events of a history come several times or out of order: live ones among
            it, or the logs of all observers of the job one after the other. It ends before the
            answer to a ping that follows the subscription.
        repeats_trace: a repeated acceptance has the trace id of the submit that started the job
            (§7.2), not that of the one it answers.
        acks_free_histories: what any session acknowledged is missing from the histories that
            others ask for; so nothing is acknowledged (§6.5).
        exact_sizes: ``result_size`` is the length of a streamed result in bytes (§8.4); else it may
            count characters, or be an estimate.
        session_ends_jobs: a session that is closed, or whose link is lost, takes its jobs with it.
        resumes_late: a resume is refused as expired while the runtime believes in the old link.
        flat_leases: leases are granted by name, without patterns.
        max_frame: bytes of the longest frame that the runtime takes over a WebSocket; it closes
            the link on a longer one.
        max_line: the same over pipes, for a line without its end; there the runtime ends.
        stored_outcomes: the terminal message of a job that has ended is sent again to whoever
            submits again under the job's key.
    """

    name: str
    strict: bool = True
    patience: float = 0.0
    watched_space: Literal["session", "own", "submitter"] = "session"
    one_at_a_time: bool = False
    close_with: Literal["close", "bye", "both", "drop"] = "both"
    jobs_survive_drop: bool = True
    deaf_after_resume: bool = False
    hears_by_subscribing: bool = False
    counts_by_job: bool = False
    refuses_caught_up: bool = False
    stale_subscriptions: bool = False
    renames_copies: bool = False
    mixes_histories: bool = False
    repeats_trace: bool = True
    acks_free_histories: bool = False
    exact_sizes: bool = False
    session_ends_jobs: bool = False
    resumes_late: bool = False
    flat_leases: bool = False
    max_frame: int | None = None
    max_line: int | None = None
    stored_outcomes: bool = False

    @property
    def loses_events(self) -> bool:
        """What a job says while its link is gone goes nowhere, and the job goes on."""
        return not self.jobs_survive_drop and not self.session_ends_jobs


DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        Dialect(name="arcp-client", close_with="close", exact_sizes=True),
        Dialect(
            name="python",
            strict=False,
            watched_space="own",
            one_at_a_time=True,
            close_with="bye",
            jobs_survive_drop=False,
            stale_subscriptions=True,
            renames_copies=True,
            acks_free_histories=True,
            max_frame=2**20,
            max_line=2**16,
            stored_outcomes=True,
        ),
        Dialect(
            name="typescript",
            strict=False,
            one_at_a_time=True,
            close_with="bye",
            jobs_survive_drop=False,
            refuses_caught_up=True,
            renames_copies=True,
            session_ends_jobs=True,
        ),
        Dialect(
            name="csharp",
            strict=False,
            one_at_a_time=True,
            close_with="close",
            deaf_after_resume=True,
            counts_by_job=True,
        ),
        Dialect(
            name="java",
            patience=0.5,
            close_with="drop",
            resumes_late=True,
            mixes_histories=True,
            renames_copies=True,
            repeats_trace=False,
        ),
        Dialect(
            name="go",
            patience=0.5,
            close_with="close",
            mixes_histories=True,
            acks_free_histories=True,
            resumes_late=True,
            max_frame=2**20,
            max_line=2**20 - 1,
        ),
        Dialect(
            name="ruby",
            strict=False,
            watched_space="submitter",
            close_with="bye",
            deaf_after_resume=True,
            hears_by_subscribing=True,
            flat_leases=True,
        ),
        Dialect(name="unknown", patience=0.5, exact_sizes=True),
    )
}


def recognise(welcome: Mapping[str, Any], envelope_id: str = "") -> Dialect:
    """The dialect that a welcome was written in, from its marks; else ``unknown``.

    Runtime names are chosen by whoever deploys them, so the shape decides. This package names
    itself in ``runtime.sdk``. The Ruby runtime has flat names; the Python one repeats the session
    id in the payload. The others are told by how they make identifiers: TypeScript and C# put
    ``msg_`` before envelope ids, and C# leaves ``versions`` out where TypeScript has an empty list;
    Go's envelope ids are UUIDs; Java's are bare ULIDs beside a resume token that is a random UUID.
    """
    runtime = welcome.get("runtime")
    sdk = runtime.get("sdk") if isinstance(runtime, Mapping) else None
    if isinstance(sdk, str):
        family = sdk.partition("/")[0]
        if family in DIALECTS:
            return DIALECTS[family]
    if "runtime_name" in welcome:
        return DIALECTS["ruby"]
    token = text_of(welcome.get("resume_token")) or ""
    if "session_id" in welcome and token.startswith("rtk_"):
        return DIALECTS["python"]
    if envelope_id.startswith("msg_"):
        tidy = token.startswith("rt_") and _lists_versions(welcome)
        return DIALECTS["typescript" if tidy else "csharp"]
    if _UUID.fullmatch(envelope_id):
        return DIALECTS["go"]
    if _ULID.fullmatch(envelope_id) and _RANDOM_UUID.fullmatch(token):
        return DIALECTS["java"]
    return DIALECTS["unknown"]


_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RANDOM_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def _lists_versions(welcome: Mapping[str, Any]) -> bool:
    """Whether every agent in the inventory has a list of versions, be it empty."""
    capabilities = welcome.get("capabilities")
    agents = capabilities.get("agents") if isinstance(capabilities, Mapping) else None
    entries = agents if isinstance(agents, list) else []
    return all("versions" in entry for entry in entries if isinstance(entry, Mapping))
