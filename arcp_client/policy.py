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
    """The order in which a registration's handlers run, one after another."""

    SESSION = "session"
    """Arrival order over the whole session."""

    JOB = "job"
    """Arrival order in each job; jobs side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """How much may wait for the consumers of one client.

    Consumers are handlers, iterators and Rx operators; the slowest one counts. What a late iterator
    is given of a job's past does not count, nor do events that wait for a missing one.

    Attributes:
        soft: events at which the reader stops reading and TCP holds the peer, unless an answer is
            awaited, or a running handler awaits a result, a chunk or an event.
        hard: events up to which it then reads on in memory.
        bytes: bytes of waiting frames that count as ``soft``, and as ``hard``. Events that a
            running handler awaits are read into memory up to here, however many stand before them.
            As many bytes of answers may wait for a runtime that takes nothing; beyond them the
            reader stops until it does. If it takes nothing for two intervals of the heartbeat, the
            link is given up.
        spill: bytes of the temporary file that takes frames beyond ``hard``. When it is full the
            reader stops, and what a handler awaits of it raises BufferFull.
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
                f"Buffer.soft is at most Buffer.hard, not {self.soft} with {self.hard}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Bounds on waiting, in seconds.

    Attributes:
        connect: one attempt to connect, up to the welcome.
        open: the first connect, all attempts together.
        request: the answer to one request.
        close: an orderly end.
        drain: handlers that still run when the client drains.
        stall: an iterator that stays full and unpulled while a result is awaited.
        deadlock: a wait of a handler's child task that closes a cycle.
        silence: a job that this client waits for, of which nothing has come since a link was lost,
            although its runtime does not say that it has ended. It is then named in
            ``client.stats().silent`` and in a warning; the runtime is asked on. Runtimes that keep
            events for a resume are believed without it.
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
    """When and how a lost link is made anew.

    A client that was live once goes on until its token is refused, after a provider of tokens was
    asked again, or until ``stop`` says so. A wrong path, a login page, a foreign certificate or a
    refused hello is tried again too, with its cause in ``client.state``: a deployment looks like
    that for a while. The first connect is strict: there they are final. In both states a runtime
    that refuses two hellos without a resume as expired is given up with ResumeExpired.

    Attributes:
        wait: a tenacity wait object; full jitter with a cap of 30 s by default.
        stop: a tenacity stop object for reconnects; never by default. The first connect gives up
            after ``Timeouts.open``.
        reset_after: seconds that a link must live before the delays start from the beginning. One
            that brought new events has proved its use: after it they do so in any case.
        classify: given a failure, whether to try again; ``None`` for the built-in rule. It is not
            asked about a refused token.
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
                raise TypeError(f"Reconnect.{name} is a function, such as tenacity has")
            check.a_function(f"Reconnect.{name}", value, none=True, sync=True)
        check.seconds("Reconnect.reset_after", self.reset_after)
