"""The limits of a runtime, and the policy for observers: values, checked when they are made."""

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
    """What a runtime allows. Times in seconds, sizes in bytes.

    Attributes:
        max_concurrent_jobs: jobs that run at once; others wait as ``pending``, and principals take
            turns. ``None``: no bound.
        jobs_per_principal: jobs of one principal that have not ended.
        sessions_per_principal: sessions of one principal, with and without a connection. The
            oldest one that has neither connection nor running job makes room for a new one.
        default_lease: what a job may do whose submit asked for no lease at all. It stands in the
            acceptance like any other. A submit with a ``lease_request``, even an empty one, gets
            what it asked for and nothing else.
        lease_patterns: patterns of one lease, in all its namespaces together.
        lease_bytes: bytes of all namespaces and patterns of one lease. A delegated lease that
            could not be compared with its parent's within some milliseconds is refused too.
        handshake_timeout: how long a connection's HTTP request may take, and after that its
            ``session.hello``; then it is closed.
        connections: connections that a server takes at a time, of all clients. One more is answered
            with HTTP 503. At most three quarters of the process's file descriptors.
        connections_per_address: the same for clients of one address.
        handshakes: connections at a time that have no welcome yet. For one more the oldest of them
            are dropped, of the address that has most, if they are older than two seconds. At most a
            quarter of the file descriptors.
        handshakes_per_address: the same for one address.
        handshake_bytes: what a connection may send before its welcome: its HTTP request, and then
            its ``session.hello``. More closes it, with HTTP 431 or code 1009.
        frame_bytes: frames of clients above this size are refused (WebSocket, stdio).
        event_bytes: the largest payload of one event or result.
        chunk_bytes: the largest piece of a streamed result, before encoding (§14).
        result_bytes: the largest streamed result (§14).
        cancel_grace: how long an agent that looks at ``job.cancelled`` may take to end by itself
            after a cancel. Others are interrupted at once.
        kill_grace: how long an interrupted agent may take to end before its job is ended without
            it.
        lease_grace: how long a job may go on after its lease expired (§14).
        lag_events: unacknowledged events of a client that negotiated `ack` before it is sent a
            status with the phase ``back_pressure``, and, if it acknowledges at all, its jobs are
            slowed down (§6.5).
        lag_delay: the longest that one emitted event is held up for a slow client.
        retention: how long an ended job can still be listed and subscribed to.
        retained_jobs: how many ended jobs are kept at most, of all principals. When there are more,
            the oldest of the principal that has most is forgotten.
        retained_bytes: bytes of events, leases and results kept for ended jobs, all together;
            likewise.
        history_events: events kept for one job's subscribers.
        history_bytes: the same in bytes.
        outbox_bytes: bytes of answers that may wait for a client that takes nothing. Beyond them
            nothing more is read from it, and with twice as many its connection ends.
        input_bytes: bytes of inputs, as JSON, of one principal's jobs that have not ended.
        journal_bytes: bytes that may wait to be written to a durable event log. Beyond them agents
            that emit wait, and requests that would add to them are refused.
        idempotency_window: how long an idempotency key is remembered (§7.2).
        idempotency_keys: how many of them are remembered, of all principals. When there are more,
            the oldest of the principal that has most is forgotten.
        idempotency_bytes: the same in bytes, of keys and acceptances.
    """

    max_concurrent_jobs: int | None = None
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
    """A principal that asks to see a job that another one submitted (§7.6, §14)."""

    observer: str
    owner: str
    job_id: str
    agent: str


Policy = Callable[[Observation], bool]
"""Whether an observation is allowed. Asked for foreign jobs; never grants more than watching."""
