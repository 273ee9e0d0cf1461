"""One job of a runtime: its state, and the events that it emits into sessions (§7.3).

The runtime owns the job. The job refers to the sessions that receive its events, as long as these
sessions exist.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from arcp_client._log_fields import log_fields
from arcp_client._wire import names
from arcp_client._wire.ids import new_prefixed_id, now_text, time_text
from arcp_client._wire.stamp import (
    ENVELOPE,
    EventIds,
    Record,
    event_payload,
    job_part,
    payload_bytes,
)
from arcp_client.errors import LocalProtocolError
from arcp_client.models import Credential, Lease
from arcp_client.runtime._jobs.compat import SPECIFICATION, Compat
from arcp_client.runtime._jobs.outcomes import Cancellation, Failure, Streamed, Success, Timers
from arcp_client.runtime._leases.grant import Budget, Grant
from arcp_client.runtime._log.entries import Appended, LoggedJobState, Started, Trimmed
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._log.replay_buffers import JobHistory
from arcp_client.runtime._sessions.session import ServerSession, SubscriptionFeed
from arcp_client.runtime.limits import Limits

__all__ = ["RUNNING", "JobOrigin", "JobRequest", "Noticed", "ServerJob"]

PENDING = "pending"
RUNNING = "running"

_TRIM_AT_ONCE = 1024
_JOB_BYTES = 4096
_EVENT = names.EVENT.encode()
_NEEDS = {
    "progress": names.PROGRESS,
    "result_chunk": names.RESULT_CHUNKS,
    names.QUESTION: names.ASKING,
    names.ANSWERED: names.ASKING,
    names.EXPIRED: names.ASKING,
    names.WITHDRAWN: names.ASKING,
    names.SENT: names.STEERING,
    names.CONSUMED: names.STEERING,
    names.RETURNED: names.STEERING,
}


_NOTICED = frozenset({names.QUESTION, names.ANSWERED, names.EXPIRED, names.WITHDRAWN})


@dataclass(slots=True)
class JobRequest:
    """The parts of a ``job.submit`` that the job needs."""

    agent: str
    function: Callable[..., Any]
    input: Any
    grant: Grant
    trace_id: str
    max_runtime: float | None = None
    parent: ServerJob | None = None
    delegate_id: str | None = None
    job_id: str | None = None
    size: int = 0
    """Size of the input as JSON, in bytes."""
    work_id: str | None = None
    """The name of the work, which a later job may attempt again."""
    plain: bool = False
    """The submitting session, which another replica holds, takes no streamed results."""
    extensions: Any = None
    """The ``extensions`` of the submit, unchecked, for telemetry."""


@dataclass(slots=True)
class JobOrigin:
    """The principal of a job, and the session that receives its events.

    Attributes:
        principal: the principal that owns the job.
        session_id: the session that submitted the job, or the job that delegated it.
        session: that session, if it still exists.
        authorities: ids of the sessions that may cancel it; shared by a job and its children.
    """

    principal: str
    session_id: str
    session: ServerSession | None
    authorities: set[str]

    @classmethod
    def of(cls, session: ServerSession) -> JobOrigin:
        """Make the origin of a job that a session submits."""
        return cls(session.principal, session.id, session, {session.id})


class ServerJob:
    """One job of the runtime.

    Attributes:
        id: the job's id.
        number: its position among all jobs of this runtime.
        principal: the principal that submitted it.
        owner: the session that submitted it, until the session expires or the job ends.
        owner_id: that session's id.
        authorities: ids of the sessions that may cancel it (§7.4).
        status: ``pending``, ``running`` or the final status.
        parent: the job that delegated it, while both are running.
        children: its delegated jobs that have not ended.
        outcome: the outcome, once the job has ended.
        history: its recent events.
        feeds: its subscriptions, by session id.
        last_seq: the number of its last event in the submitting session.
        journal: stores the job's state and events, if they must survive the process.
        work_id: the name of its work, if the submit gave it one.
        closers: called with the outcome before the terminal event; they may still emit.
        paused_at: the loop's time at which a question stopped the clock of the lease.
        noticed: called after each event of a question, and after the terminal event.
    """

    def __init__(
        self,
        request: JobRequest,
        *,
        number: int,
        origin: JobOrigin,
        ids: EventIds,
        limits: Limits,
        created: datetime,
        compat: Compat = SPECIFICATION,
        journal: Journal | None = None,
        id: str | None = None,
        noticed: Noticed | None = None,
    ) -> None:
        self.noticed = noticed
        self._compat = compat
        self.id = id or request.job_id or new_prefixed_id("job")
        self.journal = journal
        self.number = number
        self.principal = origin.principal
        self.request: JobRequest | None = request
        self.agent = request.agent
        self.grant = request.grant
        parent = request.parent
        self.parent = parent
        self.parent_id = None if parent is None else parent.id
        self.children: set[ServerJob] = set()
        if parent is not None:
            parent.children.add(self)
        self.delegate_id = request.delegate_id
        above: Budget | None = None if parent is None else parent.budget
        self.budget: Budget = Budget(request.grant.limits, above)
        self.trace_id = request.trace_id
        self.created = created
        self.owner = origin.session
        self.owner_id = origin.session_id
        self.authorities = origin.authorities
        self.status = PENDING
        self.history = JobHistory(limits.history_events, limits.history_bytes)
        self.feeds: dict[ServerSession, SubscriptionFeed] = {}
        self.last_seq = 0
        self.accepted: dict[str, Any] = {}
        self.cancelled = Cancellation()
        self.cooperative = False
        self.stopping: Failure | None = None
        self.violated: Failure | None = None
        self.task: asyncio.Task[None] | None = None
        self.timers = Timers()
        self.deadline: float | None = None
        self.streamed: Streamed | None = None
        self.outcome: Success | Failure | None = None
        self.ended_at = 0.0
        self.done = asyncio.Event()
        self._trimmed = 0
        self.credentials: dict[str, Credential] = {}
        self.ending = False
        self.work_id = request.work_id
        self.closers: list[Callable[[Success | Failure], None]] = []
        self.paused_at: float | None = None
        self._ids = ids
        self._now = asyncio.get_running_loop().time
        self._wire = job_part(self.id, self.trace_id)
        self._max_payload = limits.event_bytes

    @property
    def held(self) -> int:
        """Approximate size of the state kept after its end, in bytes."""
        value = self.outcome.value if isinstance(self.outcome, Success) else None
        result = len(bytes(value)) if isinstance(value, msgspec.Raw) else 0
        return self.history.bytes + 2 * self.grant.size + result + _JOB_BYTES

    @property
    def ended(self) -> bool:
        """Whether its terminal event was emitted."""
        return self.status in names.ENDED

    @property
    def log_fields(self) -> dict[str, Any]:
        """The ``extra`` of log records about the job."""
        return log_fields(session=self.owner_id, job=self.id)

    # ---------------------------------------------------------------------- emitting

    def new_id(self, prefix: str) -> str:
        """Return a new id, such as that of a question; faster than `ids.new_prefixed_id`."""
        return f"{prefix}_{self._ids.next().decode('ascii')}"

    def emit(self, kind: str, body: dict[str, Any]) -> None:
        """Number, log and queue one event in every session that receives the job. Never waits.

        Raises:
            ValueError: JSON cannot represent the body, or the body is too large.
            LocalProtocolError: the job has ended.
        """
        payload = event_payload(kind, body)
        if len(payload) > self._max_payload:
            raise ValueError(
                f"an event of {len(payload)} bytes is over the limit of {self._max_payload} bytes"
            )
        if self.status in names.ENDED:
            raise LocalProtocolError("the job has ended; nothing can be emitted any more")
        self._publish(_EVENT, payload, _NEEDS.get(kind))
        if self.noticed is not None and kind in _NOTICED:
            self.noticed(self, kind, body)

    def _publish(
        self, type: bytes, payload: bytes, needs: str | None = None, secret: bytes | None = None
    ) -> None:
        history = self.history
        record = Record(
            self._ids.next(),
            type,
            self._wire,
            payload,
            self._now(),
            needs,
            self.id,
            history.end,
            len(payload) + ENVELOPE,
        )
        owner = self.owner
        if owner is None:
            self.last_seq += 1
        elif needs is not None and needs not in owner.features:
            self.last_seq, owner = owner.log.last, None
        else:
            mine = record if secret is None else msgspec.structs.replace(record, payload=secret)
            self.last_seq = owner.number(mine)
        history.append(self.last_seq, record)
        journal = self.journal
        if journal is not None:
            session_id = None if owner is None else owner.id
            journal.append(Appended(record, self.last_seq, session_id), owner)
            if history.floor - self._trimmed >= _TRIM_AT_ONCE:
                self._trimmed = history.floor
                journal.put(Trimmed(self.id, self._trimmed))
        if self.feeds:
            for feed in tuple(self.feeds.values()):
                feed.push()
                if feed.ended:
                    self.feeds.pop(feed.session, None)

    def note(self) -> None:
        """Store the job's present state."""
        if self.journal is not None:
            self.journal.put(self.state())

    def started(self) -> None:
        """Note that its agent is started."""
        self.status = RUNNING
        if self.journal is not None:
            self.journal.put(Started(self.id))

    def state(self) -> LoggedJobState:
        """Return the job's present state, as it is stored."""
        expires_at = self.grant.expires_at
        ended = now_text() if self.ended else None
        plain = {k: v for k, v in self.accepted.items() if k != "credentials"}
        return LoggedJobState(
            self.id,
            self.number,
            self.principal,
            self.agent,
            self.owner_id,
            tuple(sorted(self.authorities)),
            self.parent_id,
            self.delegate_id,
            self.trace_id,
            dict(self.grant.lease.root),
            None if expires_at is None else time_text(expires_at),
            time_text(self.created),
            self.status,
            payload_bytes(plain),
            {unit: str(left) for unit, left in self.budget.remaining.items()},
            ended,
            self.work_id,
        )

    def end(self, outcome: Success | Failure) -> None:
        """Emit the terminal event. Only the first call has an effect."""
        if self.ended:
            return
        closers, self.closers = self.closers, []
        for close in closers:
            close(outcome)
        type, payload = self._terminal(outcome)
        # State and terminal change in one step: no observer sees one without the other.
        self.status = outcome.status
        self.outcome = outcome
        self.timers.stop()
        with contextlib.nullcontext() if self.journal is None else self.journal.together():
            self._publish(type, payload)
            self.note()
            if self.noticed is not None:
                self.noticed(self, type.decode(), {})
        self.ended_at = self._now()
        self.request = None
        self.streamed = None
        self.credentials.clear()
        self.accepted.pop("credentials", None)
        if self.owner is not None:
            self.owner.jobs.discard(self.id)
            self.owner = None
        self.done.set()

    def drop(self) -> None:
        """End without an event, because the job was never announced, or belongs to no one here."""
        self.journal = None
        self.status = names.ERROR
        self.timers.stop()
        self.request = None
        self.streamed = None
        self.feeds.clear()
        if self.owner is not None:
            self.owner.jobs.discard(self.id)
            self.owner = None
        self.done.set()

    def _terminal(self, outcome: Success | Failure) -> tuple[bytes, bytes]:
        if isinstance(outcome, Success):
            payload: dict[str, Any] = {"final_status": outcome.status}
            if outcome.result_id is not None:
                payload |= {"result_id": outcome.result_id, "result_size": outcome.size}
            else:
                payload |= self._compat.inline(outcome.value)
            payload["completed_at"] = now_text()
            return names.RESULT.encode(), payload_bytes(payload)
        payload = {
            "final_status": self._compat.final_status(outcome.status),
            "code": outcome.code,
            "message": outcome.message,
            "retryable": outcome.retryable,
            "completed_at": now_text(),
        }
        if outcome.details is not None:
            payload["details"] = outcome.details
        return names.JOB_ERROR.encode(), payload_bytes(payload)

    # ------------------------------------------------------------------- descriptions

    @property
    def lease(self) -> Lease:
        """The granted lease."""
        return self.grant.lease

    @property
    def origin(self) -> JobOrigin:
        """The origin for a job that this job delegates."""
        return JobOrigin(self.principal, self.owner_id, self.owner, self.authorities)

    def budget_wire(self) -> dict[str, Decimal] | None:
        """Return the present budget counters (§9.6), if there are any."""
        return dict(self.budget.remaining) if self.grant.limits else None

    def rotate(self, credential: Credential) -> None:
        """Announce a new credential value; only the submitting session receives the value (§9.8).

        Observers and the event log get the event without the value, under the same envelope id.
        """
        self.credentials[credential.id] = credential
        body = {"phase": names.CREDENTIAL_ROTATED, "id": credential.id}
        secret = body | {"value": credential.value.get_secret_value()}
        owner = self.owner
        told = owner is not None and names.CREDENTIALS in owner.features
        self._publish(
            _EVENT,
            event_payload("status", body),
            secret=event_payload("status", secret) if told else None,
        )

    def accept(self, credentials: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """Return the payload of the acceptance (§7.1), the same for repeated submits (§7.2)."""
        payload: dict[str, Any] = {
            "job_id": self.id,
            "agent": self.agent,
            "lease": self.grant.wire(),
            "accepted_at": time_text(self.created),
            "trace_id": self.trace_id,
        }
        constraints = self.grant.wire_constraints()
        if constraints is not None:
            payload["lease_constraints"] = constraints
        if self.grant.limits:
            payload["budget"] = self._compat.counters(self.grant.limits)
        if credentials:
            payload["credentials"] = credentials
        if self.parent_id is not None:
            payload["parent_job_id"] = self.parent_id
        if self.delegate_id is not None:
            payload["delegate_id"] = self.delegate_id
        self.accepted = payload
        return payload

    def entry(self) -> dict[str, Any]:
        """Return its entry in a listing (§6.6)."""
        entry: dict[str, Any] = {
            "job_id": self.id,
            "agent": self.agent,
            "status": self.status,
            "lease": self.grant.wire(),
            "parent_job_id": self.parent_id,
            "created_at": time_text(self.created),
            "submitted_at": time_text(self.created),
            "trace_id": self.trace_id,
            "last_event_seq": self.last_seq,
        }
        constraints = self.grant.wire_constraints()
        if constraints is not None:
            entry["lease_constraints"] = constraints
        return entry

    def description(self) -> dict[str, Any]:
        """Return its description for a subscriber (§7.6)."""
        described: dict[str, Any] = {
            "job_id": self.id,
            "current_status": self.status,
            "agent": self.agent,
            "lease": self.grant.wire(),
            "parent_job_id": self.parent_id,
            "trace_id": self.trace_id,
            "subscribed_from": self.last_seq,
        }
        constraints = self.grant.wire_constraints()
        if constraints is not None:
            described["lease_constraints"] = constraints
        budget = self.budget_wire()
        if budget is not None:
            described["budget"] = budget
        return described


Noticed = Callable[[ServerJob, str, Mapping[str, Any]], None]
"""Takes a job that has just emitted an event, the event's kind and its body."""
