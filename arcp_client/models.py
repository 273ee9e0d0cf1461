"""Frozen values that users build or receive: identities, leases, credentials, results.

Values that a user builds are validated (pydantic). Values from a runtime are not: they were decoded
tolerantly and are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, field_validator

from arcp_client._html import table

__all__ = [
    "AgentDeclaration",
    "AgentInfo",
    "Budget",
    "Checkpoint",
    "Choice",
    "ClientInfo",
    "Credential",
    "EndedJob",
    "JobMessage",
    "JobStatus",
    "JobSummary",
    "Lease",
    "LeaseConstraints",
    "LogLevel",
    "OpenJob",
    "OpenQuestion",
    "OpenQuestions",
    "Result",
    "RuntimeInfo",
    "SessionInfo",
    "Stats",
    "TakenAnswer",
    "Verdict",
    "VerdictKind",
]

Budget = Mapping[str, Decimal]
"""Amounts by currency, as exact decimals, never binary floats."""

JobStatus: TypeAlias = Literal["pending", "running", "success", "error", "cancelled", "timed_out"]
"""Statuses of jobs (§7.3). Other statuses from a runtime are passed on unchanged."""

VerdictKind: TypeAlias = Literal[
    "queued",
    "working",
    "waiting_for_tool",
    "waiting_for_job",
    "waiting_for_you",
    "slowed_by_you",
    "link_down",
    "silent",
    "agent_dead",
    "done",
    "failed",
    "cancelled",
    "timed_out",
]
"""What a job can be doing; see `Verdict`."""

LogLevel: TypeAlias = Literal["debug", "info", "warn", "error"]
"""Levels of an agent's log lines (§8.2). Other levels from a runtime are passed on unchanged."""


class _Value(BaseModel):
    # The validator is built on first use, so that an application without leases does not need it.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ClientInfo(_Value):
    """The client's identity in ``session.hello`` (§6.2)."""

    name: Annotated[str, Field(min_length=1)] = "arcp-client"
    version: Annotated[str, Field(min_length=1)] = "0"


