"""The messages that clients send to a running job, and the agent's side of them (an extension).

A message is queued, and then consumed by the agent or returned at the end of its job. The events of
the job are the only record of messages, so a restart finds the messages that must be returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from arcp_client._budget import ByteBudget
from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.codec import parse, snapshot
from arcp_client._wire.messages import SendMessage
from arcp_client._wire.stamp import canonical
from arcp_client.errors import (
    DuplicateKey,
    JobEnded,
    LocalProtocolError,
    RequestError,
    request_error,
)
from arcp_client.models import JobMessage
from arcp_client.runtime._dialogue.rights import refusal_text
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import Failure, Success
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._log.dialogue import OfferedMessage, SharedDialogue
from arcp_client.runtime._log.entries import MessageState
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime.limits import Limits

__all__ = ["JobInbox", "Mailroom", "Steering", "fingerprint"]

_log = logging.getLogger("arcp_client.runtime")

QUEUED: Final = "queued"
CONSUMED: Final = "consumed"
RETURNED: Final = "returned"

NEXT: Final = {
    QUEUED: frozenset({CONSUMED, RETURNED}),
    CONSUMED: frozenset(),
    RETURNED: frozenset(),
}
"""The states that may follow each state of a message."""


class Steering:
    """Whether a message with the mode ``steer`` waits: ``is_set()``, ``await wait()``."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def is_set(self) -> bool:
        """Whether a steering message waits for the agent."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until a steering message waits for the agent."""
        await self._event.wait()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def update(self, waiting: bool) -> None:
        """Note whether a steering message waits."""
        if waiting:
            self._event.set()
        else:
            self._event.clear()


@dataclass(slots=True, eq=False)
class _Letter:
    message: JobMessage
    fingerprint: bytes
    size: int
    state: str = QUEUED

    def move(self, state: str) -> None:
        assert state in NEXT[self.state], (self.state, state)
        self.state = state


