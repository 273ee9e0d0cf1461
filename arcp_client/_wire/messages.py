"""The requests of a client (§6, §7), validated when a client builds and when a runtime reads them.

Each message type has a frozen struct, which is validated however it is constructed. Unknown fields
are kept, and null counts as absent. `wire()` returns the payload in a form that every known runtime
accepts: absent fields are left out, and a field that has different names in different runtimes is
sent under each of these names.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar, Final, Self

import msgspec
from pydantic import SecretStr

from arcp_client._wire import names
from arcp_client._wire.fields import (
    Malformed,
    Reader,
    an_object,
    bounded,
    encodable,
    flag,
    maybe,
    moment,
    secret,
    text,
    texts,
    whole,
    within,
)
from arcp_client._wire.ids import parse_utc, time_text
from arcp_client.models import ClientInfo, Lease, LeaseConstraints

__all__ = [
    "REQUESTS",
    "Ack",
    "Answer",
    "Auth",
    "Bye",
    "Cancel",
    "Capabilities",
    "Close",
    "Hello",
    "JobFilter",
    "ListJobsMessage",
    "ListQuestions",
    "Message",
    "Part",
    "Ping",
    "Pong",
    "Resume",
    "ResumeBlock",
    "SendMessage",
    "Submit",
    "SubscribeMessage",
    "Unsubscribe",
    "parse_agent",
    "parse_amount",
]

_MAYBE_TEXT: Final = maybe(text)
_NAME: Final = bounded(1, 1024)
_KEY: Final = bounded(1, 256)
_SEQ: Final = whole(0, 2**63 - 1)

_AGENT = re.compile(r"[a-z0-9][a-z0-9._-]*(@[a-zA-Z0-9.+_-]+)?")
_AMOUNT = re.compile(r"([^:\s]+):([0-9]{1,40}(?:\.[0-9]{1,40})?)")


def parse_agent(reference: str) -> tuple[str, str | None]:
    """Split an agent reference into name and version (§7.5).

    Raises:
        ValueError: the reference has neither the form ``name`` nor ``name@version``.
    """
    if not _AGENT.fullmatch(reference):
        raise ValueError(
            f"agent {reference[:80]!r} is not of the form name or name@version (lower-case name)"
        )
    name, _, version = reference.partition("@")
    return name, version or None


def parse_amount(text: str) -> tuple[str, Decimal]:
    """Split an amount such as ``USD:5.00`` into currency and value (§9.6).

    Raises:
        ValueError: the text is not an amount.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is no amount such as 'USD:5.00' (§9.6)")
    return match[1], Decimal(match[2])


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all messages and their parts.

    Attributes:
        readers: field name to the reader that validates it on construction. A field without a
            reader holds any value.
        extra: unknown fields of a received message. No repr shows them, because they may hold
            secrets.

    Raises:
        Malformed: a field is invalid; the error names it.
    """

    readers: ClassVar[dict[str, Reader]] = {}

    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, read in self.readers.items():
            given = getattr(self, name)
            try:
                value = read(given)
            except ValueError:
                value = within(name, read, given)  # raises again, with the name of the field
            if value is not given:
                msgspec.structs.force_setattr(self, name, value)

    @classmethod
    def read(cls, payload: Any) -> Self:
        """Read a message from a peer's payload.

        Raises:
            Malformed: a field is invalid; the error has its path and the expected form.
        """
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        stated = {name: value for name, value in an_object(payload).items() if value is not None}
        for name, value in cls._every_form(stated).items():
            own = name != "extra" and name in cls.__struct_fields__
            (known if own else extra)[name] = value
        for name in _required(cls):
            if name not in known:
                raise Malformed("is missing", (name,))
        return cls(**known, extra=extra)

    @classmethod
    def _every_form(cls, stated: dict[str, Any]) -> dict[str, Any]:
        """Return the fields under the specification's names; may modify ``stated``."""
        return stated

    def wire(self) -> dict[str, Any]:
        """Return the payload to send, ready to be encoded as JSON."""
        payload = {}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name != "extra" and value is not None:
                payload[name] = _plain(value)
        return {**payload, **self.extra}

    def __repr__(self) -> str:
        shown = [f"{n}={getattr(self, n)!r}" for n in self.__struct_fields__ if n != "extra"]
        return f"{type(self).__name__}({', '.join(shown)})"


