"""Policies: how a client buffers, waits and retries, as frozen values."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from tenacity import stop_never, wait_random_exponential
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from arcp_client import _arguments as check

__all__ = ["Buffer", "Order", "Reconnect", "Timeouts"]

_MIB = 1024 * 1024


class Order(enum.Enum):
    """The order in which a registration's handler calls run."""

    SESSION = "session"
    """Arrival order over the whole session."""

    JOB = "job"
    """Arrival order within each job; jobs run concurrently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Limits on the events that wait for the consumers of one client.

    Consumers are handlers, iterators and Rx operators; the slowest one counts. Events that a late
    iterator gets from a replay buffer do not count, nor do events that wait for a missing one.

    Attributes:
        soft: events at which the reader stops reading, so that TCP slows the peer down, unless an
            answer is awaited, or a running handler awaits a result, a chunk or an event.
        hard: events up to which the reader then continues to read into memory.
        bytes: bytes of waiting frames that count as ``soft``, and as ``hard``. Events that a
            running handler awaits are read into memory up to this limit, regardless of the number
            of events before them. The same limit applies to outgoing frames other than requests:
            above it the reader stops until the runtime reads again. If the runtime reads nothing
            for two heartbeat intervals, the link is closed.
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
        drain: handlers that still run when the client drains.
        stall: a full iterator from which no item is requested while a result is awaited.
        deadlock: a wait of a handler's child task that closes a cycle.
        silence: a job that this client waits for, without an event since a link was lost, while its
            runtime does not report its end. After this time ``client.stats().silent`` and a warning
            name the job; polling continues. Not used for runtimes that keep events for a resume.
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

    A client that was live once retries until its token is refused and the token provider has no
    other one, or until ``stop`` ends the retries. A wrong path, a login page, an invalid
    certificate and a refused hello are retried too, with the cause in ``client.state``, because
    they occur during a deployment. In the first connect they are final. In both cases a runtime
    that refuses two hellos without a resume as expired ends the client with ResumeExpired.

    Attributes:
        wait: a tenacity wait object; full jitter with a cap of 30 s by default.
        stop: a tenacity stop object for reconnects; never by default. The first connect gives up
            after ``Timeouts.open``.
        reset_after: seconds that a link must be live to reset the delays. A link that delivered new
            events resets them in any case.
        classify: a function that gets a failure and returns whether to retry; ``None`` for the
            built-in rule. It is not called for a refused token.
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
