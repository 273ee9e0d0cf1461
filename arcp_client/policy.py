"""Policies: how a client buffers, waits and retries, as frozen values."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from tenacity import stop_never, wait_random_exponential
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from arcp_client import _arguments as check

__all__ = ["Batch", "Buffer", "Order", "Reconnect", "Timeouts"]

_MIB = 1024 * 1024


class Order(enum.Enum):
    """The order in which a registration's handler calls run."""

    SESSION = "session"
    """Arrival order over the whole session."""

    JOB = "job"
    """Arrival order within each job; jobs run concurrently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """How many events one call of a handler gets, and how long they may wait for each other.

    Attributes:
        count: number of events that one call gets at most. With a store, a call gets at most its
            ``every`` events.
        seconds: how long the oldest waiting event may wait until the batch is full. With 0, a call
            gets the events that wait when the previous call has ended. The wait ends early in three
            cases: ``count`` events or half of ``Buffer.soft`` wait; a caller awaits one of them
            with ``job.result()``, ``drain()`` or ``close()``; or no further event comes before
            these are handled, because the reader has paused or a checkpoint must be saved.
    """

    count: int = 256
    seconds: float = 0.0

    def __post_init__(self) -> None:
        check.a_number("Batch.count", self.count, least=1)
        check.seconds("Batch.seconds", self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Limits on the events that wait for the consumers of one client.

    Consumers are handlers, iterators and Rx operators; the slowest one counts. Events that a late
    iterator gets from a replay buffer do not count, nor do events that wait for a missing one.

    Attributes:
        soft: number of events at which the reader of the link pauses, so that TCP slows the runtime
            down. The reader does not pause while an answer is awaited, or while a running handler
            awaits a result, a chunk or an event.
        hard: number of events up to which the reader, if it does not pause, reads into memory.
        bytes: bytes of waiting frames at which both ``soft`` and ``hard`` count as reached. Events
            that a running handler awaits are read into memory up to this limit, regardless of the
            number of events before them. The same limit applies to outgoing frames other than
            requests: above it the reader stops until the runtime reads again. If the runtime reads
            nothing for two heartbeat intervals, the link is closed.
        spill: bytes of the temporary file for frames beyond ``hard``. When it is full, the reader
            stops, and a handler that awaits an event in the file gets BufferFull.
    """

    soft: int = 1024
    hard: int = 8192
    bytes: int = 32 * _MIB
    spill: int = 256 * _MIB

    def __post_init__(self) -> None:
        for name, least in (("soft", 1), ("hard", 1), ("bytes", 1), ("spill", 0)):
            check.a_number(f"Buffer.{name}", getattr(self, name), least=least)
        if not self.soft <= self.hard:
            raise ValueError(
                f"Buffer.soft must be at most Buffer.hard, not {self.soft} with {self.hard}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Bounds on waiting, in seconds.

    Attributes:
        connect: one attempt to connect, up to the welcome.
        open: the first connect, all attempts together.
        request: the answer to one request.
        close: `Client.close` and `Client.detach`.
        drain: `Client.drain`, which waits for handlers.
        stall: how long an iterator from which no item is requested may delay a result that is
            awaited; then its queued events are replaced by a `Gap`.
        deadlock: how long a task that a handler has started may wait for something that waits for
            the handler; then it gets WouldDeadlock.
        silence: how long a job may send no event after a link was lost, while its runtime does not
            report its end. After this time ``client.stats().silent`` and a warning name the job;
            polling continues. Not used for runtimes that keep events for a resume.
    """

    connect: float = 10.0
    open: float = 15.0
    request: float = 30.0
    close: float = 5.0
    drain: float = 5.0
    stall: float = 30.0
    deadlock: float = 5.0
    silence: float = 300.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            check.seconds(f"Timeouts.{name}", getattr(self, name), above=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """When and how the client reconnects.

    A client that was live once retries until ``stop`` ends the retries, or until its token is
    refused. (If ``token`` is a function, the client first asks it for another token.) A wrong path,
    a login page, an invalid certificate and a refused hello are retried too, because they occur
    during a deployment; ``client.state`` has the cause. During the first connect, these failures
    are final. If a runtime refuses two hellos for a new session as expired, the client ends with
    ResumeExpired in either case.

    Attributes:
        wait: a tenacity wait object; full jitter with a cap of 30 s by default.
        stop: a tenacity stop object, asked after each failed attempt of the first connect and of
            each reconnect; by default it never ends them. The first connect also gives up after
            ``Timeouts.open``.
        reset_after: seconds for which a link must be live to reset the delays. A link that has
            delivered new events resets the delays in any case.
        classify: a function that gets a failure and returns whether to retry; ``None`` for the
            built-in rule. The function is not called for a refused token.
    """

    wait: wait_base = field(
        default_factory=lambda: wait_random_exponential(multiplier=0.5, max=30.0)
    )
    stop: stop_base = stop_never
    reset_after: float = 10.0
    classify: Callable[[BaseException], bool] | None = None

    def __post_init__(self) -> None:
        for name in ("wait", "stop", "classify"):
            value = getattr(self, name)
            if not callable(value) and (name != "classify" or value is not None):
                raise TypeError(f"Reconnect.{name} must be a function, such as those of tenacity")
            check.a_function(f"Reconnect.{name}", value, none=True, sync=True)
        check.seconds("Reconnect.reset_after", self.reset_after)
