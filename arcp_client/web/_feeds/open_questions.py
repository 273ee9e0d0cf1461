"""Keeps the open questions of all jobs for pages, and how the latest ones were closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Any

from arcp_client import ArcpError, Client, Closed, Event, OpenQuestion, TakenAnswer, events
from arcp_client._tasks import TaskOwner
from arcp_client.projection.values import iso
from arcp_client.transcripts import Scrubber

__all__ = ["PageQuestions"]

_log = logging.getLogger("arcp_client.web")

_OPEN = 1_000
_CLOSED = 50
_OUTCOMES = 256
_RETRY = 5.0
"""Seconds between two attempts to follow the questions of a runtime that refused it."""


class PageQuestions:
    """The open questions of a client's principal, and those that were closed last.

    Args:
        client: lists and follows the questions.
        scrubber: masks secrets in texts of agents.
        changed: called after each change.

    Attributes:
        revision: a number that grows with each change, also over restarts of the server.
        truncated: whether there are more open questions than are kept.
    """

    def __init__(self, client: Client, scrubber: Scrubber, changed: Callable[[], None]) -> None:
        self._client = client
        self._scrubber = scrubber
        self._notify = changed
        self._open: dict[str, OpenQuestion] = {}
        self._closed: OrderedDict[str, tuple[OpenQuestion, dict[str, Any]]] = OrderedDict()
        self._outcomes: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.revision = int(time.time() * 1000)
        self.truncated = False
        kinds = (events.Answered, events.Expired, events.Withdrawn)
        self._events = client.subscribe(self._seen, *kinds, barrier=False)
        self._owner = TaskOwner("arcp_client.web")
        self._owner.spawn(self._follow(), name="questions")

    @property
    def count(self) -> int:
        """How many open questions this principal may answer."""
        return sum(question.may_answer for question in self._open.values())

    @property
    def jobs(self) -> frozenset[str]:
        """The jobs with open questions."""
        return frozenset(question.job_id for question in self._open.values())

    def summary(self) -> dict[str, int]:
        """What pages are told with the state of the link."""
        return {"open": self.count, "revision": self.revision}

    def describe(self) -> dict[str, Any]:
        """All questions as a JSON object: the open ones oldest first, the closed ones newest first.

        Values of options and schemas are unchanged, because a masked value would be another answer.
        """
        closed = reversed(self._closed.values())
        return {
            "revision": self.revision,
            "truncated": self.truncated,
            "open": [self._document(question) for question in self._open.values()],
            "closed": [{**self._document(each), "outcome": how} for each, how in closed],
        }

    def of(self, job_id: str) -> OpenQuestion | None:
        """The oldest open question of a job that this principal may answer."""
        own = (each for each in self._open.values() if each.job_id == job_id and each.may_answer)
        return next(own, None)

    def outcome(self, question_id: str) -> dict[str, Any] | None:
        """How a question was closed; ``None`` while it is open."""
        if question_id in self._open:
            return None
        return self._outcomes.get(question_id, {"state": "closed"})

    def taken(self, answer: TakenAnswer) -> dict[str, Any]:
        """Note an answer that was sent from a page; return how the question is closed."""
        return self._note(answer.question_id, _answered(answer))

    async def close(self) -> None:
        """Follow no longer."""
        self._events.dispose()
        await self._owner.close()

    # ------------------------------------------------------------------

    async def _follow(self) -> None:
        while not isinstance(self._client.state, Closed):
            try:
                await self._client.connected()
                async with aclosing(self._client.inbox()) as changes:  # type: ignore[type-var]
                    async for now_open in changes:
                        self._listed(now_open)
            except ArcpError as error:  # pages show the state of the link
                _log.debug("the open questions are not followed: %s", error)
            await asyncio.sleep(_RETRY)

    def _listed(self, now_open: Iterable[OpenQuestion]) -> None:
        found = {question.question_id: question for question in now_open}
        self.truncated = len(found) > _OPEN
        before, self._open = self._open, dict(list(found.items())[:_OPEN])
        for question_id, question in before.items():
            if question_id not in found:
                how = self._outcomes.get(question_id, {"state": "closed"})
                self._closed[question_id] = question, how
        for question_id in self._open:
            self._closed.pop(question_id, None)
        while len(self._closed) > _CLOSED:
            self._closed.popitem(last=False)
        self._changed()

    def _seen(self, event: Event) -> None:
        assert isinstance(event, events.Answered | events.Expired | events.Withdrawn)
        if isinstance(event, events.Answered):
            how = _answered(event)
        elif isinstance(event, events.Expired):
            how = {"state": "expired", "defaulted": event.defaulted, "value": event.value}
        else:
            how = {"state": "withdrawn", "reason": event.reason}
        self._note(event.question_id, how)

    def _note(self, question_id: str, how: dict[str, Any]) -> dict[str, Any]:
        self._outcomes[question_id] = how
        while len(self._outcomes) > _OUTCOMES:
            self._outcomes.popitem(last=False)
        if question_id in self._closed:
            self._closed[question_id] = self._closed[question_id][0], how
            self._changed()
        return how

    def _changed(self) -> None:
        self.revision += 1
        self._notify()

    def _document(self, question: OpenQuestion) -> dict[str, Any]:
        text = self._scrubber.text
        return {
            "job_id": question.job_id,
            "question_id": question.question_id,
            "agent": question.agent,
            "text": text(question.text),
            "schema": question.schema,
            "options": [
                {"value": each.value, "label": text(each.label)} for each in question.options
            ],
            "to": list(question.to),
            "asked_at": iso(question.asked_at),
            "expires_at": iso(question.expires_at),
            "has_default": question.has_default,
            "default": question.default,
            "may_answer": question.may_answer,
            "waiting": question.waiting,
        }


def _answered(answer: TakenAnswer | events.Answered) -> dict[str, Any]:
    return {
        "state": "answered",
        "by": answer.by,
        "client": answer.client,
        "at": iso(answer.at),
        "value": answer.value,
    }