@cache
def _required(cls: type[Part]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(cls) if field.required)


def _plain(value: Any) -> Any:
    if isinstance(value, Part):
        return value.wire()
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return list(value) if isinstance(value, tuple) else value


class Message(Part, frozen=True, kw_only=True):
    """Base of request payloads."""

    type: ClassVar[str]


class Auth(Part, frozen=True, kw_only=True):
    """The bearer token (§6.1), masked in every repr."""

    readers = {"scheme": text, "token": secret}

    scheme: str = "bearer"
    token: SecretStr = SecretStr("")


class Capabilities(Part, frozen=True, kw_only=True):
    """Encodings and features of one side (§6.2)."""

    readers = {"encodings": texts, "features": texts}

    encodings: tuple[str, ...] = ("json",)
    features: tuple[str, ...] = ()


class ResumeBlock(Part, frozen=True, kw_only=True):
    """The block in a hello that requests to resume a session."""

    readers = {"session_id": _MAYBE_TEXT, "resume_token": secret, "last_event_seq": _SEQ}

    session_id: str | None = None
    resume_token: SecretStr
    last_event_seq: int = 0

    @classmethod
    def _every_form(cls, stated: dict[str, Any]) -> dict[str, Any]:
        # Some peers send the token under the alias, some under both names.
        token = stated.pop("token", None)
        if token is not None:
            stated.setdefault("resume_token", token)
        return stated


def _client(value: Any) -> ClientInfo:
    """Keep name and version only; the runtime does not use other client fields."""
    if isinstance(value, ClientInfo):
        return value
    stated = an_object(value)
    return ClientInfo(
        **{
            name: within(name, encodable, stated[name])
            for name in ("name", "version")
            if stated.get(name)
        }
    )


def _part(kind: type[Part]) -> Reader:
    return lambda value: value if isinstance(value, kind) else kind.read(value)


class Hello(Message, frozen=True, kw_only=True):
    """``session.hello`` (§6.2); with ``resume`` it requests to resume a session (§6.3)."""

    type = names.HELLO
    readers = {
        "client": _client,
        "auth": _part(Auth),
        "capabilities": _part(Capabilities),
        "resume": maybe(_part(ResumeBlock)),
    }

    client: ClientInfo = msgspec.field(default_factory=ClientInfo)
    auth: Auth = msgspec.field(default_factory=Auth)
    capabilities: Capabilities = msgspec.field(default_factory=Capabilities)
    resume: ResumeBlock | None = None

    @classmethod
    def _every_form(cls, stated: dict[str, Any]) -> dict[str, Any]:
        """Read the aliases of other dialects if the specification's fields are absent."""
        flat = {
            name.removeprefix("client_"): stated.pop(name, None)
            for name in ("client_name", "client_version")
        }
        stated.setdefault("client", flat)
        token, last = stated.pop("resume_token", None), stated.pop("last_event_seq", None)
        if token is not None:
            stated.setdefault("resume", {"resume_token": token, "last_event_seq": last})
        return stated

    def wire(self) -> dict[str, Any]:
        """Return the payload, with each dialect's name for the client and the resume block."""
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


class Resume(Message, frozen=True, kw_only=True):
    """``session.resume``, the specification's own form (§6.3)."""

    type = names.RESUME
    readers = {
        "resume_token": secret,
        "last_event_seq": _SEQ,
        "session_id": _MAYBE_TEXT,
        "auth": maybe(_part(Auth)),
        "client": maybe(an_object),
        "capabilities": maybe(_part(Capabilities)),
    }

    resume_token: SecretStr
    last_event_seq: int = 0
    session_id: str | None = None
    auth: Auth | None = None
    client: dict[str, Any] | None = None
    capabilities: Capabilities | None = None


