"""Replies of a runtime (§6, §7), read tolerantly: payload in, frozen values out.

Runtimes leave fields out, send null, strings for numbers, and the same thing under other names.
Nothing here raises; what cannot be read is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from pydantic import SecretStr, ValidationError

from ..models import (
    AgentInfo,
    Budget,
    Credential,
    JobSummary,
    Lease,
    LeaseConstraints,
    RuntimeInfo,
    SessionInfo,
)
from . import dialect
from .codec import ControlFrame
from .dialect import Dialect, first
from .ids import parse_time

__all__ = [
    "Accepted",
    "JobPage",
    "Refusal",
    "Subscribed",
    "Welcome",
    "read_accepted",
    "read_jobs",
    "read_refusal",
    "read_subscribed",
    "read_welcome",
    "reply_to",
]


@dataclass(frozen=True, slots=True)
class Welcome:
    """``session.welcome`` (§6.2)."""

    info: SessionInfo
    resume_token: SecretStr | None
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Accepted:
    """``job.accepted`` (§7.1)."""

    job_id: str
    agent: str = ""
    lease: Lease = Lease()
    constraints: LeaseConstraints = LeaseConstraints()
    budget: Budget | None = None
    credentials: tuple[Credential, ...] = ()
    accepted_at: datetime | None = None
    trace_id: str | None = None
    parent_job_id: str | None = None
    delegate_id: str | None = None


@dataclass(frozen=True, slots=True)
class Subscribed:
    """``job.subscribed`` (§7.6)."""

    job_id: str
    status: str = ""
    agent: str = ""
    lease: Lease = Lease()
    constraints: LeaseConstraints = LeaseConstraints()
    budget: Budget | None = None
    credentials: tuple[Credential, ...] = ()
    trace_id: str | None = None
    parent_job_id: str | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """``session.jobs`` (§6.6)."""

    jobs: tuple[JobSummary, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error that answers a request or ends a session (§12)."""

    code: str
    message: str
    retryable: bool
    details: Any


def reply_to(frame: ControlFrame) -> str | None:
    """The id of the request that a frame says it answers, if it says so."""
    named = first(frame.payload, dialect.REPLY_TO_NAMES)
    if isinstance(named, str):
        return named
    return frame.correlation_id


def read_welcome(frame: ControlFrame, offered: frozenset[str]) -> Welcome:
    """The session that a welcome opens; features are those that both sides offered (§6.2)."""
    payload = frame.payload
    capabilities = _mapping(payload.get("capabilities"))
    features = offered.intersection(_strings(capabilities.get("features")))
    spoken = dialect.recognise(payload, frame.id)
    interval = _positive(payload.get("heartbeat_interval_sec"))
    info = SessionInfo(
        id=frame.session_id or _text(payload.get("session_id")) or "",
        runtime=_runtime(payload),
        features=frozenset(features),
        agents=_agents(capabilities.get("agents")),
        heartbeat_interval=interval if dialect.HEARTBEAT in features else None,
        resume_window=_positive(payload.get("resume_window_sec")),
        dialect=spoken.name,
    )
    token = _text(payload.get("resume_token"))
    return Welcome(info, SecretStr(token) if token else None, spoken)


def read_accepted(frame: ControlFrame) -> Accepted | None:
    """An acceptance, or ``None`` if it names no job."""
    payload = frame.payload
    job_id = _text(payload.get("job_id")) or frame.job_id
    if not job_id:
        return None
    return Accepted(
        job_id=job_id,
        agent=_text(payload.get("agent")) or "",
        lease=read_lease(payload.get("lease")),
        constraints=_constraints(payload.get("lease_constraints")),
        budget=read_budget(payload.get("budget")),
        credentials=_credentials(payload.get("credentials")),
        accepted_at=parse_time(payload.get("accepted_at")),
        trace_id=_text(payload.get("trace_id")) or frame.trace_id,
        parent_job_id=_text(payload.get("parent_job_id")),
        delegate_id=_text(payload.get("delegate_id")),
    )


