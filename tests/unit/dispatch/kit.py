"""The delivering half of a client without a session: events are published by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, ClassVar

from msgspec.structs import fields

from arcp_client import Buffer, Order, Reconnect, Timeouts
from arcp_client._client.consumers import Consumers
from arcp_client._client.event_methods import EventMethods
from arcp_client._client.settings import Settings
from arcp_client._dispatch.back_pressure import BackPressure
from arcp_client._jobrecord import JobOwner
from arcp_client.errors import ArcpError, ClientClosed
from arcp_client.events import Event, Gap, Log

SESSION = "sess_1"


class FakeConsumer:
    """A consumer with a number of outstanding events, and the arrival time of the oldest one."""

    def __init__(self) -> None:
        self.outstanding = 0
        self.arrived = 0.0

    def since(self) -> float:
        return self.arrived

    @property
    def backlog(self) -> int:
        return self.outstanding

    def weight(self, backlog: int, limit: int) -> int:
        return 0

    def held(self) -> int:
        return 0

    def flush_batches(self) -> None: ...

    def iterators(self) -> tuple[()]:
        return ()

    def back_pressure(
        self,
        buffer: Buffer = Buffer(),  # noqa: B008
        *,
        check_slow: Callable[[], None] = lambda: None,
    ) -> BackPressure:
        """Back-pressure that has no other consumer."""
        return BackPressure(
            buffer,
            self,
            request_pending=lambda: False,
            stall=60.0,
            check_slow=check_slow,
            check_loop=lambda: None,
        )


class Hub(EventMethods):
    """Handlers, iterators and Observables, and who waits for the reader.

    Attributes:
        opened: the hubs of the current test, which the fixture ``hubs_are_closed`` closes.
    """

    opened: ClassVar[list[Hub]] = []

    def __init__(
        self,
        *,
        order: Order = Order.SESSION,
        buffer: Buffer = Buffer(),  # noqa: B008
        timeouts: Timeouts = Timeouts(),  # noqa: B008
        handler_timeout: float | None = None,
        request_pending: Callable[[], bool] = lambda: False,
        held: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(
            Consumers(
                Settings(
                    token=None,
                    info=None,
                    features=None,
                    order=order,
                    buffer=buffer,
                    reconnect=Reconnect(),
                    store=None,
                    key="default",
                    timeouts=timeouts,
                    dialect=None,
                    handler_timeout=handler_timeout,
                    telemetry=None,
                ),
                request_pending=request_pending,
                held=held,
                active=lambda: None,
                check_loop=lambda: None,
                failed=self._failed,
            )
        )
        self.fan_out = self._consumers.fan_out
        self.wait_graph = self._consumers.wait_graph
        self.back_pressure = self._consumers.back_pressure
        self.barriers = self._consumers.barriers
        self.drained = self._consumers.drained
        self.exempt_caller = self._consumers.exempt_caller
        self.stopped: ArcpError | None = None
        self.published = 0
        Hub.opened.append(self)

    def _failed(self, cause: ArcpError) -> None:
        self.stopped = cause
        self._consumers.end(lambda: cause, cause)

    def close(self) -> None:
        """End the tasks of the handlers."""
        self._consumers.end(lambda: ClientClosed("the test is over"), None)

    def publish(self, *events: Event) -> None:
        self.published += len(events)
        self.fan_out.publish(list(events))

    def owner(self) -> JobOwner:
        async def nothing(*_: Any) -> Any: ...

        async def no_stream(*_: Any) -> AsyncGenerator[bytes, None]:
            return
            yield b""

        known: dict[str, Any] = dict(
            notifications=self.notifications,
            gate=self.back_pressure,
            check_loop=lambda: None,
            wait_graph=self.wait_graph,
            barriers=self._consumers.barriers,
            own_call=self._consumers.own_call,
            chunk_log=lambda _: None,
            exact_sizes=lambda: False,
            may_have_lost_events=lambda: False,
            sse=no_stream,
        )
        requests = {field.name for field in fields(JobOwner) if field.required} - set(known)
        return JobOwner(**known, **dict.fromkeys(requests, nothing))

    @property
    def mark(self) -> int:
        return self.fan_out.mark(SESSION, self.published)

    @property
    def above(self) -> tuple[tuple[int, int], ...]:
        return self.fan_out.processed_above(SESSION, self.published)

    @property
    def processed(self) -> int:
        return self.fan_out.processed


def log(seq: int, job: str | None = "job_1", message: str = "") -> Log:
    return Log(seq=seq, session_id=SESSION, job_id=job, message=message or str(seq))


def gap(seq: int, last: int | None = None) -> Gap:
    return Gap(seq=seq, session_id=SESSION, first=seq, last=last or seq)


class Tape:
    """Handlers that wait until they are let go, and what they did in which order."""

    def __init__(self) -> None:
        self.starts: list[int | None] = []
        self.ends: list[int | None] = []
        self.running: set[int | None] = set()
        self.gates: dict[int | None, asyncio.Event] = {}
        self._cancelled = False

    def gate(self, seq: int | None) -> asyncio.Event:
        return self.gates.setdefault(seq, asyncio.Event())

    def let_go(self, *numbers: int) -> None:
        for seq in numbers:
            self.gate(seq).set()

    async def handle(self, event: Event) -> None:
        self.starts.append(event.seq)
        self.running.add(event.seq)
        try:
            if not self._cancelled:
                await self.gate(event.seq).wait()
            self.ends.append(event.seq)
        except asyncio.CancelledError:
            self._cancelled = True  # or else the loop of a test that has failed would never close
            raise
        finally:
            self.running.discard(event.seq)

    async def free(self, event: Event) -> None:
        self.starts.append(event.seq)
        self.ends.append(event.seq)


async def turns(count: int = 10) -> None:
    """Let everything run that can."""
    for _ in range(count):
        await asyncio.sleep(0)