class Ping(Message, frozen=True, kw_only=True):
    """``session.ping`` (§6.4)."""

    type = names.PING
    readers = {"nonce": text, "sent_at": _MAYBE_TEXT}

    nonce: str = ""
    sent_at: str | None = None


class Pong(Message, frozen=True, kw_only=True):
    """``session.pong`` (§6.4)."""

    type = names.PONG
    readers = {"ping_nonce": text, "received_at": _MAYBE_TEXT}

    ping_nonce: str = ""
    received_at: str | None = None


class Ack(Message, frozen=True, kw_only=True):
    """``session.ack`` (§6.5)."""

    type = names.ACK
    readers = {"last_processed_seq": _SEQ}

    last_processed_seq: int


class JobFilter(Part, frozen=True, kw_only=True):
    """Selects the jobs to list (§6.6). An absent field or an empty ``status`` matches any job."""

    readers = {"status": maybe(texts), "agent": _MAYBE_TEXT, "created_after": maybe(moment)}

    status: tuple[str, ...] | None = None
    agent: str | None = None
    created_after: datetime | None = None


class ListJobsMessage(Message, frozen=True, kw_only=True):
    """``session.list_jobs`` (§6.6)."""

    type = names.LIST_JOBS
    readers = {
        "filter": maybe(_part(JobFilter)),
        "limit": maybe(whole(1, 1000)),
        "cursor": _MAYBE_TEXT,
    }

    filter: JobFilter | None = None
    limit: int | None = None
    cursor: str | None = None

    def wire(self) -> dict[str, Any]:
        """Return the payload; an empty filter is left out."""
        payload = super().wire()
        chosen = payload.pop("filter", {})
        if not chosen.get("status"):
            chosen.pop("status", None)
        return {**payload, "filter": chosen} if chosen else payload


class Close(Message, frozen=True, kw_only=True):
    """``session.close`` (§6.7)."""

    type = names.CLOSE
    readers = {"reason": _MAYBE_TEXT}

    reason: str | None = None


class Bye(Message, frozen=True, kw_only=True):
    """``session.bye``, the name of ``session.close`` in other dialects."""

    type = names.BYE
    readers = {"reason": text}

    reason: str = "client.close"


def _reference(value: Any) -> str:
    reference: str = _NAME(value)
    parse_agent(reference)
    return reference


def _grants(value: Any) -> dict[str, list[str]]:
    grants = {}
    for name, patterns in an_object(value.root if isinstance(value, Lease) else value).items():
        grants[name] = list(within(name, texts, patterns))
    if names.BUDGETS in grants:
        within(names.BUDGETS, _amounts, grants[names.BUDGETS])
    return grants


def _amounts(value: list[str]) -> None:
    for at, amount in enumerate(value):
        within(at, parse_amount, amount)


def _bounds(value: Any) -> dict[str, Any]:
    """Normalise ``expires_at`` to UTC. An unreadable time is an error and must not mean "never"."""
    if isinstance(value, LeaseConstraints):
        value = {**(value.model_extra or {}), "expires_at": value.expires_at}
    bounds = {name: bound for name, bound in an_object(value).items() if bound is not None}
    if "expires_at" in bounds:
        bounds["expires_at"] = within("expires_at", _end, bounds["expires_at"])
    return bounds


def _end(value: Any) -> str:
    if isinstance(value, datetime):
        return time_text(value)
    if not isinstance(value, str) or parse_utc(value) is None:
        raise Malformed("must be a time in UTC such as 2026-05-13T23:42:00Z (§9.5)")
    return value


