"""Turns events of jobs into calls of webhooks, without the content of the events."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.ids import now_text
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._log.entries import (
    JOB_ENDED,
    QUESTION_OPENED,
    QUESTION_SETTLED,
    WebhookCall,
    WebhookDone,
    webhook_body,
)
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._webhooks.endpoint import Webhook
from arcp_client.runtime._webhooks.outbox import Outbox

__all__ = ["WebhookNotices"]

_log = logging.getLogger("arcp_client.runtime")


class WebhookNotices:
    """The webhooks of one runtime.

    Args:
        webhooks: the endpoints.
        most: calls that may wait for one endpoint.
        journal: stores calls, and calls back once they are stored.
        tasks: owns the tasks that make calls.
        durable: whether the journal's log is durable.
    """

    def __init__(
        self,
        webhooks: Sequence[Webhook],
        most: int,
        journal: Journal,
        tasks: TaskOwner,
        *,
        durable: bool,
    ) -> None:
        self._journal = journal
        self._outboxes = {
            webhook.key: Outbox(webhook, most, journal, tasks, durable=durable)
            for webhook in webhooks
        }

    @property
    def open(self) -> dict[str, tuple[str, ...]]:
        """What the endpoints that take further calls are called for, by their keys."""
        return {key: outbox.webhook.events for key, outbox in self._outboxes.items() if outbox.open}

    @property
    def waiting(self) -> int:
        """Calls that are not made yet."""
        return sum(outbox.waiting for outbox in self._outboxes.values())

    @property
    def made(self) -> int:
        """Calls that succeeded."""
        return sum(outbox.made for outbox in self._outboxes.values())

    @property
    def dropped(self) -> int:
        """Calls that are not made."""
        return sum(outbox.dropped for outbox in self._outboxes.values())

    def noticed(self, job: ServerJob, kind: str, body: Mapping[str, Any]) -> None:
        """Call for the newest event of a job.

        Args:
            job: the job, which has just emitted the event.
            kind: the event's kind; ``job.result`` or ``job.error`` for the terminal event.
            body: the event's body.
        """
        type, status = _meaning(job, kind, body)
        data: dict[str, Any] = {"job_id": job.id, "event_seq": job.last_seq, "status": status}
        if type != JOB_ENDED:
            data["question_id"] = body["question_id"]
        at = now_text()
        encoded = webhook_body(type, at, data)
        event_id = job.history[job.history.end - 1].id.decode()
        for key, outbox in self._outboxes.items():
            if type in outbox.webhook.events:
                outbox.add(WebhookCall(key, f"{job.id}_{event_id}", job.id, at, encoded))

    def restore(self, calls: Sequence[WebhookCall]) -> None:
        """Make stored calls. Those to URLs that are no longer configured are removed."""
        unknown: Counter[str] = Counter()
        for call in calls:
            outbox = self._outboxes.get(call.endpoint)
            if outbox is None:
                unknown[call.endpoint] += 1
                self._journal.put(WebhookDone(call.endpoint, call.id))
            else:
                outbox.restore(call)
        if unknown:
            _log.warning(
                "%d stored calls to %d webhooks that this runtime no longer has are dropped",
                unknown.total(),
                len(unknown),
            )

    def drop(self) -> None:
        """Forget all calls without storing anything, because this replica lost its lease."""
        for outbox in self._outboxes.values():
            outbox.drop()

    async def close(self, timeout: float) -> None:
        """Make the calls that wait, for at most ``timeout`` seconds; end the rest."""
        await asyncio.gather(*(outbox.close(timeout) for outbox in self._outboxes.values()))


_SETTLED = {names.ANSWERED: "answered", names.EXPIRED: "expired", names.WITHDRAWN: "withdrawn"}


def _meaning(job: ServerJob, kind: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the type of the call, and the status."""
    if kind == names.QUESTION:
        return QUESTION_OPENED, "open"
    settled = _SETTLED.get(kind)
    if settled is None:
        return JOB_ENDED, job.status
    return QUESTION_SETTLED, "defaulted" if body.get("defaulted") else settled
