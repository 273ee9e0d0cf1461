"""Numbers and encodes the events of one job, and serves them to any number of readers.

A reader is a stream to one page. It has only a position, and asks for the events after it at its
own pace. So a slow reader costs no memory and delays no other reader, and a page that is reloaded
continues at its position. A feed keeps a limited number of bytes. A reader that asks for an event
which is no longer kept is reset to the oldest event.

A position contains the id of its event besides the number. So it is also valid in the feed of
another process that has received the event, even if that feed begins with another event. For such a
reader, the feed adds an offset to its numbers, so that the reader gets consecutive ones.
"""

from __future__ import annotations

import asyncio
import secrets as random
import time
from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
from pydantic import SecretStr

from arcp_client import errors, events, transcripts
from arcp_client._feeds import frames, rows
from arcp_client._feeds.frames import Position
from arcp_client._feeds.signals import SharedFrame, Signal
from arcp_client.events import Event, Gap
from arcp_client.job import JobHandle
from arcp_client.models import JobSummary
from arcp_client.projection import JobProjection, JobRow
from arcp_client.transcripts import Scrubber

__all__ = ["BATCH_BYTES", "BATCH_EVENTS", "MEMORY", "QUIET", "JobFeed", "Reset", "ResumePoint"]

Reset = Literal["start", "expired", "restarted"]

_LISTED = (
    "agent", "version", "status", "parent_job_id", "created_at", "ended_at", "label", "last",
    "tokens", "failure", "verdict", "reason", "due_at",
)  # fmt: skip
"""Values of the row that the state of a job has, too."""

MEMORY = 8 << 20
"""Bytes of events that are kept for each job."""
BATCH_EVENTS = 500
BATCH_BYTES = 64 * 1024
_BATCH_INTERVAL = 0.05
_DETAIL_INTERVAL = 0.25
_NUMBER = 16
"""Bytes that the number of an event takes in a batch, or more."""
_CACHED_BATCHES = 8
_CACHED_SHARE = 8
"""Batches take at most an eighth of the memory of a feed, besides the newest one."""
QUIET = 1.0
"""Seconds without an event after which a history counts as complete."""
_HISTORY = 10.0
"""Seconds after the start of a feed after which its history counts as complete."""


class ResumePoint(NamedTuple):
    """How far a reader has read a feed.

    Attributes:
        after: the number of the last event that it has read.
        reason: why it has to start anew, if it does.
        shift: what is added to the numbers of this feed, so that those of the reader continue.
    """

    after: int
    reason: Reset | None = None
    shift: int = 0


class _InlineResult(msgspec.Struct):
    value: msgspec.Raw = msgspec.Raw()


class _ResultEntry(msgspec.Struct):
    event: _InlineResult


