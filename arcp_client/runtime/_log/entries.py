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
    """A session as it is now. Resume tokens are kept as hashes only."""

    id: str
    principal: str
    features: tuple[str, ...]
    tokens: tuple[bytes, ...]
    floor: int


class LoggedJobState(msgspec.Struct, frozen=True):
    """A job as it is now. Times are texts of RFC 3339, amounts texts of decimals."""

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
        seq: its number in the submitting session, or the last one before it if that session does
            not get it.
        session_id: the submitting session; ``None`` if that session does not get the event.
    """

    record: Record
    seq: int
    session_id: str | None


class Numbered(msgspec.Struct, frozen=True, gc=False):
    """The number that a job's event has in a session that subscribed to the job."""

    session_id: str
    seq: int
    job_id: str
    index: int


class Freed(msgspec.Struct, frozen=True, gc=False):
    """A session needs nothing up to a number any more."""

    session_id: str
    floor: int


class Trimmed(msgspec.Struct, frozen=True, gc=False):
    """A job's history starts at an index now."""

    job_id: str
    floor: int


class Watch(msgspec.Struct, frozen=True, gc=False):
    """A session observes a job and gets the event at ``next`` next; ``None``: no longer.

    ``first`` is the index of the first event that it was given.
    """

    session_id: str
    job_id: str
    next: int | None
    first: int = 0


class KeyState(msgspec.Struct, frozen=True, gc=False):
    """What an idempotency key stands for; ``accepted=None``: it is forgotten."""

    principal: str
    key: str
    parameters: bytes = b""
    accepted: bytes | None = None
    at: str = ""


class CredentialState(msgspec.Struct, frozen=True, gc=False):
    """A credential of a job was issued, or is revoked. Its value is not kept."""

    job_id: str
    credential_id: str
    live: bool


class Gone(msgspec.Struct, frozen=True, gc=False):
    """A session or a job is forgotten."""

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
    """About how many bytes an entry holds while it waits to be written."""
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
    """All that a log kept: what the entries written so far amount to, each list in order."""

    sessions: list[SessionState] = field(default_factory=list)
    jobs: list[LoggedJobState] = field(default_factory=list)
    forgotten: list[LoggedJobState] = field(default_factory=list)
    """Jobs that are gone, with events that some session may still resume."""
    appended: list[Appended] = field(default_factory=list)
    """The events of all jobs, each job's in order, without the job's part of the envelope."""
    numbered: list[Numbered] = field(default_factory=list)
    """The numbers that events have in all sessions, each session's in order."""
    watches: list[Watch] = field(default_factory=list)
    keys: list[KeyState] = field(default_factory=list)
    credentials: list[CredentialState] = field(default_factory=list)
    """Those that are not revoked yet."""