def read_subscribed(frame: ControlFrame) -> Subscribed | None:
    """A confirmed subscription, or ``None`` if it names no job."""
    payload = frame.payload
    job_id = _text(payload.get("job_id")) or frame.job_id
    if not job_id:
        return None
    return Subscribed(
        job_id=job_id,
        status=dialect.status_of(payload.get("current_status")),
        agent=_text(payload.get("agent")) or "",
        lease=read_lease(payload.get("lease")),
        constraints=_constraints(payload.get("lease_constraints")),
        budget=read_budget(payload.get("budget")),
        credentials=_credentials(payload.get("credentials")),
        trace_id=_text(payload.get("trace_id")) or frame.trace_id,
        parent_job_id=_text(payload.get("parent_job_id")),
    )


def read_jobs(frame: ControlFrame) -> JobPage:
    """One page of a listing; entries without a job id are left out."""
    jobs = []
    for entry in _items(frame.payload.get("jobs")):
        if not isinstance(entry, Mapping):
            continue
        job_id = _text(entry.get("job_id"))
        if not job_id:
            continue
        last = entry.get("last_event_seq")
        jobs.append(
            JobSummary(
                job_id=job_id,
                agent=_text(entry.get("agent")) or "",
                status=dialect.status_of(entry.get("status")),
                lease=read_lease(entry["lease"]) if entry.get("lease") is not None else None,
                parent_job_id=_text(entry.get("parent_job_id")),
                created_at=parse_time(first(entry, dialect.CREATED_NAMES)),
                trace_id=_text(entry.get("trace_id")),
                last_event_seq=last if type(last) is int else None,
            )
        )
    return JobPage(tuple(jobs), _text(frame.payload.get("next_cursor")))


def read_refusal(frame: ControlFrame) -> Refusal:
    """Code, text and the runtime's word on retrying; a missing word follows the code (§12)."""
    payload = frame.payload
    code = _text(payload.get("code")) or dialect.INTERNAL_ERROR
    retryable = payload.get("retryable")
    return Refusal(
        code=code,
        message=_text(payload.get("message")) or "",
        retryable=retryable
        if isinstance(retryable, bool)
        else code in dialect.RETRYABLE_BY_DEFAULT,
        details=first(payload, dialect.DETAILS_NAMES),
    )


# --------------------------------------------------------------------------------- pieces


def read_lease(value: Any) -> Lease:
    """A lease from namespace to patterns; what is no list of strings is left out."""
    grants = {}
    for namespace, patterns in _mapping(value).items():
        if isinstance(namespace, str) and namespace and isinstance(patterns, list):
            grants[namespace] = tuple(_strings(patterns))
    return Lease(grants)


def read_budget(value: Any) -> Budget | None:
    """Currency to amount, from numbers, ``"1.00"`` or ``"USD:1.00"``; exact in each case."""
    if not isinstance(value, Mapping):
        return None
    budget = {}
    for currency, amount in value.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float | str):
            continue
        try:
            budget[str(currency)] = Decimal(str(amount).rpartition(":")[2])
        except InvalidOperation:
            continue
    return budget


def _credentials(value: Any) -> tuple[Credential, ...]:
    found = []
    for entry in _items(value):
        if isinstance(entry, Mapping):
            try:
                found.append(Credential.model_validate({k: v for k, v in entry.items() if v}))
            except ValidationError:
                continue
    return tuple(found)


def _constraints(value: Any) -> LeaseConstraints:
    return LeaseConstraints(expires_at=parse_time(_mapping(value).get("expires_at")))


def _runtime(payload: Mapping[str, Any]) -> RuntimeInfo:
    named = _mapping(payload.get("runtime"))
    name = _text(named.get("name")) or _text(payload.get("runtime_name"))
    version = _text(named.get("version")) or _text(payload.get("runtime_version"))
    return RuntimeInfo(name or "", version or "")


def _agents(value: Any) -> tuple[AgentInfo, ...]:
    agents = []
    for entry in _items(value):
        if isinstance(entry, str):
            agents.append(AgentInfo(entry))
        elif isinstance(entry, Mapping) and _text(entry.get("name")):
            versions = tuple(_strings(entry.get("versions")))
            agents.append(AgentInfo(entry["name"], versions, _text(entry.get("default"))))
    return tuple(agents)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> list[str]:
    return [item for item in _items(value) if isinstance(item, str)]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _positive(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return None
    return float(value)
