"""Requests of a client (§6, §7): built and checked here by the client, checked again by a runtime.

One frozen pydantic model a message, named after its type. Unknown fields survive, and null is the
same as absent. `wire()` gives the payload in the form that every known runtime accepts: absent
fields are left out, and where runtimes look for a value under several names it stands under each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from arcp_client._wire import dialect
from arcp_client._wire.ids import in_utc, parse_time, parse_utc, time_text
from arcp_client.models import ClientInfo, Lease, LeaseConstraints

__all__ = [
    "REQUESTS",
    "Ack",
    "Auth",
    "Bye",
    "Cancel",
    "Capabilities",
    "Close",
    "Hello",
    "JobFilter",
    "ListJobs",
    "Ping",
    "Pong",
    "Request",
    "Resume",
    "ResumeBlock",
    "Submit",
    "Subscribe",
    "Unsubscribe",
    "parse_agent",
    "parse_amount",
]

Text = Annotated[str, Field(min_length=1, max_length=1024)]
Seq = Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)]

_AGENT = re.compile(r"[a-z0-9][a-z0-9._-]*(@[a-zA-Z0-9.+_-]+)?")
_AMOUNT = re.compile(r"([^:\s]+):([0-9]{1,40}(?:\.[0-9]{1,40})?)")


def parse_agent(reference: str) -> tuple[str, str | None]:
    """Name and version of an agent reference (§7.5).

    Raises:
        ValueError: it is neither ``name`` nor ``name@version``.
    """
    if not _AGENT.fullmatch(reference):
        raise ValueError(
            f"agent {reference[:80]!r} is not of the form name or name@version (lower-case name)"
        )
    name, _, version = reference.partition("@")
    return name, version or None


def parse_amount(text: str) -> tuple[str, Decimal]:
    """Currency and value of an amount such as ``USD:5.00`` (§9.6).

    Raises:
        ValueError: it is none.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is no amount such as 'USD:5.00' (§9.6)")
    return match[1], Decimal(match[2])


class _Lenient(BaseModel):
    """Reads null as absent, as several peers send it, and keeps what it does not know."""

    # Built when first used: a client never checks half of these, a runtime never the rest.
    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {name: value for name, value in data.items() if value is not None}


class Request(_Lenient):
    """What all payloads of requests share."""

    type: ClassVar[str]

    def wire(self) -> dict[str, Any]:
        """The payload to send, ready for JSON."""
        return self.model_dump(mode="json", exclude_none=True, by_alias=True)


class Auth(_Lenient):
    """The bearer token (§6.1); masked in every repr, like whatever else a scheme may need."""

    scheme: str = "bearer"
    token: SecretStr = SecretStr("")

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [("scheme", self.scheme), ("token", self.token)]


class Capabilities(_Lenient):
    """Encodings and features of one side (§6.2)."""

    encodings: tuple[str, ...] = ("json",)
    features: tuple[str, ...] = ()


class ResumeBlock(_Lenient):
    """What a resume presents inside a hello."""

    session_id: str | None = None
    resume_token: SecretStr = Field(validation_alias=AliasChoices("resume_token", "token"))
    last_event_seq: Seq = 0

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        # Not what came under another name beside it: peers send the token twice.
        return [(name, getattr(self, name)) for name in type(self).model_fields]


class Hello(Request):
    """``session.hello``; with ``resume`` it asks to go on with a session."""

    type = dialect.HELLO

    client: ClientInfo = Field(default_factory=ClientInfo)
    auth: Auth = Field(default_factory=Auth)
    capabilities: Capabilities = Field(default_factory=Capabilities)
    resume: ResumeBlock | None = None

    @model_validator(mode="before")
    @classmethod
    def _every_form(cls, data: Any) -> Any:
        """Read the names of other dialects where the specification's own are absent."""
        if not isinstance(data, Mapping):
            return data
        hello = dict(data)
        flat = {
            name.removeprefix("client_"): hello.pop(name, None)
            for name in ("client_name", "client_version")
        }
        hello.setdefault("client", flat)
        token, last = hello.pop("resume_token", None), hello.pop("last_event_seq", None)
        if token is not None and hello.get("resume") is None:
            hello["resume"] = {"resume_token": token, "last_event_seq": last}
        return hello

    @field_validator("client", mode="before")
    @classmethod
    def _only_known(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: value[key] for key in ("name", "version") if value.get(key)}
        return value

    def wire(self) -> dict[str, Any]:
        """The payload, with every dialect's names for the client and the resume block."""
        token = self.auth.token.get_secret_value()
        payload: dict[str, Any] = {
            "client": {"name": self.client.name, "version": self.client.version},
            "client_name": self.client.name,
            "client_version": self.client.version,
            "auth": {"scheme": self.auth.scheme, "token": token},
            "capabilities": {
                "encodings": list(self.capabilities.encodings),
                "features": list(self.capabilities.features),
            },
        }
        if self.resume is not None:
            secret = self.resume.resume_token.get_secret_value()
            payload["resume"] = {
                "resume_token": secret,
                "token": secret,
                "last_event_seq": self.resume.last_event_seq,
            }
            if self.resume.session_id is not None:
                payload["resume"]["session_id"] = self.resume.session_id
            payload["resume_token"] = secret
            payload["last_event_seq"] = self.resume.last_event_seq
        return payload