class Lease(RootModel[dict[str, tuple[str, ...]]]):
    """The operations that a job may perform: patterns by namespace (§9.2).

    >>> Lease({"fs.read": ["/src/**"], "cost.budget": ["USD:5.00"]})["fs.read"]
    ('/src/**',)
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    root: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    if TYPE_CHECKING:  # lists are converted to tuples

        def __init__(self, root: Mapping[str, list[str] | tuple[str, ...]] = ...) -> None: ...

    @field_validator("root")
    @classmethod
    def _named(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        if "" in value:
            raise ValueError("a lease namespace must be a name such as 'fs.read'")
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
        """The namespaces for which the lease has patterns."""
        return iter(self.root)


class LeaseConstraints(_Value):
    """Bounds on a lease (§9.5). ``expires_at`` is a time in UTC."""

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
class AgentDeclaration:
    """What an agent says of itself, in one version. An extension: many runtimes do not send it.

    Attributes:
        version: the version; ``None`` for an agent without versions.
        description: what the agent does, for people and models.
        input_schema: the JSON Schema of its input; treat it as read-only.
    """

    version: str | None = None
    description: str | None = None
    input_schema: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """One entry of the runtime's agent inventory (§7.5).

    Attributes:
        name: the agent's name.
        versions: its versions; none for an agent without versions.
        default: the version that the bare name selects, if the runtime states it.
        declarations: what its versions say of themselves; see `declaration`.
    """

    name: str
    versions: tuple[str, ...] = ()
    default: str | None = None
    declarations: tuple[AgentDeclaration, ...] = ()

    def declaration(self, version: str | None = None) -> AgentDeclaration:
        """What a version says of itself, by default the version that the bare name selects.

        Empty if the runtime sent nothing about that version.
        """
        wanted = self.default if version is None else version
        for each in self.declarations:
            if each.version == wanted:
                return each
        return AgentDeclaration(wanted)


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """The runtime's identity in ``session.welcome``."""

    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The session as negotiated in the last welcome (§6.2).

    Attributes:
        id: the session's id.
        runtime: the runtime's identity.
        features: the negotiated features, the intersection of both lists.
        agents: the runtime's agent inventory.
        heartbeat_interval: seconds, ``None`` if heartbeats were not negotiated.
        resume_window: seconds for which the session can be resumed after its link is lost; ``None``
            if not stated.
        dialect: the runtime's variant of the protocol.
        jobs_run_on: whether jobs keep running when the session is closed or detached (§6.7). False
            for a runtime that ends them.
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
    """One entry of ``client.jobs()`` (§6.6). Fields that the runtime omitted are ``None``."""

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
        result_id: the id of a chunked result (§8.4).
        size: bytes of a chunked result; otherwise the size that the runtime stated, if any.
        summary: text for people.
        completed_at: time of completion, by the runtime's clock.
    """

    value: Any = None
    result_id: str | None = None
    size: int | None = None
    summary: str | None = None
    completed_at: datetime | None = None

    def _repr_html_(self) -> str:
        rows = [
            ("value", self.value if isinstance(self.value, str) else repr(self.value)),
            ("summary", self.summary),
            ("size", self.size),
            ("completed at", None if self.completed_at is None else str(self.completed_at)),
        ]
        return table("Result", rows)


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job that had not ended when a checkpoint was taken.

    Attributes:
        job_id: its id.
        agent: name or name@version.
        idempotency_key: the key of its submit.
        payload_hash: hash of the submit's payload.
        seen: envelope ids of its last processed events, the oldest first, for runtimes that may
            send them again under other numbers; at most 1,024 over all jobs.
        traceparent: the W3C trace context of its span, if the client had telemetry.
    """

    job_id: str
    agent: str
    idempotency_key: str
    payload_hash: str
    seen: tuple[str, ...] = ()
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that had ended when a checkpoint was taken, with its outcome as JSON."""

    job_id: str
    agent: str
    idempotency_key: str
    payload_hash: str
    outcome: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The data with which a client resumes after a restart. Never contains the bearer token.

    Attributes:
        session_id: the session to resume.
        resume_token: its newest token; a secret, so it is not in the repr.
        mark: the watermark: every event up to this number was processed.
        processed: ranges of numbers above ``mark`` whose events were processed too, as (first,
            last).
        reserved: handlers may have got events up to this number, but none above it.
        jobs: the jobs that had not ended.
        ended: the jobs that ended last, the oldest first, with their outcomes for repeated submits.
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
    """Counts of one client since it was made, in events; times are in seconds.

    Attributes:
        received: events that the session received, without repeats.
        processed: events that every consumer has processed.
        queued: events that wait for a consumer or are being handled.
        spilled: events that wait in the spill file.
        repeated: repeated events that were dropped.
        gaps: `Gap` events delivered.
        reconnects: number of reconnects.
        lag: seconds since the arrival of the oldest outstanding event; 0.0 without one.
        last_message: seconds since the last message of the runtime; ``None`` before the first one.
        last_disconnect: the error that ended the last link.
        silent: ids of jobs that have sent no event for ``Timeouts.silence`` since a link was lost,
            and that the runtime does not report as ended. One warning has named each of them.
        verdicts: what each open job is doing, by its id: the jobs that this client submitted or
            watches, and those that they delegated to, as far as their end is not known.
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
    verdicts: Mapping[str, Verdict] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a job is doing, by rules from what is known of it; see `JobHandle.verdict`.

    The first rule that holds counts, so each job has exactly one verdict:

    1. It has ended: ``done``, ``failed``, ``cancelled`` or ``timed_out``. The runtime no longer
       knows it: ``agent_dead``.
    2. ``link_down``: there is no link to the runtime, so nothing newer is known.
    3. ``waiting_for_you``: its agent has asked a question that is not answered.
    4. ``slowed_by_you``: the client does not read, because your handlers or iterators are behind.
    5. ``queued``: it was accepted, and has not begun.
    6. ``waiting_for_tool``: a tool call has no result yet, however long it takes.
    7. ``waiting_for_job``: a job that it delegated has not ended.
    8. ``silent``: it has sent no event for two heartbeat intervals, or for a minute if there are no
       heartbeats.
    9. ``working``: none of these.

    Attributes:
        kind: the rule that holds.
        text: the reason in words, without a time. It may have texts of the agent.
        since: since when it holds, by the clock of this machine; ``None`` if that is unknown.
        heartbeats: for ``silent``, the number of heartbeat intervals without an event.
    """

    kind: VerdictKind
    text: str
    since: datetime | None = None
    heartbeats: int = 0

    def words(self, now: datetime) -> str:
        """The reason with its time, such as ``waiting for fs.read for 40 s``."""
        if self.since is None:
            return self.text
        told = f"{self.text} for {span((now - self.since).total_seconds())}"
        return f"{told} ({self.heartbeats} heartbeats)" if self.heartbeats else told

    def __str__(self) -> str:
        return self.text


def span(seconds: float) -> str:
    """A time in one unit: ``40 s``, ``3 min``, ``2 h``, ``5 d``."""
    whole = max(int(seconds), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


@dataclass(frozen=True, slots=True)
class Choice:
    """One option of a question: the ``value`` to answer with, and its ``label`` for people."""

    value: Any = None
    label: str = ""

    def __hash__(self) -> int:  # a value may be a list or a dict
        return hash(self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """An open question, as ``client.questions()`` lists it.

    Attributes:
        question_id: identifies the question.
        job_id: the job whose agent asks.
        agent: its agent.
        text: the question, for people.
        schema: the JSON Schema that an answer must fit.
        options: the answers to choose from; empty if any value that fits the schema is allowed.
        to: the principals that may answer; empty: the principal that submitted the job.
        asked_at: when the agent asked.
        expires_at: from this time on, no answer is taken.
        has_default: whether ``default`` holds if no answer comes.
        default: the default.
        lease_paused: whether the question stops the clock of the job's lease.
        may_answer: whether this principal may answer it.
        waiting: whether an agent waits for the answer now. False after an interruption, until the
            work is attempted again.
    """

    question_id: str
    job_id: str
    agent: str = ""
    text: str = ""
    schema: Any = None
    options: tuple[Choice, ...] = ()
    to: tuple[str, ...] = ()
    asked_at: datetime | None = None
    expires_at: datetime | None = None
    has_default: bool = False
    default: Any = None
    lease_paused: bool = False
    may_answer: bool = True
    waiting: bool = True

    def __hash__(self) -> int:  # the schema and the default may be lists and dicts
        return hash(self.question_id)


OpenQuestions: TypeAlias = tuple[OpenQuestion, ...]
"""All open questions at one time, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenAnswer:
    """The answer that the runtime took.

    Attributes:
        question_id: the question.
        job_id: the job whose agent asked.
        value: the answer.
        by: the principal that answered.
        client: the name and version of its client.
        at: when the runtime took the answer.
    """

    question_id: str
    job_id: str
    value: Any = None
    by: str = ""
    client: str = ""
    at: datetime | None = None

    def __hash__(self) -> int:  # the value may be a list or a dict
        return hash((self.question_id, self.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMessage:
    """A message to the agent of a running job.

    Attributes:
        message_id: identifies the message.
        mode: ``steer`` asks the agent to look at it soon, ``queue`` when it is ready.
        value: the message, any JSON value.
        by: the principal that sent it.
        client: the name and version of its client.
    """

    message_id: str
    mode: str = "queue"
    value: Any = None
    by: str = ""
    client: str = ""

    def __hash__(self) -> int:  # the value may be a list or a dict
        return hash(self.message_id)