class JobInbox:
    """The messages for one job, in the order in which the runtime took them.

    ``async for message in job.inbox()`` takes each message, until the job ends.
    ``await job.inbox.take()`` takes the next one.
    """

    def __init__(
        self,
        job: ServerJob,
        then: Callable[[Callable[[], None]], None],
        moved: Callable[[ServerJob, _Letter, int | None], None],
    ) -> None:
        self._job = job
        self._then = then
        self._moved = moved
        self._waiting: deque[_Letter] = deque()
        self._missed: deque[JobMessage] = deque()
        self._taken = 0
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()
        self.steered = Steering()

    def __len__(self) -> int:
        """Return the number of waiting messages."""
        return len(self._waiting)

    def __call__(self) -> JobInbox:
        return self

    async def __aiter__(self) -> AsyncIterator[JobMessage]:
        while True:
            yield await self.take()

    async def take(self) -> JobMessage:
        """Take the next message; wait for one if there is none.

        Once this returns, `events.Consumed` is an event of the job. With a durable log it is
        stored, so no message is taken twice, in any process.

        Raises:
            LocalProtocolError: the job has ended.
        """
        async with self._turn:
            if self._missed:
                return self._missed.popleft()
            while not self._waiting:
                if self._job.ended:
                    raise LocalProtocolError("the job has ended; its inbox is closed")
                self._news.clear()
                await self._news.wait()
            letter = self._waiting.popleft()
            self._taken += 1
            letter.move(CONSUMED)
            self.steered.update(any(each.message.mode == "steer" for each in self._waiting))
            self._moved(self._job, letter, self._taken)
            stored = asyncio.get_running_loop().create_future()
            self._then(partial(_done, stored))
            try:
                await asyncio.shield(stored)
            except asyncio.CancelledError:
                self._missed.append(letter.message)  # for the next call: it counts as taken
                raise
            return letter.message

    def put(self, letter: _Letter) -> None:
        """Queue a message."""
        self._waiting.append(letter)
        if letter.message.mode == "steer":
            self.steered.update(True)
        self._news.set()

    def close(self) -> list[_Letter]:
        """Return the messages that the agent has not taken."""
        left = list(self._waiting)
        self._waiting.clear()
        self._news.set()
        return left


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Mailroom:
    """The inboxes of all jobs of this runtime.

    Args:
        limits: bounds the number and the size of messages.
        journal: calls back once events are stored.
        shared: the messages to the jobs of all replicas, if there may be others.
        tasks: owns the tasks that answer other replicas.
    """

    def __init__(
        self, limits: Limits, journal: Journal, shared: SharedDialogue | None, tasks: TaskOwner
    ) -> None:
        self._shared = shared
        self._tasks = tasks
        self._limits = limits
        self._journal = journal
        self._most = min(limits.message_bytes, limits.event_bytes // 2)
        self._inboxes: dict[ServerJob, JobInbox] = {}
        self._letters: dict[ServerJob, dict[str, _Letter]] = {}
        self._sizes: dict[ServerJob, ByteBudget] = {}

    def inbox(self, job: ServerJob) -> JobInbox:
        """Return the inbox of a job."""
        found = self._inboxes.get(job)
        if found is None:
            found = JobInbox(job, self._journal.then, self._moved)
            if not job.ended:
                self._inboxes[job] = found
                self._letters[job] = {}
                self._sizes[job] = ByteBudget(self._limits.inbox_bytes)
                job.closers.append(partial(self._job_ends, job))
        return found

    def offered(self, messages: Sequence[OfferedMessage], jobs: JobRegistry) -> None:
        """Take messages that clients of other replicas have sent."""
        for message in messages:
            job = jobs.get(message.job_id)
            if job is None or job.ended:
                continue
            request = SendMessage(
                job_id=job.id,
                message_id=message.message_id,
                mode=message.mode,
                value=parse(message.value),
            )
            try:
                self.send(job, request, by=message.by, client=message.client)
            except RequestError as error:
                self._tasks.spawn(self._refuse(message, error), name="refuse")

    async def _refuse(self, message: OfferedMessage, error: RequestError) -> None:
        assert self._shared is not None
        with contextlib.suppress(RequestError):  # it waits on, and is looked at again
            await self._shared.refuse_message(message, refusal_text(error))

    def send(
        self, job: ServerJob, request: SendMessage, *, by: str, client: str, session: str = ""
    ) -> str:
        """Take a message; return its state. The caller confirms it once it is stored.

        Raises:
            RequestError: the message is refused.
        """
        value = bytes(snapshot(request.value))
        print_ = fingerprint(request)
        known = self._known(job, request.message_id)
        if known is not None:
            if known.fingerprint != print_:
                raise DuplicateKey("the message id was used for another message")
            return known.state
        if job.ended:
            raise JobEnded(f"the job has ended: {job.status}")
        if len(value) > self._most:
            raise request_error(
                names.INVALID_REQUEST,
                f"{len(value)} bytes are over the limit of {self._most} bytes",
            )
        inbox = self.inbox(job)
        letters, sizes = self._letters[job], self._sizes[job]
        if len(inbox) >= self._limits.inbox_messages or not sizes.fits(len(value)):
            raise request_error(
                names.INTERNAL_ERROR,
                "the inbox of the job is full: its agent takes no messages",
                retryable=True,
            )
        message = JobMessage(
            message_id=request.message_id,
            mode=request.mode,
            value=request.value,
            by=by,
            client=client,
        )
        letter = _Letter(message, print_, len(value))
        with self._journal.together():
            job.emit(
                names.SENT,
                {
                    "message_id": message.message_id,
                    "mode": message.mode,
                    "value": request.value,
                    "by": message.by,
                    "client": message.client,
                },
            )
            self._note(job, letter)
        sizes.add(len(value))
        letters[message.message_id] = letter
        inbox.put(letter)
        fields = log_fields(session=session, job=job.id)
        _log.info("%s sends a message to job %s", by, job.id, extra=fields)
        return letter.state

    def _moved(self, job: ServerJob, letter: _Letter, at: int | None) -> None:
        """Report that a message was consumed, as the ``at``-th one, or returned."""
        body: dict[str, Any] = {"message_id": letter.message.message_id}
        if at is not None:
            body["at"] = at
        with self._journal.together():
            job.emit(names.RETURNED if at is None else names.CONSUMED, body)
            self._note(job, letter)

    def _note(self, job: ServerJob, letter: _Letter) -> None:
        """Store the state of a message for the other replicas."""
        if self._shared is not None:
            message_id, print_ = letter.message.message_id, letter.fingerprint
            self._journal.put(MessageState(job.id, message_id, letter.state, print_))

    def _known(self, job: ServerJob, message_id: str) -> _Letter | None:
        letters = self._letters.get(job)
        if letters is not None:
            return letters.get(message_id)
        return history_of(job).get(message_id) if job.ended else None

    def _job_ends(self, job: ServerJob, outcome: Success | Failure) -> None:
        inbox = self._inboxes.pop(job)
        del self._letters[job]
        del self._sizes[job]
        for letter in inbox.close():
            letter.move(RETURNED)
            self._moved(job, letter, None)

    def drop(self) -> None:
        """Forget all inboxes without storing anything, because the lease was past."""
        for inbox in self._inboxes.values():
            inbox.close()
        self._inboxes.clear()
        self._letters.clear()
        self._sizes.clear()

    def restore(self, job: ServerJob) -> None:
        """Return the waiting messages of a job that was cut short, before its terminal event."""
        found = [letter for letter in history_of(job).values() if letter.state == QUEUED]
        if found:
            inbox = self.inbox(job)
            for letter in found:
                inbox.put(letter)


_KINDS: Final = {
    kind: b'{"kind":"%b"' % kind.encode() for kind in (names.SENT, names.CONSUMED, names.RETURNED)
}


def fingerprint(message: JobMessage | SendMessage) -> bytes:
    """Return what is the same for the same message."""
    return hashlib.sha256(canonical([message.mode, message.value])).digest()


def history_of(job: ServerJob) -> dict[str, _Letter]:
    """Return the messages in a job's history, by their ids."""
    found: dict[str, _Letter] = {}
    for _, record in job.history:
        kind = next((k for k, start in _KINDS.items() if record.payload.startswith(start)), None)
        if kind is None:
            continue
        body = parse(record.payload)["body"]
        if kind == names.SENT:
            message = JobMessage(**body)
            print_ = fingerprint(message)
            size = len(json.dumps(message.value))
            found[message.message_id] = _Letter(message, print_, size)
        elif body["message_id"] in found:
            found[body["message_id"]].move(CONSUMED if kind == names.CONSUMED else RETURNED)
    return found
