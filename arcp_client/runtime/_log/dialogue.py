"""The `SharedDialogue` interface, through which replicas share questions and messages.

The replica whose agent waits for a question decides about the question. The replica that runs a job
handles the job's messages. Other replicas store answers and messages for that replica, and read its
decisions. A question for which no agent waits, because its job was interrupted, belongs to no
replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from arcp_client.runtime._log.entries import QuestionState

__all__ = [
    "AnswersOffered",
    "KnownQuestion",
    "MessagesOffered",
    "OfferedAnswer",
    "OfferedMessage",
    "QuestionsMoved",
    "SharedDialogue",
    "StoredMessage",
]


@dataclass(frozen=True, slots=True)
class KnownQuestion:
    """A question as all replicas know it.

    Attributes:
        state: its present state.
        held: whether an agent waits for it, on any replica.
        mine: whether an agent of this replica waits for it, so that this replica decides.
        agent: the agent of the last job that asked it, with its version; ``None`` if that job is
            no longer known.
    """

    state: QuestionState
    held: bool
    mine: bool
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class OfferedAnswer:
    """An answer that waits for the replica that decides about its question.

    Attributes:
        id: the offer's id.
        question_id: the question.
        job_id: the job under which it was given.
        by: the principal that answers.
        client: the client that answers.
        key: the answer's idempotency key.
        value: the answer as JSON.
    """

    id: str
    question_id: str
    job_id: str
    by: str
    client: str
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class OfferedMessage:
    """A message that waits for the replica that runs its job; ``value`` is JSON."""

    job_id: str
    message_id: str
    mode: str
    by: str
    client: str
    value: bytes
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """What is known of a message: its state, its fingerprint, and why it was refused.

    ``state`` is ``offered``, ``queued``, ``consumed``, ``returned`` or ``refused``; for a message
    that was not taken in, it is ``full`` or ``ended``.
    """

    state: str
    fingerprint: bytes
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class QuestionsMoved:
    """Questions were opened, closed or left by their agents; ``None`` if changes were missed."""

    questions: Sequence[KnownQuestion] | None


@dataclass(frozen=True, slots=True)
class AnswersOffered:
    """Answers wait for this replica, which decides about their questions."""

    answers: Sequence[OfferedAnswer]


@dataclass(frozen=True, slots=True)
class MessagesOffered:
    """Messages wait for this replica, which runs their jobs."""

    messages: Sequence[OfferedMessage]


class SharedDialogue(Protocol):
    """Knows the questions and messages of all replicas of one runtime.

    Every method waits for the replicas' store, for a bounded time, and raises ``RequestError``
    (INTERNAL_ERROR, retryable) if it cannot be reached. What changes comes with the other changes
    of the `Directory`.
    """

    # ---------------------------------------------------------------------- questions

    async def ask(self, state: QuestionState, job_id: str, most: int) -> KnownQuestion | None:
        """Register a question, or return the one of the same work that is open or has a value.

        A new question opens when its state and its event are stored. An open one for which no agent
        waits is this replica's from now on. Safe to repeat.

        Raises:
            LocalProtocolError: the principal has ``most`` open questions already.
        """

    async def claim(self, question_id: str) -> KnownQuestion | None:
        """Decide about a question from now on, if no other replica does."""

    async def question(self, question_id: str) -> KnownQuestion | None:
        """Return a question."""

    async def questions(
        self,
        principal: str | None,
        after: int,
        limit: int,
        visible: Callable[[KnownQuestion], bool],
    ) -> tuple[Sequence[KnownQuestion], int | None]:
        """Return the open questions above a number, of one principal or all; and the next number.

        Paging neither misses nor repeats a question that is open all the time.
        """

    async def settle(
        self, question_id: str, value: bytes, by: str, client: str, key: str | None
    ) -> None:
        """Answer a question, if it is open and no agent waits for it."""

    async def offer_answer(self, answer: OfferedAnswer) -> bool:
        """Leave an answer for the replica that decides; False if too many wait for it.

        The answer is dropped when its question is closed.
        """

    async def answer_refused(self, answer: OfferedAnswer) -> str | None:
        """Return the refusal of an answer whose question stays open, encoded; else ``None``."""

    async def refuse_answer(self, answer: OfferedAnswer, refusal: str) -> None:
        """Refuse an answer; its question stays open."""

    async def drop_answer(self, answer: OfferedAnswer) -> None:
        """Take an answer back."""

    async def supports(self, principal: str, feature: str) -> bool:
        """Whether any session of a principal has negotiated a feature, on any replica."""

    # ----------------------------------------------------------------------- messages

    async def offer_message(self, message: OfferedMessage, most: int) -> StoredMessage:
        """Leave a message for the replica that runs its job; return what is known of it.

        Of one job, at most ``most`` messages wait so.
        """

    async def message(self, message: OfferedMessage) -> StoredMessage:
        """Return what is known of a message; ``ended`` if its job has ended without taking it."""

    async def refuse_message(self, message: OfferedMessage, refusal: str) -> None:
        """Refuse a message that was offered."""

    async def drop_message(self, message: OfferedMessage) -> None:
        """Take a message back that was not taken in."""
