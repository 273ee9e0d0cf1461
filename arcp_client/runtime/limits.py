"""The limits of a runtime, and its policy for observers, as validated values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields

from arcp_client import _arguments as check
from arcp_client.models import Lease
from arcp_client.runtime._leases.grant import oversize

__all__ = ["Limits", "Observation", "Policy"]

MIB = 1024 * 1024


def _everything() -> Lease:
    return Lease(
        {
            "fs.read": ("/**",),
            "fs.write": ("/**",),
            "net.fetch": ("**",),
            "tool.call": ("*",),
            "agent.delegate": ("*",),
            "model.use": ("*",),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a runtime. Times are in seconds, sizes in bytes.

    Attributes:
        max_concurrent_jobs: jobs that run at once. Others wait as ``pending`` and are started
            alternating between principals. ``None``: unbounded.
        unclaimed_time: how long a job waits for a replica that has its agent and a free slot.
        jobs_per_principal: jobs of one principal that have not ended.
        sessions_per_principal: sessions of one principal, with and without a connection. The
            oldest session without a connection and without running jobs is expired for a new one.
        default_lease: the lease of a job whose submit has no ``lease_request``; the acceptance
            states it. A submit with a ``lease_request``, even an empty one, gets exactly the
            requested lease.
        lease_patterns: patterns of one lease, over all its namespaces.
        lease_bytes: bytes of all namespaces and patterns of one lease. A delegated lease is also
            refused if comparing it with its parent's would take longer than some milliseconds.
        handshake_timeout: maximum time for a connection's HTTP request, and again for its
            ``session.hello``; then the connection is closed.
        connections: concurrent connections of a server, over all clients. Further connections are
            answered with HTTP 503. The limit is lowered to three quarters of the process's file
            descriptors.
        connections_per_address: the same for the clients of one address.
        handshakes: concurrent connections without a welcome. To accept a further one, the server
            drops the oldest such connection of the address with the most of them, if that
            connection is older than two seconds. The limit is lowered to a quarter of the file
            descriptors.
        handshakes_per_address: the same for one address.
        handshake_bytes: size limit of the HTTP request, and of ``session.hello``. A larger one
            closes the connection, with HTTP 431 or code 1009.
        frame_bytes: the largest frame of a client (WebSocket, stdio); larger ones are refused.
        event_bytes: the largest payload of one event or result.
        chunk_bytes: the largest piece of a streamed result, before encoding (§14).
        result_bytes: the largest streamed result (§14).
        cancel_grace: how long an agent that uses ``job.cancelled`` may take to end after a
            cancellation. Other agents are interrupted at once.
        kill_grace: how long an interrupted agent may take to end. After that, the job ends although
            the agent still runs.
        lease_grace: how long a job may continue after its lease expired (§14).
        lag_events: unacknowledged events of a client that negotiated `ack`. Above this number the
            client is sent a status with the phase ``back_pressure``, and its jobs are slowed down
            if it has acknowledged any events (§6.5). `Client` lets up to 700 events wait for their
            acknowledgement, so a limit below 1000 may slow down jobs whose client keeps up.
        lag_delay: the longest delay of one emitted event for a slow client.
        retention: how long an ended job can still be listed and subscribed to.
        retained_jobs: maximum number of ended jobs that are kept, over all principals. Beyond it,
            the oldest job of the principal with the most jobs is removed.
        retained_bytes: the same in bytes, of events, leases and results.
        history_events: events kept for one job's subscribers.
        history_bytes: the same in bytes.
        outbox_bytes: bytes of answers queued for a client that does not read. Beyond them the
            runtime stops reading from the client; at twice as many it closes the connection.
        input_bytes: bytes of the inputs, as JSON, of one principal's jobs that have not ended.
        journal_bytes: bytes that may wait to be written to a durable event log. Beyond them,
            emitting agents wait, and requests that would add to them are refused.
        question_time: how long a question may stay open, if its agent sets no shorter time.
        question_bytes: bytes of one question, or of one answer; at most half of ``event_bytes``.
        open_questions: open questions of one principal. Beyond them, agents cannot ask.
        answers: closed questions that are kept, over all principals: for late answers, and for work
            that is attempted again. Beyond it, the oldest one of the principal with the most is
            dropped.
        answer_bytes: the same in bytes.
        answer_window: how long they are kept.
        inbox_messages: messages that wait for the agent of one job. Further ones are refused.
        inbox_bytes: bytes of all messages to one job, taken ones included.
        message_bytes: bytes of one message; at most half of ``event_bytes``.
        webhook_calls: calls of one webhook that wait, of less than 1 KiB each. Further ones are
            dropped, counted and logged.
        idempotency_window: how long an idempotency key is kept (§7.2).
        idempotency_keys: maximum number of keys, over all principals. Beyond it, the oldest key of
            the principal with the most keys is dropped.
        idempotency_bytes: the same in bytes, of keys and acceptances.
    """

    max_concurrent_jobs: int | None = None
    unclaimed_time: float = 60.0
    jobs_per_principal: int = 4096
    sessions_per_principal: int = 4096
    default_lease: Lease = field(default_factory=_everything)
    lease_patterns: int = 256
    lease_bytes: int = 128 * 1024
    handshake_timeout: float = 10.0
    connections: int = 10_000
    connections_per_address: int = 5_000
    handshakes: int = 4096
    handshakes_per_address: int = 2048
    handshake_bytes: int = 64 * 1024
    frame_bytes: int = 4 * MIB
    event_bytes: int = 4 * MIB
    chunk_bytes: int = MIB
    result_bytes: int = 256 * MIB
    cancel_grace: float = 5.0
    kill_grace: float = 5.0
    lease_grace: float = 1.0
    lag_events: int = 1000
    lag_delay: float = 0.25
    retention: float = 600.0
    retained_jobs: int = 10_000
    retained_bytes: int = 256 * MIB
    history_events: int = 100_000
    history_bytes: int = 64 * MIB
    outbox_bytes: int = 4 * MIB
    input_bytes: int = 64 * MIB
    journal_bytes: int = 8 * MIB
    question_time: float = 604_800.0
    question_bytes: int = 256 * 1024
    open_questions: int = 1024
    answers: int = 10_000
    answer_bytes: int = 64 * MIB
    answer_window: float = 604_800.0
    inbox_messages: int = 256
    inbox_bytes: int = 64 * MIB
    message_bytes: int = 256 * 1024
    webhook_calls: int = 10_000
    idempotency_window: float = 86_400.0
    idempotency_keys: int = 100_000
    idempotency_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        check.an_instance("Limits.default_lease", self.default_lease, Lease, "a Lease")
        check.a_number("Limits.max_concurrent_jobs", self.max_concurrent_jobs, least=1, none=True)
        for field_ in fields(self):
            value, name = getattr(self, field_.name), f"Limits.{field_.name}"
            if isinstance(field_.default, float):
                check.seconds(name, value)
            elif isinstance(field_.default, int):
                check.a_number(name, value, least=0)
        beyond = oversize(self.default_lease.root, self.lease_patterns, self.lease_bytes)
        if beyond is not None:
            raise ValueError(f"Limits.default_lease is too large: {beyond}")


@dataclass(frozen=True, slots=True)
class Observation:
    """A request of a principal to watch a job, or to send a message to the job's agent (§7.6, §14).

    Attributes:
        observer: the principal that makes the request.
        owner: the principal that submitted the job.
        job_id: the id of the job.
        agent: the agent of the job.
    """

    observer: str
    owner: str
    job_id: str
    agent: str


Policy = Callable[[Observation], bool]
"""Whether a request is allowed: the type of the arguments ``policy`` and ``steering`` of a runtime.

``policy`` is called for jobs of other principals, and decides whether the observer may watch a job.
``steering`` is called if the session has not submitted the job, and decides whether the session may
send messages to the agent of the job. The observer may then be the owner. A function that raises
refuses the request.
"""
