"""The lines of a transcript: one class for each type.

Unknown fields of a line are kept in ``extra``, and a line of an unknown type is an `OtherLine`. So
a transcript of a newer version can be read and written again without loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from arcp_client import _digits as digits
from arcp_client import errors
from arcp_client._scrubbing import Scrubber
from arcp_client.errors import ArcpError
from arcp_client.events import KINDS, Event, Unknown
from arcp_client.job import JobHandle
from arcp_client.models import RuntimeInfo, SessionInfo
from arcp_client.version import __version__

__all__ = [
    "FAMILY",
    "SCHEMA",
    "EndLine",
    "EventLine",
    "Header",
    "JobLine",
    "Line",
    "OtherLine",
    "OutcomeLine",
    "encode",
    "entry",
    "from_fields",
    "header",
    "job",
    "outcome",
]

FAMILY = "arcp-client.transcript/"
SCHEMA = f"{FAMILY}1"

RECORDER = f"arcp-client {__version__}"
_EVENT = TypeAdapter(Event)
_NOBODY = RuntimeInfo()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a transcript.

    Attributes:
        at: seconds since the recording began, by a monotonic clock.
        extra: fields that this version does not know, unchanged.
    """

    type: ClassVar[str] = ""

    at: float = 0.0
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the line in JSON form, without empty fields."""
        said = {name: value for name, value in self._own().items() if value not in (None, "", {})}
        return {**self.extra, "type": self.type, "at": round(self.at, 6), **said}

    def _own(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _read(cls, fields: dict[str, Any], at: float) -> Self:
        return cls(at=at, extra=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header(Line):
    """The first line: describes the recording.

    Attributes:
        created_at: when the recording began, in UTC; ``None`` if unknown.
        runtime: the runtime of the jobs.
        dialect: the runtime's dialect of the protocol.
        recorder: the program that wrote the file.
        scrubbed: whether secrets were masked.
    """

    type: ClassVar[str] = "header"

    created_at: datetime | None = None
    runtime: RuntimeInfo = _NOBODY
    dialect: str = ""
    recorder: str = ""
    scrubbed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the line in JSON form; its schema comes first."""
        return {"schema": SCHEMA, **Line.to_dict(self)}

    def _own(self) -> dict[str, Any]:
        at = self.created_at
        who = {"name": self.runtime.name, "version": self.runtime.version}
        return {
            "created_at": at.astimezone(UTC).isoformat() if at is not None else None,
            "runtime": who if any(who.values()) else None,
            "dialect": self.dialect,
            "recorder": self.recorder,
            "scrubbed": self.scrubbed,
        }

    @classmethod
    def _read(cls, fields: dict[str, Any], at: float) -> Header:
        fields.pop("schema", None)
        who = _take(fields, "runtime", dict) or {}
        name, version = (str(who.get(word) or "") for word in ("name", "version"))
        return cls(
            at=at,
            created_at=_moment(fields, "created_at"),
            runtime=RuntimeInfo(name, version),
            dialect=_take(fields, "dialect", str) or "",
            recorder=_take(fields, "recorder", str) or "",
            scrubbed=_take(fields, "scrubbed", bool) or False,
            extra=fields,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine(Line):
    """The recording of a job begins. The fields are those of `arcp_client.JobHandle` at that time.

    Attributes:
        job_id: the job's id; never empty.
        lease: namespace to patterns.
        budget: currency to the remaining amount, a decimal number as a string.
    """

    type: ClassVar[str] = "job"

    job_id: str
    agent: str = ""
    status: str = ""
    lease: Mapping[str, list[str]] = field(default_factory=dict)
    expires_at: datetime | None = None
    budget: Mapping[str, str] = field(default_factory=dict)
    trace_id: str | None = None
    parent_job_id: str | None = None

    def _own(self) -> dict[str, Any]:
        expires = self.expires_at
        return {
            "job_id": self.job_id,
            "agent": self.agent,
            "status": self.status,
            "lease": dict(self.lease),
            "expires_at": expires.astimezone(UTC).isoformat() if expires is not None else None,
            "budget": dict(self.budget),
            "trace_id": self.trace_id,
            "parent_job_id": self.parent_job_id,
        }

    @classmethod
    def _read(cls, fields: dict[str, Any], at: float) -> JobLine:
        lease = _take(fields, "lease", dict) or {}
        budget = _take(fields, "budget", dict) or {}
        return cls(
            at=at,
            job_id=_job_id(fields),
            agent=_take(fields, "agent", str) or "",
            status=_take(fields, "status", str) or "",
            lease={name: _texts(f"lease {name}", found) for name, found in lease.items()},
            expires_at=_moment(fields, "expires_at"),
            budget={name: str(amount) for name, amount in budget.items()},
            trace_id=_take(fields, "trace_id", str),
            parent_job_id=_take(fields, "parent_job_id", str),
            extra=fields,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine(Line):
    """An event, in the form of `Event.to_dict`.

    Attributes:
        event: the event; an `arcp_client.events.Unknown` if it does not fit its class.
        job_id: the job of the event; for an event without a job, the job in whose stream it came.
        fields: the event as stored, with the digits of its numbers; ``None`` if the event was not
            read from a file.
    """

    type: ClassVar[str] = "event"

    event: Event
    job_id: str | None = None
    fields: Mapping[str, Any] | None = field(default=None, compare=False)

    def _own(self) -> dict[str, Any]:
        event = dict(self.fields) if self.fields is not None else digits.fields_of(self.event)
        # Most events name their job; a gap belongs to the stream in which it was detected.
        named = self.job_id if self.job_id != self.event.job_id else None
        return {"job_id": named, "event": event}

    @classmethod
    def _read(cls, fields: dict[str, Any], at: float) -> EventLine:
        found = _take(fields, "event", dict)
        if found is None:
            raise ValueError("an event line must have an event")
        event = _event(found)
        job_id = _take(fields, "job_id", str) or event.job_id
        return cls(at=at, event=event, job_id=job_id, fields=found, extra=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeLine(Line):
    """A job ended, or its recording stopped.

    Attributes:
        job_id: the job's id; never empty.
        status: the last known status; ``success``, ``error``, ``cancelled`` or ``timed_out`` if the
            job ended.
        error: for a job that failed or has no result: ``type``, the name of the error's class,
            ``message``, and ``code``, ``retryable``, ``details`` if present.
    """

    type: ClassVar[str] = "outcome"

    job_id: str
    status: str = ""
    error: Mapping[str, Any] | None = None

    def to_error(self) -> ArcpError | None:
        """Return the error that the job's ``result()`` raised; ``None`` if it raised none.

        An error of an unknown class becomes a `JobFailed` with its code.
        """
        if self.error is None:
            return None
        message, code = str(self.error.get("message") or ""), self.error.get("code")
        given: dict[str, Any] = {"code": code} if isinstance(code, str) and code else {}
        cls: Any = getattr(errors, str(self.error.get("type")), None)
        known = isinstance(cls, type) and issubclass(cls, ArcpError)
        if known and not issubclass(cls, errors.JobFailed | errors.RequestError):
            found: ArcpError = cls(message)
        else:
            made: Any = cls if known else errors.JobFailed
            retryable, details = bool(self.error.get("retryable")), self.error.get("details")
            found = made(message, **given, retryable=retryable, details=details)
        if isinstance(found, errors.JobError):
            found.job_id = self.job_id
        return found

    def _own(self) -> dict[str, Any]:
        error = dict(self.error) if self.error is not None else None
        return {"job_id": self.job_id, "status": self.status, "error": error}

    @classmethod
    def _read(cls, fields: dict[str, Any], at: float) -> OutcomeLine:
        return cls(
            at=at,
            job_id=_job_id(fields),
            status=_take(fields, "status", str) or "",
            error=_take(fields, "error", dict),
            extra=fields,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLine(Line):
    """The last line of a complete file. ``reason`` is ``complete`` or ``interrupted``."""

    type: ClassVar[str] = "end"

    reason: str = "complete"

    def _own(self) -> dict[str, Any]:
        return {"reason": self.reason}

    @classmethod
    def _read(cls, fields: dict[str, Any], at: float) -> EndLine:
        return cls(at=at, reason=_take(fields, "reason", str) or "complete", extra=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLine(Line):
    """A line of an unknown type; ``kind`` is its type."""

    kind: str

    def to_dict(self) -> dict[str, Any]:
        """Return the line unchanged."""
        return {"type": self.kind, "at": self.at, **self.extra}


_CLASSES: dict[str, type[Line]] = {
    cls.type: cls for cls in (Header, JobLine, EventLine, OutcomeLine, EndLine)
}


_LATEST = 1e15
"""Maximum of ``at`` in seconds: an integer in JSON may exceed every float."""


def from_fields(fields: dict[str, Any], exact: Any = None) -> Line:
    """Make a line from a JSON object, which is consumed.

    Args:
        fields: the object.
        exact: the event of the line with the digits of its numbers, if ``float`` has changed some.

    Raises:
        ValueError: the type is known, but the fields do not fit it.
    """
    kind = _take(fields, "type", str)
    if not kind:
        raise ValueError("a line must have a type")
    at = fields.pop("at", 0.0)
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= _LATEST:
        raise ValueError("at must be a non-negative number of seconds")
    cls = _CLASSES.get(kind)
    if cls is None:
        return OtherLine(at=float(at), kind=kind, extra=fields)
    line = cls._read(fields, float(at))
    if isinstance(line, EventLine) and isinstance(exact, dict):
        return replace(line, fields=exact)
    return line


def _take(fields: dict[str, Any], name: str, kind: type) -> Any:
    """Remove a field and return it; ``None`` if it is absent or null."""
    value = fields.pop(name, None)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name} must be {kind.__name__}, not {type(value).__name__}")
    return value


def _job_id(fields: dict[str, Any]) -> str:
    found: str = _take(fields, "job_id", str) or ""
    if not found:
        raise ValueError("job_id is missing")
    return found


def _moment(fields: dict[str, Any], name: str) -> datetime | None:
    text = _take(fields, name, str)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} is not a time in ISO 8601") from None


def _texts(name: str, found: Any) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f"{name} must be a list of strings")
    return found


def _event(fields: dict[str, Any]) -> Event:
    try:
        return _EVENT.validate_python(fields)
    except ValueError:
        pass
    # The class rejects a value, perhaps of a newer version: the kind is still known.
    told = {name: fields[name] for name in ("seq", "job_id", "ts", "kind") if name in fields}
    try:
        found = _EVENT.validate_python({**told, "body": fields})
    except ValueError:
        kind = fields.get("kind")
        found = Unknown(kind=kind if isinstance(kind, str) else "", body=fields)
    return found


# --------------------------------------------------------------------------- to a line


def header(
    session: SessionInfo | None = None,
    *,
    created_at: datetime | None = None,
    recorder: str = RECORDER,
    scrubbed: bool = True,
) -> Header:
    """Make the first line of a transcript that begins now.

    Args:
        session: the value of `arcp_client.Client.session`.
        created_at: the beginning of the recording; now by default.
        recorder: the program that writes the file.
        scrubbed: whether a `Scrubber` masks secrets.
    """
    return Header(
        created_at=created_at or datetime.now(UTC),
        runtime=session.runtime if session is not None else _NOBODY,
        dialect=session.dialect if session is not None else "",
        recorder=recorder,
        scrubbed=scrubbed,
    )


def job(handle: JobHandle, at: float = 0.0, *, parent_job_id: str | None = None) -> JobLine:
    """Make the line with the state of a job at the beginning of its recording."""
    return JobLine(
        at=at,
        job_id=handle.id,
        agent=handle.agent,
        status=handle.status,
        lease={name: list(handle.lease[name]) for name in handle.lease.namespaces()},
        expires_at=handle.lease_constraints.expires_at,
        budget={currency: str(amount) for currency, amount in handle.budget.items()},
        trace_id=handle.trace_id,
        parent_job_id=parent_job_id,
    )


def entry(event: Event, at: float, *, job_id: str | None = None) -> EventLine:
    """Make the line of one event, ``at`` seconds after the beginning.

    Args:
        event: the event.
        at: seconds since the recording began.
        job_id: the job whose stream contained an event without a job, such as a `Gap`.
    """
    return EventLine(at=at, event=event, job_id=event.job_id or job_id)


def outcome(
    job_id: str, status: str, at: float, *, error: BaseException | None = None
) -> OutcomeLine:
    """Make the line of a job's end, with the error that its ``result()`` raised, if any."""
    told: dict[str, Any] | None = None
    if error is not None:
        message = getattr(error, "message", "") if isinstance(error, ArcpError) else ""
        told = {"type": type(error).__name__, "message": message or str(error)}
        for name in ("code", "retryable", "details"):
            value = getattr(error, name, None)
            if value is not None:
                told[name] = value
    return OutcomeLine(at=at, job_id=job_id, status=status, error=told)


def encode(line: Line, scrubber: Scrubber | None = None) -> bytes:
    """Encode one line of the file, line end included; the scrubber masks secrets.

    The numbers of an event keep their digits. Infinities and NaN become strings, because JSON
    cannot represent them.
    """
    fields = line.to_dict()
    if scrubber is not None:
        fields = _scrubbed(fields, scrubber)
    try:
        text = _dumped(fields)
    except (ValueError, RecursionError):
        text = _dumped(_held(fields))
    return text + b"\n"


def _scrubbed(fields: dict[str, Any], scrubber: Scrubber) -> dict[str, Any]:
    """Mask the line's values, but not the names that define its structure."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _FORM:
            found[name] = value
        elif name == EventLine.type and isinstance(value, dict):
            found[name] = {
                own: each if own == "kind" and each in KINDS else scrubber.field(own, each)
                for own, each in value.items()
            }
        else:
            found[name] = scrubber.field(name, value)
    return found


_FORM = frozenset({"schema", "type", "at"})


def _dumped(value: Any) -> bytes:
    try:
        return digits.dumps(value).encode()
    except UnicodeEncodeError:  # a lone surrogate: only an escape can represent it
        return digits.dumps(value, ascii=True).encode()


_DEEPEST = 200


def _held(value: Any, depth: int = 0) -> Any:
    """Replace values that JSON, or a reader of it, cannot hold by strings."""
    if isinstance(value, dict | list) and depth >= _DEEPEST:
        return "(deeper than can be written)"
    if isinstance(value, dict):
        return {name: _held(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_held(each, depth + 1) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 4096:
        return hex(value)
    return value
