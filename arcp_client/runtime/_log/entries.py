"""The entries that a durable event log stores and returns after a restart."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from arcp_client._wire.stamp import Record

__all__ = [
    "Appended",
    "CredentialState",
    "Entry",
    "Freed",
    "Gone",
    "KeyState",
    "LoggedJobState",
    "Numbered",
    "SessionState",
    "Stored",
    "Trimmed",
    "Watch",
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


class Gone(msgspec.Struct, frozen=True, gc=False):
    """A session or a job was removed."""

    session_id: str | None = None
    job_id: str | None = None


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
    | Gone
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