class Submit(Message, frozen=True, kw_only=True):
    """``job.submit`` (§7.1).

    ``idempotency_key`` has the bounds of the reference runtime, ``max_runtime_sec`` those of a
    timer; the specification bounds neither.
    """

    type = names.SUBMIT
    readers = {
        "agent": _reference,
        "lease_request": maybe(_grants),
        "lease_constraints": maybe(_bounds),
        "idempotency_key": maybe(_KEY),
        "max_runtime_sec": maybe(whole(1, 2**31 - 1)),
        "parent_job_id": _MAYBE_TEXT,
        "delegate_id": _MAYBE_TEXT,
    }

    agent: str
    input: Any = None
    lease_request: dict[str, list[str]] | None = None
    lease_constraints: dict[str, Any] | None = None
    idempotency_key: str | None = None
    max_runtime_sec: int | None = None
    parent_job_id: str | None = None
    delegate_id: str | None = None

    @property
    def work_id(self) -> str | None:
        """The name of the work that the job belongs to (an extension).

        Raises:
            Malformed: the field is invalid.
        """
        given = self.extra.get(names.WORK_ID)
        return None if given is None else within(names.WORK_ID, _KEY, given)

    def wire(self) -> dict[str, Any]:
        """Return the payload. ``input`` is always present; it may already be encoded JSON."""
        payload = {"agent": self.agent, "input": None, **super().wire()}
        payload["input"] = self.input
        return payload


class _OfJob(Message, frozen=True, kw_only=True):
    readers = {"job_id": _NAME}

    job_id: str


class Cancel(_OfJob, frozen=True, kw_only=True):
    """``job.cancel`` (§7.4). ``reason`` is always sent, because some runtimes require it."""

    type = names.CANCEL
    readers = {**_OfJob.readers, "reason": text}

    reason: str = "client.cancel"


class SubscribeMessage(_OfJob, frozen=True, kw_only=True):
    """``job.subscribe`` (§7.6)."""

    type = names.SUBSCRIBE
    readers = {**_OfJob.readers, "history": flag, "from_event_seq": maybe(_SEQ)}

    history: bool = False
    from_event_seq: int | None = None

    def wire(self) -> dict[str, Any]:
        """Return the payload. ``from_event_seq`` is sent only with ``history``."""
        payload = super().wire()
        if not self.history:
            payload.pop("from_event_seq", None)
        return payload


class Unsubscribe(_OfJob, frozen=True, kw_only=True):
    """``job.unsubscribe`` (§7.6)."""

    type = names.UNSUBSCRIBE


class Answer(_OfJob, frozen=True, kw_only=True):
    """``answer``: an answer to a question of an agent (an extension)."""

    type = names.ANSWER
    readers = {**_OfJob.readers, "question_id": _NAME, "idempotency_key": maybe(_KEY)}

    question_id: str
    value: Any = None
    idempotency_key: str | None = None

    def wire(self) -> dict[str, Any]:
        """Return the payload. ``value`` is always present; it may already be encoded JSON."""
        return {**super().wire(), "value": self.value}


class ListQuestions(Message, frozen=True, kw_only=True):
    """``list_questions``: asks for the open questions (an extension)."""

    type = names.LIST_QUESTIONS
    readers = {"limit": maybe(whole(1, 1000)), "cursor": _MAYBE_TEXT, "follow": flag}

    limit: int | None = None
    cursor: str | None = None
    follow: bool = False


def _mode(value: Any) -> str:
    if value not in ("steer", "queue"):
        raise Malformed("must be steer or queue")
    return str(value)


class SendMessage(_OfJob, frozen=True, kw_only=True):
    """``send``: a message to the agent of a running job (an extension)."""

    type = names.SEND
    readers = {**_OfJob.readers, "message_id": _KEY, "mode": _mode}

    message_id: str
    mode: str = "queue"
    value: Any = None

    def wire(self) -> dict[str, Any]:
        """Return the payload. ``value`` is always present; it may already be encoded JSON."""
        return {**super().wire(), "value": self.value}


REQUESTS: dict[str, type[Message]] = {
    message.type: message
    for message in (
        Hello,
        Resume,
        Ping,
        Pong,
        Ack,
        ListJobsMessage,
        Close,
        Bye,
        Submit,
        Cancel,
        SubscribeMessage,
        Unsubscribe,
        Answer,
        ListQuestions,
        SendMessage,
    )
}
"""Message type to the struct that its payload is read into."""