class JobFeed:
    """The events of one job, encoded and numbered from 1, and the state of the job.

    Args:
        job: the job.
        secrets: values to mask, such as the token of the dashboard.
        memory: bytes of events to keep; the newest event is kept in any case.

    Attributes:
        job: the job.
        started: the state of the job when the feed started, as a line of a transcript.
        epoch: a random id of this feed; a new feed of the same job has another one.
        projection: the state of the job, computed from the events so far.
        changed: notifies readers of new events.
        detail: the frame with the state of the job.
        first: the number of the oldest event that is kept; ``last + 1`` if there is none.
        last: the number of the newest event; 0 before the first one.
        ended: the final status of the job, after its terminal event.
        error: the reason why no more events arrive, if the terminal event is missing.
        summary: the entry of the job in the runtime's listing.
        scrubber: masks the known secrets of the job.
        unlisted: whether the job is missing from the runtime's listing.
        streamed: the kind of a result that arrived in chunks: ``text`` or ``binary``.
    """

    def __init__(
        self, job: JobHandle, *, secrets: Iterable[str | SecretStr] = (), memory: int = MEMORY
    ) -> None:
        self.job = job
        self.started = transcripts.job(job)
        self.epoch = random.token_hex(8)
        self.projection = JobProjection.of(job)
        self.changed = Signal(_BATCH_INTERVAL)
        self.detail = SharedFrame(self._detail, _DETAIL_INTERVAL)
        self.first = 1
        self.last = 0
        self.ended: str | None = None
        self.error: BaseException | None = None
        self.summary: JobSummary | None = None
        self.unlisted = False
        self.streamed: Literal["text", "binary"] | None = None
        self._first_seq: int | None = None
        self._secrets: list[str | SecretStr] = list(secrets)
        self.scrubber = Scrubber(self._secrets)
        self._learn_credentials()
        self._entries: list[bytes] = []
        self._mark_before = f"~{self.epoch}"
        self._memory = memory
        self._held = 0
        self._batches: OrderedDict[tuple[int, int], tuple[int, bytes]] = OrderedDict()
        self._batched = 0
        self._numbers: dict[str, int] = {}
        self._numbered = 0
        self._began = self._grew = asyncio.get_running_loop().time()

    # ------------------------------------------------------------------ adding events

    def add(self, event: Event) -> None:
        """Add the next event of the job."""
        if isinstance(event, events.Status):  # it may rotate a credential (§9.8)
            self._learn_credentials()
        elif isinstance(event, events.ResultChunk) and self.streamed != "binary":
            self.streamed = "text" if event.encoding == "utf8" else "binary"
        if not self.last:
            self._first_seq = event.seq
        self.last += 1
        line = frames.entry(int(time.time() * 1000), frames.plain(event, self.scrubber))
        self._entries.append(line)
        self._held += len(line)
        self._grew = asyncio.get_running_loop().time()
        self.limit(self._memory)
        self.projection.apply(event)
        if event.terminal:
            self.projection.describe(self.job)
            self.ended = self.projection.status
            self.changed.notify_now()
            self.detail.notify_now()
        else:
            self.changed.notify()
            self.detail.notify()

    def fail(self, error: BaseException) -> None:
        """Record the error after which no more events arrive."""
        self.error = error
        self.changed.notify_now()
        self.detail.notify_now()

    def limit(self, memory: int) -> None:
        """Keep at most this many bytes of events from now on."""
        self._memory = memory
        if self._held > memory:
            self._forget()

    def close(self) -> None:
        """Cancel the pending wake-ups."""
        self.changed.close()
        self.detail.close()

    def _learn_credentials(self) -> None:
        values = [credential.value for credential in self.job.credentials.values()]
        new = [value for value in values if value.get_secret_value() and value not in self._secrets]
        if new:
            self._secrets += new
            self.scrubber = Scrubber(self._secrets)

    def _forget(self) -> None:
        """Drop an eighth of the memory at once, as removing from the head of a list is slow."""
        spare, forgotten = self._held - self._memory * 7 // 8, 0
        freed = 0
        while freed < spare and forgotten < len(self._entries) - 1:
            freed += len(self._entries[forgotten])
            forgotten += 1
        if forgotten:
            self._mark_before = self._mark(self.first + forgotten - 1)
            self._numbers.clear()
            self._numbered = 0
        del self._entries[:forgotten]
        self._held -= freed
        self.first += forgotten

    # ------------------------------------------------------------------ reading frames

    @property
    def over(self) -> bool:
        """Whether no more events arrive."""
        return self.ended is not None or self.error is not None

    @property
    def lost(self) -> bool:
        """Whether the job was lost: no more events arrive, and how it ended is unknown."""
        return isinstance(self.error, errors.JobLost | errors.JobNotFound) and self.ended is None

    def resume_point(self, asked: Position | None) -> ResumePoint | None:
        """Where a reader that asks for a position continues.

        The result is ``None`` as long as the event at that position may still arrive: the feed of
        another process has issued the position, and this feed still receives the history of the
        job. Ask again after a change, and after `QUIET` seconds.
        """
        oldest = self.first - 1
        if asked is None:
            return ResumePoint(oldest, "start")
        if oldest <= asked.n <= self.last and self._mark(asked.n) == asked.mark:
            return ResumePoint(asked.n)
        if not asked.mark.startswith("~"):
            found = self._find(asked.mark)
            if found is not None:
                return ResumePoint(found, shift=asked.n - found)
            if self._receives_history:
                return None
        return ResumePoint(oldest, "expired" if asked.n < oldest else "restarted")

    @property
    def _receives_history(self) -> bool:
        now = asyncio.get_running_loop().time()
        return not self.over and now < min(self._grew + QUIET, self._began + _HISTORY)

    def _mark(self, n: int) -> str:
        """The mark of the event with this number, from ``first - 1`` to ``last``."""
        if n < self.first:
            return self._mark_before
        return frames.mark_of(self._entries[n - self.first]) or f"~{self.epoch}"

    def _find(self, mark: str) -> int | None:
        """The number of the event with this mark, if it is kept or is the last forgotten one."""
        if mark == self._mark_before:
            return self.first - 1
        for n in range(max(self._numbered + 1, self.first), self.last + 1):
            self._numbers[self._mark(n)] = n
        self._numbered = self.last
        return self._numbers.get(mark)

    def read(self, after: int, shift: int = 0) -> tuple[int, bytes] | None:
        """The next batch after a number, with the number of its last event; ``None`` if empty.

        Args:
            after: the number; at least ``first - 1``.
            shift: what is added to the numbers in the batch.
        """
        if after >= self.last:
            return None
        known = self._batches.get((after, shift))
        if known is not None:
            return known
        begin = after - self.first + 1
        size, end = 0, begin
        while end < len(self._entries) and end - begin < BATCH_EVENTS:
            size += len(self._entries[end]) + _NUMBER
            if size > BATCH_BYTES and end > begin:
                break
            end += 1
        last = after + end - begin
        position = Position(self._mark(last), last + shift)
        made = (last, frames.batch(self._entries[begin:end], position))
        self._batches[after, shift] = made
        self._batched += len(made[1])
        while len(self._batches) > _CACHED_BATCHES or (
            len(self._batches) > 1 and self._batched > self._memory // _CACHED_SHARE
        ):
            self._batched -= len(self._batches.popitem(last=False)[1][1])
        return made

    def reset(self, reason: Reset) -> bytes:
        """The frame that tells a page to drop its events: the oldest one follows."""
        return frames.frame(
            "reset",
            frames.encoded({"reason": reason}),
            id=Position(self._mark(self.first - 1), self.first - 1),
        )

    @property
    def missing(self) -> Gap | None:
        """A gap in place of the events that are no longer kept; ``None`` if all are kept."""
        if self.first == 1:
            return None
        oldest = frames.decoded(self._entries[0])["event"].get("seq")
        return Gap(
            first=self._first_seq or 0,
            last=oldest - 1 if isinstance(oldest, int) else None,
            reason="not_retained",
            job_id=self.job.id,
        )

    def value(self) -> bytes | None:
        """The inline result as JSON, with secrets masked and the exact digits of its numbers."""
        if self.ended != "success" or not self._entries:
            return None
        try:
            value = msgspec.json.decode(self._entries[-1], type=_ResultEntry).event.value
        except ValueError:  # a lone surrogate
            return None
        return bytes(value) or None

    def lines(self) -> Iterable[transcripts.EventLine]:
        """The kept events as lines of a transcript; secrets are masked already."""
        begin: int | None = None
        for line in tuple(self._entries):
            entry = frames.decoded(line)
            fields = entry["event"]
            begin = entry["at"] if begin is None else begin
            yield transcripts.EventLine(
                at=(entry["at"] - begin) / 1000,
                event=Event(job_id=fields.get("job_id")),
                job_id=self.job.id,
                fields=fields,
            )

    def _detail(self) -> bytes:
        return frames.frame("job", frames.encoded(self.describe()))

    def describe(self) -> dict[str, Any]:
        """The current state of the job, with secrets masked."""
        self.projection.describe(self.job)
        state = self.projection.to_dict()
        if self.error is not None and self.ended is None:
            state["error"] = {
                "code": getattr(self.error, "code", "JOB_LOST"),
                "message": str(self.error),
                "retryable": False,
            }
        names = state.pop("credentials")  # ids; the scrubber would mask any value of this name
        shown: dict[str, Any] = self.scrubber(state)
        bars = shown["progress"]
        for bar in bars:
            told = self.projection.activity.digits_of(bar["units"])
            if told is not None and told[0] == bar["current"]:
                bar["current"], bar["total"] = told
        row = self.scrubber(self.row().to_dict())
        listed = {name: row[name] for name in _LISTED}
        return {**shown, **listed, "credentials": names}

    def row(self, *, label: str | None = None) -> JobRow:
        """The row of the job in the job list.

        Args:
            label: the label of the job's input.
        """
        return rows.row(
            self.job.id,
            datetime.now(UTC),
            summary=self.summary,
            handle=self.job,
            seen=self.projection,
            lost=self.lost or self.unlisted,
            label=label,
        )
