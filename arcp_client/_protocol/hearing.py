"""Jobs that a resumed link hears nothing of in, what makes it hear them out (§6.3).

Where a session may subscribe to a job of its own, that is enough. Else, and until it is confirmed,
the session is resumed from time to time: that brings what was said meanwhile.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from arcp_client._protocol.asking import hearing
from arcp_client._protocol.deafness import Deafness
from arcp_client._protocol.ordering import Ordering
from arcp_client._protocol.outbox import Outbox
from arcp_client._protocol.requests import Requests
from arcp_client._protocol.terms import Terms
from arcp_client._wire import dialect
from arcp_client._wire.replies import Subscribed
from arcp_client.errors import LinkLost

__all__ = ["OWN_TIMEOUT", "Hearing"]

OWN_TIMEOUT: Final = 30.0
"""Seconds that the runtime has for an answer to what the session asks on its own account."""


class Hearing:
    """The jobs of the session that were submitted over links that are gone.

    Args:
        terms: what was agreed on.
        out: asked for a new link.
        requests: take what is asked here.
        ordering: told of subscriptions.
    """

    def __init__(self, terms: Terms, out: Outbox, requests: Requests, ordering: Ordering) -> None:
        self._terms = terms
        self._out = out
        self._requests = requests
        self._ordering = ordering
        self._deaf = Deafness()

    def resumed(
        self, jobs: Iterable[str], cursor: int, now: float, *, led_back: Container[str] = ()
    ) -> None:
        """A link was resumed.

        Args:
            jobs: those that had been submitted before, and run.
            cursor: what had been received before it.
            now: the time.
            led_back: jobs that are subscribed to in any case.
        """
        jobs = list(jobs)
        self._deaf.resumed(jobs, cursor, now)
        for job_id in jobs:
            if job_id not in led_back:
                self._ask(job_id, cursor, now)

    def learn(self, job_id: str, now: float) -> None:
        """One more job is bound to a link that is gone."""
        self._deaf.learn(job_id, now)
        self._ask(job_id, self._ordering.cursor, now)

    def _ask(self, job_id: str, cursor: int, now: float) -> None:
        if self._terms.dialect.hears_by_subscribing and self._terms.offer(dialect.SUBSCRIPTIONS):
            # What it said between the resume's replay and the subscription is in its history.
            self._requests.add(hearing(job_id, from_seq=cursor, deadline=now + OWN_TIMEOUT))

    def answered(self, job_id: str, value: object) -> None:
        """A subscription was confirmed; the end of one that has ended comes with a resume."""
        self._ordering.subscribed(job_id)
        if isinstance(value, Subscribed) and value.status not in dialect.ENDED:
            self._deaf.ended(job_id)

    def ended(self, job_id: str) -> None:
        """A job's end came, or is not waited for."""
        self._deaf.ended(job_id)

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called; ``None`` if every job is heard."""
        return self._deaf.deadline

    def tick(self, now: float) -> None:
        """Time has passed: resume once more, if it is time to."""
        if self._deaf.due(now, busy=self._requests.asked()):
            text = "jobs run that this link hears nothing of: the next resume brings it (§6.3)"
            self._out.relink(LinkLost(text))

    def lost(self) -> None:
        """The link is gone: the next one tells what is deaf."""
        self._deaf.lost()
