"""Frozen values that users build or are given: identities, leases, credentials, results.

What a user builds is checked when it is built (pydantic); what came from a runtime was read
tolerantly before, so these classes hold it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, field_validator

__all__ = [
    "AgentInfo",
    "Budget",
    "Checkpoint",
    "ClientInfo",
    "Credential",
    "EndedJob",
    "JobStatus",
    "JobSummary",
    "Lease",
    "LeaseConstraints",
    "LogLevel",
    "OpenJob",
    "Result",
    "RuntimeInfo",
    "SessionInfo",
    "Stats",
]

Budget = Mapping[str, Decimal]
"""Currency to amount; exact decimals, never binary floats."""

JobStatus: TypeAlias = Literal["pending", "running", "success", "error", "cancelled", "timed_out"]
"""Statuses of jobs (§7.3). A runtime may send others, which are passed on as they are."""

LogLevel: TypeAlias = Literal["debug", "info", "warn", "error"]
"""Levels of an agent's log lines (§8.2). A runtime may send others, which are passed on."""


class _Value(BaseModel):
    # Built when first used: an application that sets no lease does not pay for leases.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ClientInfo(_Value):
    """Who the client says it is in ``session.hello`` (§6.2)."""

    name: Annotated[str, Field(min_length=1)] = "arcp-client"
    version: Annotated[str, Field(min_length=1)] = "0"


class Lease(RootModel[dict[str, tuple[str, ...]]]):
    """What a job may do: namespace to patterns (§9.2).

    >>> Lease({"fs.read": ["/src/**"], "cost.budget": ["USD:5.00"]})["fs.read"]
    ('/src/**',)
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    root: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    if TYPE_CHECKING:  # lists are made tuples

        def __init__(self, root: Mapping[str, list[str] | tuple[str, ...]] = ...) -> None: ...

    @field_validator("root")
    @classmethod
    def _named(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        if "" in value:
            raise ValueError("a lease namespace is a name such as 'fs.read'")
        return value

    def __getitem__(self, namespace: str) -> tuple[str, ...]:
        return self.root[namespace]

    def __contains__(self, namespace: object) -> bool:
        return namespace in self.root

    def __len__(self) -> int:
        return len(self.root)

    def __hash__(self) -> int:
        return hash(frozenset(self.root.items()))

    def get(self, namespace: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The patterns of one namespace, or ``default``."""
        return self.root.get(namespace, default)

    def namespaces(self) -> Iterator[str]:
        """The namespaces that the lease grants something in."""
        return iter(self.root)


class LeaseConstraints(_Value):
    """Bounds on a lease (§9.5). ``expires_at`` is a moment in UTC."""

    model_config = ConfigDict(frozen=True, extra="allow")

    expires_at: datetime | None = None

    @field_validator("expires_at")
    @classmethod
    def _with_zone(cls, value: datetime | None) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("expires_at needs a time zone")
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise ValueError("expires_at is out of range") from error


class Credential(_Value):
    """A provisioned credential of one job (§9.8). The value is masked in every repr and log."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str = ""
    scheme: str = "bearer"
    value: SecretStr = SecretStr("")
    endpoint: str | None = None
    profile: str | None = None
    constraints: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """One entry of the runtime's agent inventory (§7.5)."""

    name: str
    versions: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """Who the runtime says it is in ``session.welcome``."""

    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What the last welcome agreed on (§6.2).

    Attributes:
        id: the session's id.
        runtime: the other end.
        features: the negotiated features, the intersection of both lists.
        agents: the runtime's agent inventory.
        heartbeat_interval: seconds, ``None`` if heartbeats were not negotiated.
        resume_window: seconds that the session outlives its link; ``None`` if not stated.
        dialect: which variant of the protocol the runtime speaks.
        jobs_run_on: jobs continue when the session is closed or detached (§6.7). False for a
            runtime that ends them.
    """

    id: str
    runtime: RuntimeInfo = RuntimeInfo()
    features: frozenset[str] = frozenset()
    agents: tuple[AgentInfo, ...] = ()
    heartbeat_interval: float | None = None
    resume_window: float | None = None
    dialect: str = ""
    jobs_run_on: bool = True


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One entry of ``client.jobs()`` (§6.6). What the runtime left out is ``None``."""

    job_id: str
    agent: str = ""
    status: str = ""
    lease: Lease | None = None
    parent_job_id: str | None = None
    created_at: datetime | None = None
    trace_id: str | None = None
    last_event_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a job that succeeded.

    Attributes:
        value: the inline result; for a chunked one the joined chunks, ``str`` if every chunk was
            text, else ``bytes``.
        result_id: set if the result came in chunks (§8.4).
        size: bytes of a chunked result; else the runtime's word, if any.
        summary: a text for people.
        completed_at: when, by the runtime's clock.
    """

    value: Any = None
    result_id: str | None = None
    size: int | None = None
    summary: str | None = None
    completed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job that had not ended when a checkpoint was taken.

    Attributes:
        job_id: its id.
        agent: name or name@version.
        idempotency_key: what it was submitted under.
        payload_hash: of what was submitted.
        seen: envelope ids of its last events that were processed, the oldest first, where the
            runtime may send them again under other numbers; 1,024 of all jobs at most.
    """

    job_id: str
    agent: str
    idempotency_key: str
    payload_hash: str
    seen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that had ended when a checkpoint was taken, and how; a text in JSON says it."""

    job_id: str
    agent: str
    idempotency_key: str
    payload_hash: str
    outcome: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a client needs to go on after a restart. Never holds the bearer token.

    Attributes:
        session_id: the session to resume.
        resume_token: its newest token; a secret, so it is not in the repr.
        mark: every event up to this number was processed.
        processed: ranges above ``mark`` that were processed too, as (first, last).
        reserved: no handler saw an event above this number.
        jobs: the jobs that had not ended.
        ended: those that ended last, the oldest first: who asks again is told the same.
    """

    session_id: str
    resume_token: str = field(repr=False)
    mark: int = 0
    processed: tuple[tuple[int, int], ...] = ()
    reserved: int = 0
    jobs: tuple[OpenJob, ...] = ()
    ended: tuple[EndedJob, ...] = ()


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters of one client since it was made; seconds and events.

    Attributes:
        received: events that the session took in, without repeats.
        processed: events that every consumer is done with.
        queued: events that wait for a consumer or are being handled.
        spilled: events that wait in the spill file.
        repeated: events that came again and were dropped.
        gaps: `Gap` events delivered.
        reconnects: times the link was made anew.
        lag: seconds since the oldest waiting event came; 0.0 if none waits.
        last_message: seconds since the runtime was last heard; ``None`` before the first time.
        last_disconnect: why the last link ended.
        silent: jobs that the runtime does not say to have ended, and of which nothing has come for
            ``Timeouts.silence`` since a link was lost; a warning named each once.
    """

    received: int = 0
    processed: int = 0
    queued: int = 0
    spilled: int = 0
    repeated: int = 0
    gaps: int = 0
    reconnects: int = 0
    lag: float = 0.0
    last_message: float | None = None
    last_disconnect: BaseException | None = None
    silent: tuple[str, ...] = ()
