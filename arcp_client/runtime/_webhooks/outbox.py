"""Keeps the calls to one endpoint until they are made: in order for each job, within limits.

Calls wait in a lane for each job. A few workers take the lanes in turn; while a call is repeated,
its lane and its worker wait. If the event log is durable, a call is stored together with its event,
and removed when it has been made, so that the next process makes the remaining calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from collections import deque
from functools import partial

import aiohttp
from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner, cancel_and_wait
from arcp_client._wire.ids import parse_time
from arcp_client.runtime._log.entries import WebhookCall, WebhookDone
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._webhooks.calls import CallAnswer, CallEnd, attempt, open_session
from arcp_client.runtime._webhooks.endpoint import Webhook

__all__ = ["Outbox"]

_log = logging.getLogger("arcp_client.runtime")

_AT_ONCE = 4
"""Calls to one endpoint at the same time."""

_FALLBACK = 60.0
"""Seconds until the next try if the user's function for it fails."""


class _ClosingError(Exception):
    """The runtime is closed while a call waits to be tried again."""


class Outbox:
    """The calls to one endpoint.

    Args:
        webhook: the endpoint.
        most: calls that may wait. Further ones are dropped, counted and logged.
        journal: stores calls, and calls back once they are stored.
        tasks: owns the workers.
        durable: whether the journal's log is durable.

    Attributes:
        made: calls that succeeded.
        dropped: calls that are not made: refused, given up, or beyond the limit.
    """

    def __init__(
        self, webhook: Webhook, most: int, journal: Journal, tasks: TaskOwner, *, durable: bool
    ) -> None:
        self.webhook = webhook
        self.made = 0
        self.dropped = 0
        self._most = most
        self._journal = journal
        self._tasks = tasks
        self._durable = durable
        self._waiting: dict[str, WebhookCall] = {}  # stored ones, and those that are being stored
        self._lanes: dict[str, deque[WebhookCall]] = {}
        self._ready: deque[str] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._gone = False
        self._full = False

    @property
    def open(self) -> bool:
        """Whether further calls are taken."""
        return not (self._gone or self._closing.is_set() or len(self._waiting) >= self._most)

    @property
    def waiting(self) -> int:
        """The number of calls that are not made yet."""
        return len(self._waiting)

    def add(self, call: WebhookCall) -> None:
        """Make a call as soon as its event is stored."""
        if self._gone or (self._closing.is_set() and not self._durable):
            self.dropped += 1
            return
        if call.id in self._waiting:
            return
        if len(self._waiting) >= self._most:
            self._overflow(call)
            return
        if self._full:
            self._full = False
            _log.warning(
                "webhook %s: calls are taken again; %d were dropped so far",
                self.webhook.origin,
                self.dropped,
            )
        self._waiting[call.id] = call
        if self._durable:
            self._journal.put(call)
        self._journal.then(partial(self._queue, call))

    def restore(self, call: WebhookCall) -> None:
        """Make a stored call."""
        if call.id not in self._waiting:
            self._waiting[call.id] = call
            self._queue(call)

    async def close(self, timeout: float) -> None:
        """Make the calls that wait, each at most once more, for at most ``timeout`` seconds."""
        self._closing.set()
        if self._workers:
            await asyncio.wait(self._workers, timeout=timeout)
        await cancel_and_wait(self._workers)
        left = len(self._waiting)
        if left and self._durable:
            _log.info("webhook %s: %d calls wait for the next start", self.webhook.origin, left)
        elif left:
            self.dropped += left
            _log.warning(
                "webhook %s: %d calls were not made: the runtime was closed",
                self.webhook.origin,
                left,
            )

    def drop(self) -> None:
        """Forget all calls without storing anything: another replica makes them."""
        for worker in self._workers:
            worker.cancel()
        for collection in (self._waiting, self._lanes, self._ready):
            collection.clear()

    def _overflow(self, call: WebhookCall) -> None:
        self.dropped += 1
        if not self._full:
            self._full = True
            _log.error(
                "webhook %s: %d calls wait already; those for job %s and later ones are dropped",
                self.webhook.origin,
                self._most,
                call.job_id,
                extra=log_fields(job=call.job_id),
            )

    # -------------------------------------------------------------------------- making

    def _queue(self, call: WebhookCall) -> None:
        if call.id not in self._waiting or self._gone or self._closing.is_set():
            return  # dropped meanwhile, or left to the next process
        lane = self._lanes.get(call.job_id)
        if lane is not None:
            lane.append(call)
            return
        self._lanes[call.job_id] = deque([call])
        self._ready.append(call.job_id)
        if len(self._workers) < _AT_ONCE:
            # An empty context: context variables of the agent must not reach the HTTP client.
            task = contextvars.Context().run(self._tasks.spawn, self._work(), name="webhook")
            self._workers.add(task)
            task.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        async with open_session() as session:
            while self._ready:
                job_id = self._ready.popleft()
                lane = self._lanes[job_id]
                try:
                    await self._make(session, lane[0])
                except _ClosingError:
                    continue
                if self._gone:
                    return
                lane.popleft()
                if lane:
                    self._ready.append(job_id)
                else:
                    del self._lanes[job_id]

    async def _make(self, session: aiohttp.ClientSession, call: WebhookCall) -> None:
        retrying = AsyncRetrying(
            sleep=self._sleep,
            retry=retry_if_result(lambda answer: answer.verdict is CallEnd.AGAIN),
            wait=self._wait,
            stop=partial(self._overdue, call),
            before_sleep=partial(self._tell, call),
            retry_error_callback=_last_answer,
        )
        answer: CallAnswer = await retrying(attempt, session, self.webhook, call)
        if self._waiting.pop(call.id, None) is None:
            return  # dropped meanwhile
        if self._durable:
            self._journal.put(WebhookDone(self.webhook.key, call.id))
        if answer.verdict is CallEnd.MADE:
            self.made += 1
            return
        self.dropped += 1
        if answer.verdict is CallEnd.GONE:
            self._end()
            return
        _log.error(
            "webhook %s: the call %s for job %s is not made: %s%s",
            self.webhook.origin,
            call.id,
            call.job_id,
            answer.why,
            " (redirects are not followed)" if answer.why.startswith("HTTP 3") else "",
            extra=log_fields(job=call.job_id),
        )

    def _end(self) -> None:
        """End all calls to this endpoint, which does not want them."""
        self._gone = True
        left = len(self._waiting)
        self.dropped += left
        _log.error(
            "webhook %s answered 410 Gone: no more calls until the next start; %d dropped",
            self.webhook.origin,
            left,
        )
        for id in self._waiting:
            if self._durable:
                self._journal.put(WebhookDone(self.webhook.key, id))
        current = asyncio.current_task()
        for worker in self._workers:
            if worker is not current:
                worker.cancel()
        for collection in (self._waiting, self._lanes, self._ready):
            collection.clear()

    # ------------------------------------------------------------------------- retries

    def _wait(self, state: RetryCallState) -> float:
        try:
            seconds = float(self.webhook.wait(state))
            if not seconds >= 0:
                raise ValueError(f"{seconds} seconds")
        except Exception:  # noqa: BLE001 - a function of the user; the calls must continue
            _log.exception("webhook %s: its `wait` failed", self.webhook.origin)
            seconds = _FALLBACK
        return max(seconds, _last_answer(state).after)

    def _overdue(self, call: WebhookCall, state: RetryCallState) -> bool:
        at = parse_time(call.at)
        wait = state.upcoming_sleep
        age = 0.0 if at is None else time.time() - at.timestamp()
        return age + wait > self.webhook.give_up

    def _tell(self, call: WebhookCall, state: RetryCallState) -> None:
        _log.warning(
            "webhook %s: try %d of the call for job %s failed (%s); the next one in %.1f s",
            self.webhook.origin,
            state.attempt_number,
            call.job_id,
            _last_answer(state).why,
            state.upcoming_sleep,
            extra=log_fields(job=call.job_id),
        )

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
            raise _ClosingError


def _last_answer(state: RetryCallState) -> CallAnswer:
    assert state.outcome is not None
    answer: CallAnswer = state.outcome.result()
    return answer
