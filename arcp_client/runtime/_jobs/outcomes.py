"""Values of a job's lifecycle: cancellation, success, failure, streamed result, timers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from arcp_client._wire import names
from arcp_client._wire.halves import TextJoiner

__all__ = [
    "LEASE_PAST",
    "LEASE_RAN_OUT",
    "NOT_WRITTEN",
    "PARENT_ENDED",
    "SHUT_DOWN",
    "Cancellation",
    "Failure",
    "Streamed",
    "Success",
    "Timers",
]


class Cancellation:
    """Whether and why a job must end: ``is_set()``, ``await wait()``, or ``await`` the object."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason: str | None = None

    def is_set(self) -> bool:
        """Whether the job must end."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the job must end."""
        await self._event.wait()

    def __await__(self) -> Generator[Any, None, None]:
        return self.wait().__await__()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def set(self, reason: str) -> None:
        """Request the agent to end."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()


@dataclass(frozen=True, slots=True)
class Success:
    """A successful outcome: the inline value as JSON, or id and size of a streamed result."""

    value: Any = None
    result_id: str | None = None
    size: int | None = None

    status = names.SUCCESS


@dataclass(frozen=True, slots=True)
class Failure:
    """An unsuccessful outcome (§7.3, §12)."""

    status: str
    code: str
    message: str
    retryable: bool = False
    details: Any = None
    interrupted: bool = False
    """The runtime ended while the job ran; another job may attempt its work."""


LEASE_PAST = Failure(
    names.ERROR,
    names.INTERNAL_ERROR,
    "this replica of the runtime lost its lease",
    retryable=True,
    interrupted=True,
)
LEASE_RAN_OUT = Failure(names.ERROR, names.LEASE_EXPIRED, "the lease expired during execution")
NOT_WRITTEN = Failure(
    names.ERROR, names.INTERNAL_ERROR, "the event log cannot be written", retryable=True
)
PARENT_ENDED = Failure(names.STATUS_CANCELLED, names.CODE_CANCELLED, "the delegating job ended")
SHUT_DOWN = Failure(
    names.ERROR,
    names.INTERNAL_ERROR,
    "the runtime was shut down",
    retryable=True,
    interrupted=True,
)


@dataclass(slots=True)
class Streamed:
    """The streamed part of a result so far (§8.4)."""

    result_id: str
    count: int = 0
    size: int = 0
    done: bool = False
    text: TextJoiner = field(default_factory=TextJoiner)
    kept: list[str | bytes] | None = None
    """The pieces, kept for a client that did not negotiate ``result_chunk``."""


@dataclass(slots=True)
class Timers:
    """The timers that may end one job."""

    handles: list[asyncio.TimerHandle] = field(default_factory=list)

    def arm(self, delay: float, callback: Callable[[], None]) -> None:
        """Call back after a delay, unless the job has ended."""
        self.handles.append(asyncio.get_running_loop().call_later(delay, callback))

    def stop(self) -> None:
        """Stop all timers."""
        for handle in self.handles:
            handle.cancel()
        self.handles.clear()
