"""The entries that a durable event log stores and returns after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from arcp_client._wire.stamp import Record

__all__ = [
    "JOB_ENDED",
    "QUESTION_OPENED",
    "QUESTION_SETTLED",
    "Appended",
    "CredentialState",
    "Entry",
    "Forgotten",
    "Freed",
    "Gone",
    "JobInput",
    "KeyState",
    "LoggedJobState",
    "MessageState",
    "Numbered",
    "QuestionState",
    "SessionState",
    "Started",
    "Stored",
    "Trimmed",
    "Watch",
    "WebhookCall",
    "WebhookDone",
    "webhook_body",
    "weight",
]


class SessionState(msgspec.Struct, frozen=True):
    """The present state of a session. Resume tokens are stored only as hashes."""

    id: str
    principal: str
    features: tuple[str, ...]
    tokens: tuple[bytes, ...]
    floor: int


class LoggedJobState(msgspec.Struct, frozen=True):
    """The present state of a job. Times are RFC 3339 strings, amounts decimal strings."""

    id: str
    number: int
    principal: str
    agent: str
    owner_id: str
    authorities: tuple[str, ...]
    parent_id: str | None
    delegate_id: str | None
    trace_id: str
    lease: dict[str, tuple[str, ...]]
    expires_at: str | None
    created: str
    status: str
    accepted: bytes
    remaining: dict[str, str]
    ended: str | None
    work_id: str | None = None


class JobInput(msgspec.Struct, frozen=True):
    """What a replica needs besides the state of a job to run it.

    Attributes:
        input: the input, as JSON.
        max_runtime: seconds after which the job is ended.
        plain: the submitting session takes no streamed results.
        extensions: the ``extensions`` of the submit, as JSON, for telemetry.
    """

    input: bytes
    max_runtime: float | None = None
    plain: bool = False
    extensions: bytes | None = None


class Appended(msgspec.Struct, frozen=True, gc=False):
    """An event of a job.

    Attributes:
        record: the event.
        seq: its number in the submitting session, or the last number before it if that session does
            not receive it.
        session_id: the submitting session; ``None`` if that session does not receive the event.
    """

    record: Record
    seq: int
    session_id: str | None


class Numbered(msgspec.Struct, frozen=True, gc=False):
    """The number of a job's event in a session that subscribed to the job."""

    session_id: str
    seq: int
    job_id: str
    index: int


class Freed(msgspec.Struct, frozen=True, gc=False):
    """A session no longer needs the events up to a number."""

    session_id: str
    floor: int


class Trimmed(msgspec.Struct, frozen=True, gc=False):
    """A job's history now starts at an index."""

    job_id: str
    floor: int


class Watch(msgspec.Struct, frozen=True, gc=False):
    """A subscription of a session to a job.

    ``first`` is the index of the first delivered event, ``next`` that of the next one;
    ``next=None`` ends the subscription.
    """

    session_id: str
    job_id: str
    next: int | None
    first: int = 0


class KeyState(msgspec.Struct, frozen=True, gc=False):
    """The submit that used an idempotency key; ``accepted=None`` removes the key."""

    principal: str
    key: str
    parameters: bytes = b""
    accepted: bytes | None = None
    at: str = ""


class CredentialState(msgspec.Struct, frozen=True, gc=False):
    """A credential of a job was issued or revoked. Its value is not stored."""

    job_id: str
    credential_id: str
    live: bool


class QuestionState(msgspec.Struct, frozen=True):
    """The present state of a question. Times are RFC 3339 strings, values are JSON.

    Attributes:
        id: the question's id.
        number: its position among all questions of this runtime.
        principal: the principal that submitted the job.
        agent: the name of the agent, without a version.
        work: the job's ``work_id``, or else its id.
        durable_work: the job has a ``work_id``, so a later job may ask the question again.
        key: identifies the question within its work.
        job_ids: the jobs that have asked it, the newest last.
        text: the question.
        schema: the schema of its answers.
        options: the options, if there are any.
        to: the principals that may answer.
        asked_at: when it was asked.
        expires_at: when it expires.
        default: the default, if there is one.
        state: ``open``, ``answered``, ``defaulted``, ``expired`` or ``withdrawn``.
        value: the answer.
        by: the principal that answered.
        client: the client that answered.
        closed_at: when it was closed.
        answer_key: the idempotency key of the answer.
        paused: it has stopped the clock of its job's lease.
    """

    id: str
    number: int
    principal: str
    agent: str
    work: str
    durable_work: bool
    key: str
    job_ids: tuple[str, ...]
    text: str
    schema: bytes
    options: bytes | None
    to: tuple[str, ...]
    asked_at: str
    expires_at: str
    default: bytes | None
    state: str = "open"
    value: bytes | None = None
    by: str = ""
    client: str = ""
    closed_at: str = ""
    answer_key: str | None = None
    paused: bool = False

    @property
    def size(self) -> int:
        """Its approximate size, in bytes."""
        fields = (self.schema, self.options, self.default, self.value)
        texts = len(self.text) + len(self.key) + sum(map(len, self.to))
        return _ENTRY_BYTES + texts + sum(len(each or b"") for each in fields)


