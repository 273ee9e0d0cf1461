"""Reads the replies of a runtime (§6, §7) tolerantly into frozen values.

Runtimes leave fields out, send null, send amounts as strings, and use aliases. No reader here
raises: an invalid value counts as absent, and a string that cannot be encoded is repaired.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

import msgspec
from pydantic import SecretStr, ValidationError

from arcp_client._wire import names
from arcp_client._wire.bodies import MAX_SEQ
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.ids import in_utc, parse_time
from arcp_client._wire.names import first, first_text
from arcp_client._wire.names import text_of as _text
from arcp_client.models import (
    AgentDeclaration,
    AgentInfo,
    Budget,
    Choice,
    Credential,
    JobSummary,
    Lease,
    LeaseConstraints,
    OpenQuestion,
    RuntimeInfo,
    SessionInfo,
    TakenAnswer,
)

__all__ = [
    "Accepted",
    "ErrorReply",
    "JobPage",
    "QuestionPage",
    "Subscribed",
    "Welcome",
    "no_constraints",
    "no_lease",
    "read_accepted",
    "read_budget",
    "read_choices",
    "read_jobs",
    "read_lease",
    "read_questions",
    "read_refusal",
    "read_subscribed",
    "read_taken",
    "read_welcome",
    "reply_to",
]


_log = logging.getLogger("arcp_client.wire")


class Welcome(msgspec.Struct, frozen=True):
    """``session.welcome`` (§6.2)."""

    info: SessionInfo
    resume_token: SecretStr | None


class Accepted(msgspec.Struct, frozen=True):
    """``job.accepted`` (§7.1).

    Attributes:
        job_trace: the trace id in the payload; a repeated acceptance carries that
            of the first acceptance (§7.2).
    """

    job_id: str
    agent: str = ""
    lease: Lease = msgspec.field(default_factory=Lease)
    constraints: LeaseConstraints = msgspec.field(default_factory=LeaseConstraints)
    budget: Budget | None = None
    credentials: tuple[Credential, ...] = ()
    accepted_at: datetime | None = None
    trace_id: str | None = None
    job_trace: str | None = None
    parent_job_id: str | None = None
    delegate_id: str | None = None


class Subscribed(msgspec.Struct, frozen=True):
    """``job.subscribed`` (§7.6). ``history_last`` is that of `JobView`, an extension."""

    job_id: str
    status: str = ""
    agent: str = ""
    lease: Lease = msgspec.field(default_factory=Lease)
    constraints: LeaseConstraints = msgspec.field(default_factory=LeaseConstraints)
    budget: Budget | None = None
    credentials: tuple[Credential, ...] = ()
    trace_id: str | None = None
    parent_job_id: str | None = None
    history_last: str | None = None


class JobPage(msgspec.Struct, frozen=True):
    """``session.jobs`` (§6.6)."""

    jobs: tuple[JobSummary, ...]
    next_cursor: str | None


class QuestionPage(msgspec.Struct, frozen=True):
    """``questions``, an extension."""

    questions: tuple[OpenQuestion, ...]
    next_cursor: str | None


class ErrorReply(msgspec.Struct, frozen=True):
    """An error that answers a request or ends a session (§12)."""

    code: str
    message: str
    retryable: bool
    details: Any


def reply_to(frame: ControlFrame) -> str | None:
    """Return the id of the request that a frame names as answered; ``None`` if it names none."""
    return first_text(frame.payload, names.REPLY_TO_NAMES) or frame.correlation_id or None


def read_welcome(
    frame: ControlFrame, offered: frozenset[str], kind: str, *, jobs_run_on: bool = True
) -> Welcome:
    """Read a welcome; the session's features are those that both sides offered (§6.2).

    Args:
        frame: the welcome.
        offered: the features that this client offered.
        kind: the dialect of the runtime that sent it.
        jobs_run_on: whether jobs outlive their session.
    """
    payload = frame.payload
    capabilities = _mapping(payload.get("capabilities"))
    stated = _items(capabilities.get("features"))
    features = offered.intersection([name for name in stated if isinstance(name, str)])
    interval = _positive(payload.get("heartbeat_interval_sec"))
    info = SessionInfo(
        id=frame.session_id or _text(payload.get("session_id")) or "",
        runtime=_runtime(payload),
        features=_one_of_equal(features),
        agents=_agents(capabilities.get("agents")),
        heartbeat_interval=interval if names.HEARTBEAT in features else None,
        resume_window=_positive(payload.get("resume_window_sec")),
        dialect=kind,
        jobs_run_on=jobs_run_on,
    )
    token = _text(payload.get("resume_token"))
    return Welcome(info, SecretStr(token) if token else None)


@lru_cache(maxsize=64)
def _one_of_equal(features: frozenset[str]) -> frozenset[str]:
    """The first one of equal sets: the clients of a process need not each keep their own."""
    return features


def read_accepted(frame: ControlFrame) -> Accepted | None:
    """Read an acceptance; ``None`` if it names no job."""
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
        job_trace=_text(payload.get("trace_id")),
        parent_job_id=_text(payload.get("parent_job_id")),
        delegate_id=_text(payload.get("delegate_id")),
    )


def read_subscribed(frame: ControlFrame) -> Subscribed | None:
    """Read a confirmed subscription; ``None`` if it names no job."""
    payload = frame.payload
    job_id = _text(payload.get("job_id")) or frame.job_id
    if not job_id:
        return None
    last = payload.get(names.HISTORY_LAST)
    return Subscribed(
        job_id=job_id,
        status=names.status_of(payload.get("current_status")),
        agent=_text(payload.get("agent")) or "",
        lease=read_lease(payload.get("lease")),
        constraints=_constraints(payload.get("lease_constraints")),
        budget=read_budget(payload.get("budget")),
        credentials=_credentials(payload.get("credentials")),
        trace_id=_text(payload.get("trace_id")) or frame.trace_id,
        parent_job_id=_text(payload.get("parent_job_id")),
        history_last=last if isinstance(last, str) else None,
    )


def read_jobs(frame: ControlFrame) -> JobPage:
    """Read one page of a listing; entries without a job id are left out."""
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
                status=names.status_of(entry.get("status")),
                lease=read_lease(entry["lease"]) if entry.get("lease") is not None else None,
                parent_job_id=_text(entry.get("parent_job_id")),
                created_at=parse_time(first(entry, names.CREATED_NAMES)),
                trace_id=_text(entry.get("trace_id")),
                last_event_seq=last if type(last) is int and 0 <= last <= MAX_SEQ else None,
            )
        )
    return JobPage(tuple(jobs), _text(frame.payload.get("next_cursor")))


def read_questions(frame: ControlFrame) -> QuestionPage:
    """Read one page of open questions; entries without ids are left out."""
    found = []
    for entry in _items(frame.payload.get("questions")):
        if not isinstance(entry, Mapping):
            continue
        question_id, job_id = _text(entry.get("question_id")), _text(entry.get("job_id"))
        if not question_id or not job_id:
            continue
        found.append(
            OpenQuestion(
                question_id=question_id,
                job_id=job_id,
                agent=_text(entry.get("agent")) or "",
                text=_text(entry.get("text")) or "",
                schema=entry.get("schema"),
                options=read_choices(entry.get("options")),
                to=tuple(_strings(entry.get("to"))),
                asked_at=parse_time(entry.get("asked_at")),
                expires_at=parse_time(entry.get("expires_at")),
                has_default=entry.get("has_default") is True,
                default=entry.get("default"),
                lease_paused=entry.get("lease_paused") is True,
                may_answer=entry.get("may_answer") is not False,
                waiting=entry.get("waiting") is not False,
            )
        )
    return QuestionPage(tuple(found), _text(frame.payload.get("next_cursor")))


def read_choices(value: Any) -> tuple[Choice, ...]:
    """Read the options of a question. An option without a label is shown as its value."""
    choices = []
    for entry in _items(value):
        if isinstance(entry, dict):
            option, label = entry.get("value"), _text(entry.get("label"))
            if not label:
                label = option if isinstance(option, str) else json.dumps(option)
            choices.append(Choice(option, label))
    return tuple(choices)


def read_taken(frame: ControlFrame) -> TakenAnswer:
    """Read the confirmation of an answer."""
    payload = frame.payload
    return TakenAnswer(
        question_id=_text(payload.get("question_id")) or "",
        job_id=_text(payload.get("job_id")) or frame.job_id or "",
        value=payload.get("value"),
        by=_text(payload.get("by")) or "",
        client=_text(payload.get("client")) or "",
        at=parse_time(payload.get("at")),
    )


def read_refusal(frame: ControlFrame) -> ErrorReply:
    """Read code, text and ``retryable``. If ``retryable`` is missing, the code decides (§12)."""
    payload = frame.payload
    code = _text(payload.get("code")) or ""
    retryable = payload.get("retryable")
    return ErrorReply(
        code=code or names.INTERNAL_ERROR,
        message=_text(payload.get("message")) or "",
        # Whether a retry can help follows only from a code that the runtime sent.
        retryable=retryable if isinstance(retryable, bool) else code in names.RETRYABLE_BY_DEFAULT,
        details=first(payload, names.DETAILS_NAMES),
    )


# --------------------------------------------------------------------------------- pieces


def read_lease(value: Any) -> Lease:
    """Read a lease: namespace to patterns. An entry that is not a list of strings is left out."""
    grants = {}
    for namespace, patterns in _mapping(value).items():
        if namespace and isinstance(patterns, list):
            grants[_text(namespace) or ""] = tuple(_strings(patterns))
    return Lease(grants) if grants else no_lease()


@cache
def no_lease() -> Lease:
    """The lease without permissions, which jobs share: it cannot be changed."""
    return Lease()


@cache
def no_constraints() -> LeaseConstraints:
    """The constraints of a lease without any; see `no_lease`."""
    return LeaseConstraints()


_AMOUNT = re.compile(r"(?:[^:]*:)?\s*(-?[0-9]{1,40}(?:\.[0-9]{1,40})?)\s*")


def read_budget(value: Any) -> Budget | None:
    """Read a budget: currency to amount, from numbers, ``"1.00"`` or ``"USD:1.00"``.

    Strings are exact. A number is rounded to 15 digits, the precision of a binary float, which
    removes rounding errors of the runtime: 0.5800000000000001 becomes 0.58.
    """
    if not isinstance(value, Mapping):
        return None
    budget = {}
    for currency, amount in value.items():
        read = _amount(amount)
        if read is not None:
            budget[_text(currency) or ""] = read
    return budget


def _amount(value: Any) -> Decimal | None:
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value)
        return Decimal(match[1]) if match else None
    if isinstance(value, float):
        # Written out: readers do not expect exponents in amounts.
        return Decimal(f"{Decimal(f'{value:.15g}'):f}") if abs(value) < 1e40 else None
    return Decimal(value) if type(value) is int and abs(value) < 10**40 else None


def _credentials(value: Any) -> tuple[Credential, ...]:
    return tuple(_credential(entry) for entry in _items(value) if isinstance(entry, Mapping))


def _credential(entry: Mapping[str, Any]) -> Credential:
    """Read a credential. A value that does not fit its field is kept in ``extra``."""
    constraints = entry.get("constraints")
    known: dict[str, Any] = {
        "id": _text(entry.get("id")) or "",
        "scheme": _text(entry.get("scheme")) or "bearer",
        "value": SecretStr(_text(entry.get("value")) or ""),
        "endpoint": _text(entry.get("endpoint")),
        "profile": _text(entry.get("profile")),
        "constraints": constraints if isinstance(constraints, dict) else None,
    }
    try:
        return Credential.model_validate({**entry, **known})
    except ValidationError:  # names that are no text
        return Credential.model_construct(**known)


def _constraints(value: Any) -> LeaseConstraints:
    stated = _mapping(value)
    if not stated:
        return no_constraints()
    expires_at = parse_time(stated.get("expires_at"))
    if expires_at is None and stated.get("expires_at") is not None:
        _log.warning("the expires_at of a lease cannot be read: the lease ends at an unknown time")
    moment = None if expires_at is None else in_utc(expires_at)
    try:
        return LeaseConstraints.model_validate({**stated, "expires_at": moment})
    except ValidationError:  # names that are no text
        return LeaseConstraints.model_construct(expires_at=moment)


def _runtime(payload: Mapping[str, Any]) -> RuntimeInfo:
    named = _mapping(payload.get("runtime"))
    name = _text(named.get("name")) or _text(payload.get("runtime_name"))
    version = _text(named.get("version")) or _text(payload.get("runtime_version"))
    return RuntimeInfo(name or "", version or "")


def _agents(value: Any) -> tuple[AgentInfo, ...]:
    agents = []
    for entry in _items(value):
        if isinstance(entry, str):
            agents.append(AgentInfo(_text(entry) or ""))
        elif isinstance(entry, Mapping) and _text(entry.get("name")):
            versions = tuple(_strings(entry.get("versions")))
            name = _text(entry["name"]) or ""
            declared = _declarations(entry.get(names.DECLARATIONS))
            agents.append(AgentInfo(name, versions, _text(entry.get("default")), declared))
    return tuple(agents)


def _declarations(value: Any) -> tuple[AgentDeclaration, ...]:
    return tuple(
        AgentDeclaration(
            _text(entry.get("version")), _text(entry.get("description")), _schema(entry)
        )
        for entry in _items(value)
        if isinstance(entry, Mapping)
    )


def _schema(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    schema = entry.get("input_schema")
    return schema if isinstance(schema, Mapping) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> list[str]:
    return [text for item in _items(value) if (text := _text(item)) is not None]


def _positive(value: Any) -> float | None:
    """Read a number of seconds. Zero, negative and unusably large numbers count as absent."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        return None
    return float(value)