class Resume(Request):
    """``session.resume``, the specification's own form (§6.3)."""

    type = dialect.RESUME

    resume_token: SecretStr
    last_event_seq: Seq = 0
    session_id: str | None = None
    auth: Auth | None = None
    client: dict[str, Any] | None = None
    capabilities: Capabilities | None = None


class Ping(Request):
    """``session.ping`` (§6.4)."""

    type = dialect.PING

    nonce: str = ""
    sent_at: str | None = None


class Pong(Request):
    """``session.pong`` (§6.4)."""

    type = dialect.PONG

    ping_nonce: str = ""
    received_at: str | None = None


class Ack(Request):
    """``session.ack`` (§6.5)."""

    type = dialect.ACK

    last_processed_seq: Seq


class JobFilter(_Lenient):
    """Which jobs to list (§6.6). Absent means any, and so does an empty ``status``."""

    status: tuple[str, ...] | None = None
    agent: str | None = None
    created_after: datetime | None = None

    @field_validator("created_after", mode="before")
    @classmethod
    def _moment(cls, value: Any) -> Any:
        moment = value if isinstance(value, datetime) else parse_time(value)
        if moment is None:
            raise ValueError("created_after is no time in RFC 3339")
        return in_utc(moment)


class ListJobs(Request):
    """``session.list_jobs`` (§6.6)."""

    type = dialect.LIST_JOBS

    filter: JobFilter | None = None
    limit: Annotated[int, Field(ge=1, le=1000, strict=True)] | None = None
    cursor: str | None = None

    def wire(self) -> dict[str, Any]:
        """The payload; an empty filter is left out."""
        payload = super().wire()
        chosen = payload.pop("filter", {})
        if not chosen.get("status"):
            chosen.pop("status", None)
        return {**payload, "filter": chosen} if chosen else payload


class Close(Request):
    """``session.close`` (§6.7)."""

    type = dialect.CLOSE

    reason: str | None = None


class Bye(Request):
    """``session.bye``, the same in other dialects."""

    type = dialect.BYE

    reason: str = "client.close"


class Submit(Request):
    """``job.submit`` (§7.1).

    ``idempotency_key`` is bounded as the reference runtime bounds it, ``max_runtime_sec`` by what a
    timer can hold; the specification bounds neither.
    """

    type = dialect.SUBMIT

    agent: Text
    input: Any = None
    lease_request: dict[str, list[str]] | None = None
    lease_constraints: dict[str, Any] | None = None
    idempotency_key: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    max_runtime_sec: Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)] | None = None
    parent_job_id: str | None = None
    delegate_id: str | None = None

    @field_validator("agent")
    @classmethod
    def _reference(cls, value: str) -> str:
        parse_agent(value)
        return value

    @field_validator("lease_request", mode="before")
    @classmethod
    def _grants(cls, value: Any) -> Any:
        return value.root if isinstance(value, Lease) else value

    @field_validator("lease_request")
    @classmethod
    def _amounts(cls, value: dict[str, list[str]] | None) -> dict[str, list[str]] | None:
        for amount in (value or {}).get(dialect.BUDGETS, ()):
            parse_amount(amount)
        return value

    @field_validator("lease_constraints", mode="before")
    @classmethod
    def _bounds(cls, value: Any) -> Any:
        """With ``expires_at`` as a text in UTC: one that cannot be read must not mean "never"."""
        if isinstance(value, LeaseConstraints):
            value = {**(value.model_extra or {}), "expires_at": value.expires_at}
        if not isinstance(value, Mapping):
            return value
        bounds = {name: bound for name, bound in value.items() if bound is not None}
        end = bounds.get("expires_at")
        if isinstance(end, datetime):
            bounds["expires_at"] = time_text(end)
        elif end is not None and (not isinstance(end, str) or parse_utc(end) is None):
            raise ValueError("expires_at is no time in UTC such as 2026-05-13T23:42:00Z (§9.5)")
        return bounds

    def wire(self) -> dict[str, Any]:
        """The payload. ``input`` is always there, as it is: it may be JSON already."""
        payload = self.model_dump(mode="json", exclude_none=True, by_alias=True, exclude={"input"})
        return {"agent": payload.pop("agent"), "input": self.input, **payload}


class _OfJob(Request):
    job_id: Text


class Cancel(_OfJob):
    """``job.cancel`` (§7.4); ``reason`` is always sent, one runtime insists on it."""

    type = dialect.CANCEL

    reason: str = "client.cancel"


class Subscribe(_OfJob):
    """``job.subscribe`` (§7.6)."""

    type = dialect.SUBSCRIBE

    history: bool = False
    from_event_seq: Seq | None = None

    def wire(self) -> dict[str, Any]:
        """The payload; a starting point is only sent along with ``history``."""
        payload = super().wire()
        if not self.history:
            payload.pop("from_event_seq", None)
        return payload


class Unsubscribe(_OfJob):
    """``job.unsubscribe`` (§7.6)."""

    type = dialect.UNSUBSCRIBE


REQUESTS: dict[str, type[Request]] = {
    message.type: message
    for message in (
        Hello,
        Resume,
        Ping,
        Pong,
        Ack,
        ListJobs,
        Close,
        Bye,
        Submit,
        Cancel,
        Subscribe,
        Unsubscribe,
    )
}
"""Message type to the model that its payload is checked with."""