class Forgotten(msgspec.Struct, frozen=True, gc=False):
    """A question is no longer kept."""

    id: str


class Gone(msgspec.Struct, frozen=True, gc=False):
    """A session or a job was removed."""

    session_id: str | None = None
    job_id: str | None = None


class Started(msgspec.Struct, frozen=True, gc=False):
    """The agent of a job was started. Only logs that other replicas read store this."""

    job_id: str


class MessageState(msgspec.Struct, frozen=True, gc=False):
    """The present state of a message to a job. Only logs that other replicas read store this.

    Attributes:
        job_id: the job.
        message_id: the message.
        state: ``queued``, ``consumed`` or ``returned``.
        fingerprint: the same for the same message.
    """

    job_id: str
    message_id: str
    state: str
    fingerprint: bytes


QUESTION_OPENED: Final = "question.opened"
QUESTION_SETTLED: Final = "question.settled"
JOB_ENDED: Final = "job.ended"
"""What webhooks are called for."""


class WebhookCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a webhook that is not made yet.

    Attributes:
        endpoint: identifies the URL.
        id: the id of the call, which also identifies the event.
        job_id: the job; its calls are made in order.
        at: when the event was emitted, in RFC 3339.
        body: the body of the call.
    """

    endpoint: str
    id: str
    job_id: str
    at: str
    body: bytes


def webhook_body(type: str, at: str, data: Mapping[str, Any]) -> bytes:
    """Encode the body of a call."""
    return msgspec.json.encode({"type": type, "timestamp": at, "data": data})


class WebhookDone(msgspec.Struct, frozen=True, gc=False):
    """A call of a webhook was made, or is given up."""

    endpoint: str
    id: str


Entry = (
    SessionState
    | LoggedJobState
    | Appended
    | Numbered
    | Freed
    | Trimmed
    | Watch
    | KeyState
    | CredentialState
    | QuestionState
    | Forgotten
    | Gone
    | Started
    | MessageState
    | WebhookCall
    | WebhookDone
)


_ENTRY_BYTES = 256


def weight(entry: Entry) -> int:
    """Return the approximate size of an entry that waits to be written, in bytes."""
    if type(entry) is Appended:
        return entry.record.size
    if type(entry) is LoggedJobState:
        texts = sum(len(text) for patterns in entry.lease.values() for text in patterns)
        return 4 * _ENTRY_BYTES + len(entry.accepted) + texts
    if type(entry) is KeyState:
        return _ENTRY_BYTES + len(entry.key) + len(entry.accepted or b"")
    if type(entry) is QuestionState:
        return entry.size
    if type(entry) is WebhookCall:
        return _ENTRY_BYTES + len(entry.body)
    return _ENTRY_BYTES


@dataclass(slots=True)
class Stored:
    """The content of a log after a restart, each list in order."""

    sessions: list[SessionState] = field(default_factory=list)
    jobs: list[LoggedJobState] = field(default_factory=list)
    forgotten: list[LoggedJobState] = field(default_factory=list)
    """Removed jobs with events that a session may still resume."""
    appended: list[Appended] = field(default_factory=list)
    """The events of all jobs, in order within each job, without the job's part of the envelope."""
    numbered: list[Numbered] = field(default_factory=list)
    """The numbers of events in all sessions, in order within each session."""
    watches: list[Watch] = field(default_factory=list)
    keys: list[KeyState] = field(default_factory=list)
    credentials: list[CredentialState] = field(default_factory=list)
    """The credentials that are not revoked yet."""
    questions: list[QuestionState] = field(default_factory=list)
    """The questions, open and closed, in the order in which they were asked."""
    calls: list[WebhookCall] = field(default_factory=list)
    """The calls of webhooks that are not made yet, in the order of their events."""
