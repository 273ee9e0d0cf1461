"""Requests of a client (§6, §7): built and checked here by the client, checked again by a runtime.

One frozen pydantic model a message, named after its type. Unknown fields survive. `wire()` gives
the payload in the form that every known runtime accepts: absent fields are left out, and where
runtimes look for a value under several names it stands under each.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from ..models import ClientInfo
from . import dialect
from .ids import parse_time

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
]

Text = Annotated[str, Field(min_length=1, max_length=1024)]
Seq = Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)]

_AGENT = re.compile(r"[a-z0-9][a-z0-9._-]*(@[a-zA-Z0-9.+_-]+)?")


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


class Request(BaseModel):
    """What all payloads of requests share."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    type: ClassVar[str]

    def wire(self) -> dict[str, Any]:
        """The payload to send, ready for JSON."""
        return self.model_dump(mode="json", exclude_none=True, by_alias=True)


class Auth(BaseModel):
    """The bearer token (§6.1); masked in every repr."""

    model_config = ConfigDict(frozen=True, extra="allow")

    scheme: str = "bearer"
    token: SecretStr = SecretStr("")


class Capabilities(BaseModel):
    """Encodings and features of one side (§6.2)."""

    model_config = ConfigDict(frozen=True, extra="allow")

    encodings: tuple[str, ...] = ("json",)
    features: tuple[str, ...] = ()


class ResumeBlock(BaseModel):
    """What a resume presents inside a hello."""

    model_config = ConfigDict(frozen=True, extra="allow")

    session_id: str | None = None
    resume_token: SecretStr
    last_event_seq: Seq = 0


class Hello(Request):
    """``session.hello``; with ``resume`` it asks to go on with a session."""

    type = dialect.HELLO

    client: ClientInfo = ClientInfo()
    auth: Auth = Auth()
    capabilities: Capabilities = Capabilities()
    resume: ResumeBlock | None = None

    @field_validator("client", mode="before")
    @classmethod
    def _only_known(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: value[key] for key in ("name", "version") if key in value}
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
                "session_id": self.resume.session_id,
                "resume_token": secret,
                "token": secret,
                "last_event_seq": self.resume.last_event_seq,
            }
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


class JobFilter(BaseModel):
    """Which jobs to list (§6.6). Absent means any."""

    model_config = ConfigDict(frozen=True, extra="allow")

    status: tuple[str, ...] | None = None
    agent: str | None = None
    created_after: datetime | None = None

    @field_validator("created_after", mode="before")
    @classmethod
    def _moment(cls, value: Any) -> Any:
        if value is None:
            return None
        moment = parse_time(value)
        if moment is None:
            raise ValueError("created_after is not an ISO 8601 time")
        return moment


class ListJobs(Request):
    """``session.list_jobs`` (§6.6)."""

    type = dialect.LIST_JOBS

    filter: JobFilter | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    cursor: str | None = None


class Close(Request):
    """``session.close`` (§6.7)."""

    type = dialect.CLOSE

    reason: str | None = None


class Bye(Request):
    """``session.bye``, the same in other dialects."""

    type = dialect.BYE

    reason: str = "client.close"


class Submit(Request):
    """``job.submit`` (§7.1)."""

    type = dialect.SUBMIT

    agent: Text
    input: Any = None
    lease_request: dict[str, list[str]] | None = None
    lease_constraints: dict[str, Any] | None = None
    idempotency_key: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    max_runtime_sec: Annotated[int, Field(ge=1)] | None = None
    parent_job_id: str | None = None
    delegate_id: str | None = None

    @field_validator("agent")
    @classmethod
    def _reference(cls, value: str) -> str:
        parse_agent(value)
        return value


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
