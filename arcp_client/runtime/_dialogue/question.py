"""One question of an agent: its state, and its form in events, listings and refusals.

A question is open until it is answered, expires or is withdrawn. After that it does not change.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from arcp_client._wire import names
from arcp_client._wire.ids import now_text, parse_time
from arcp_client._wire.stamp import canonical
from arcp_client.errors import DuplicateKey, QuestionAnswered, QuestionClosed, RequestError
from arcp_client.runtime._dialogue.asked import Converter
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._log.entries import QuestionState

__all__ = [
    "ANSWERED",
    "DEFAULTED",
    "EXPIRED",
    "NEXT",
    "OPEN",
    "WITHDRAWN",
    "AskedQuestion",
    "Waiter",
]

OPEN: Final = "open"
ANSWERED: Final = "answered"
DEFAULTED: Final = "defaulted"
EXPIRED: Final = "expired"
WITHDRAWN: Final = "withdrawn"

NEXT: Final[Mapping[str, frozenset[str]]] = {
    OPEN: frozenset({ANSWERED, DEFAULTED, EXPIRED, WITHDRAWN}),
    ANSWERED: frozenset(),
    DEFAULTED: frozenset(),
    EXPIRED: frozenset(),
    WITHDRAWN: frozenset(),
}
"""The states that may follow each state."""

_KINDS: Final = {
    ANSWERED: names.ANSWERED,
    DEFAULTED: names.EXPIRED,
    EXPIRED: names.EXPIRED,
    WITHDRAWN: names.WITHDRAWN,
}


class Waiter(msgspec.Struct, eq=False):
    """An agent that waits for the end of a question.

    Attributes:
        job: its job.
        converter: checks and converts the answer.
        closed: done when the question is closed and this is stored.
    """

    job: ServerJob
    converter: Converter
    closed: asyncio.Future[None]


class AskedQuestion:
    """One question.

    Attributes:
        stored: its present state, as a durable log keeps it.
        waiters: the agents that wait for it.
        jobs: the jobs that the waiting agents belong to, without the ended ones.
        timer: ends it at its expiry.
        reason: why it was withdrawn.
        guest: another replica decides about it; agents of this one wait, too.
    """

    def __init__(self, stored: QuestionState) -> None:
        self.id = stored.id
        self.work = stored.principal, stored.agent, stored.work, stored.key
        self.stored = stored
        self.waiters: list[Waiter] = []
        self.jobs: dict[str, ServerJob] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.deadline = 0.0
        self.reason = ""
        self.guest = False

    @property
    def open(self) -> bool:
        """Whether it can be answered."""
        return self.stored.state == OPEN

    @property
    def settled(self) -> bool:
        """Whether a later job of the same work gets its value at once."""
        return self.stored.state in (ANSWERED, DEFAULTED)

    def overdue(self, now: float) -> bool:
        """Whether it expires now. The wall clock includes time that the machine slept."""
        if now >= self.deadline:
            return True
        expires_at = parse_time(self.stored.expires_at)
        return expires_at is not None and datetime.now(UTC) >= expires_at

    def fault(self, value: Any) -> tuple[str, str] | None:
        """Return why a value is no answer, with its path; ``None`` if it is one."""
        found = Converter(json.loads(self.stored.schema), None).fault(value)
        for waiter in self.waiters if found is None else ():
            found = found or waiter.converter.fault(value)
        return found

    def close(
        self,
        state: str,
        *,
        value: bytes | None = None,
        by: str = "",
        client: str = "",
        key: str | None = None,
        reason: str = "",
    ) -> None:
        """Move to a final state."""
        assert state in NEXT[self.stored.state], (self.stored.state, state)
        self.reason = reason
        self.stored = msgspec.structs.replace(
            self.stored,
            state=state,
            value=value,
            by=by,
            client=client,
            closed_at=now_text(),
            answer_key=key,
        )
        self.stop()

    def close_as(self, stored: QuestionState) -> None:
        """Move to the final state that another replica has decided."""
        self.reason = "agent"
        self.stored = stored
        self.stop()

    def stop(self) -> None:
        """Stop its timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def taken_over(self, job: ServerJob) -> None:
        """Note that another job has asked it."""
        self.stored = msgspec.structs.replace(
            self.stored, job_ids=(*self.stored.job_ids[-15:], job.id)
        )

    def pauses(self, paused: bool) -> None:
        """Note whether it has stopped the clock of a lease."""
        self.stored = msgspec.structs.replace(self.stored, paused=paused)

    # ------------------------------------------------------------------- descriptions

    def body(self, *, paused: bool) -> dict[str, Any]:
        """Return the body of its ``question`` event."""
        stored = self.stored
        body: dict[str, Any] = {
            "question_id": stored.id,
            "text": stored.text,
            "schema": msgspec.Raw(stored.schema),
            "to": list(stored.to),
            "expires_at": stored.expires_at,
            "has_default": stored.default is not None,
            "lease_paused": paused,
        }
        if stored.options is not None:
            body["options"] = msgspec.Raw(stored.options)
        if stored.default is not None:
            body["default"] = msgspec.Raw(stored.default)
        return body

    def closing(self) -> tuple[str, dict[str, Any]]:
        """Return the kind and the body of the event that reports its end."""
        stored = self.stored
        body: dict[str, Any] = {"question_id": stored.id}
        if stored.state == ANSWERED:
            body |= {"value": self.value, "by": stored.by, "client": stored.client}
            body["at"] = stored.closed_at
        elif stored.state == WITHDRAWN:
            body["reason"] = self.reason
        else:
            body["defaulted"] = stored.state == DEFAULTED
            if stored.state == DEFAULTED:
                body["value"] = self.value
        return _KINDS[stored.state], body

    @property
    def value(self) -> msgspec.Raw:
        """Its answer or its default, as JSON."""
        return msgspec.Raw(self.stored.value or b"null")

    def entry(self, *, may_answer: bool, waiting: bool) -> dict[str, Any]:
        """Return its entry in a list of open questions."""
        stored = self.stored
        return self.body(paused=stored.paused and waiting) | {
            "job_id": stored.job_ids[-1],
            "agent": stored.agent,
            "asked_at": stored.asked_at,
            "may_answer": may_answer,
            "waiting": waiting,
        }

    def taken(self, request_id: str) -> dict[str, Any]:
        """Return the payload that confirms the answer."""
        stored = self.stored
        payload = {
            "job_id": stored.job_ids[-1],
            "question_id": stored.id,
            "value": self.value,
            "by": stored.by,
            "client": stored.client,
            "at": stored.closed_at,
        }
        return payload | {"request_id": request_id} if request_id else payload

    def may_be_answered_by(self, principal: str) -> bool:
        """Whether a principal that may see it may also answer it."""
        stored = self.stored
        return principal in stored.to if stored.to else principal == stored.principal

    def check_late(self, principal: str, key: str | None, value: Any) -> None:
        """Accept the answer that has closed it, sent again; refuse any other one.

        Raises:
            RequestError: the refusal; if another answer was first, it says whose.
        """
        stored = self.stored
        if key is None or key != stored.answer_key or stored.by != principal:
            raise self.refusal()
        if canonical(json.loads(stored.value or b"null")) != canonical(value):
            raise DuplicateKey("the idempotency key was used for another answer")

    def refusal(self) -> RequestError:
        """Return the refusal of an answer that comes too late."""
        stored = self.stored
        if stored.state == ANSWERED:
            return QuestionAnswered(
                f"{stored.by} answered at {stored.closed_at}",
                details={
                    "question_id": stored.id,
                    "by": stored.by,
                    "client": stored.client,
                    "at": stored.closed_at,
                    "value": self.value,
                },
            )
        words = "was withdrawn" if stored.state == WITHDRAWN else "has expired"
        return QuestionClosed(
            f"the question {words}",
            details={"question_id": stored.id, "state": stored.state, "at": stored.closed_at},
        )
