"""One job's events in, numbered and encoded once; frames for any number of readers out.

A reader holds nothing but its position: it asks for what comes after that, at its own pace. So a
slow reader costs no memory and delays nobody, and one that comes back goes on where it was. What is
kept is bounded: who asks for something older is told so, and begins at the oldest event there is.
"""

from __future__ import annotations

import secrets as random
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from pydantic import SecretStr

from arcp_client import Event, Gap, JobHandle, JobSummary, errors, events, transcripts
from arcp_client.projection import JobProjection
from arcp_client.transcripts import Scrubber
from arcp_client.web import frames, rows
from arcp_client.web.frames import Position
from arcp_client.web.signals import Shown, Signal

__all__ = ["BATCH_BYTES", "BATCH_EVENTS", "MEMORY", "Feed", "Reset"]

Reset = Literal["start", "expired", "restarted"]

MEMORY = 8 << 20
"""Bytes of events that are kept of each job."""
BATCH_EVENTS = 500
BATCH_BYTES = 64 * 1024
_BATCH_SECONDS = 0.05
_DETAIL_SECONDS = 0.25
_RECENT = 8


class _Value(msgspec.Struct):
    value: msgspec.Raw = msgspec.Raw()


class _Entry(msgspec.Struct):
    event: _Value


class Feed:
    """What a dashboard knows of one job.

    Args:
        job: the job.
        secrets: values that must not be shown, such as the token of the dashboard.
        memory: bytes of events that are kept.

    Attributes:
        job: the job.
        started: how it stood when the feed began, as a line of a transcript.
        epoch: names this feed among all that there ever were of the job.
        projection: the events so far, as a person wants to see them.
        news: tells of new events.
        detail: the job as a frame.
        first: the number of the oldest event that is kept; one above `last` if there is none.
        last: the number of the newest event; 0 before the first.
        ended: the job's final status, once its last event is in.
        error: why there will be no more events, although the job's last one is not in.
        summary: what the runtime's listing says of the job.
        scrubber: masks the secrets that are known of the job.
        unknown: whether the runtime's listing no longer has it.
        streamed: whether its result came in pieces, and of what: ``text`` or ``binary``.
    """

    def __init__(
        self, job: JobHandle, *, secrets: Iterable[str | SecretStr] = (), memory: int = MEMORY
    ) -> None:
        self.job = job
        self.started = transcripts.job(job)
        self.epoch = random.token_hex(8)
        self.projection = JobProjection.of(job)
        self.news = Signal(_BATCH_SECONDS)
        self.detail = Shown(self._detail, _DETAIL_SECONDS)
        self.first = 1
        self.last = 0
        self.ended: str | None = None
        self.error: BaseException | None = None
        self.summary: JobSummary | None = None
        self.unknown = False
        self.streamed: Literal["text", "binary"] | None = None
        self._first_seq: int | None = None
        self._known: list[str | SecretStr] = list(secrets)
        self.scrubber = Scrubber(self._known)
        self._learn()
        self._entries: list[bytes] = []
        self._memory = memory
        self._held = 0
        self._batches: OrderedDict[int, tuple[int, bytes]] = OrderedDict()

    # ------------------------------------------------------------------ events in

    def add(self, event: Event) -> None:
        """The job's next event."""
        if isinstance(event, events.Status):  # a credential may have a new value (§9.8)
            self._learn()
        elif isinstance(event, events.ResultChunk) and self.streamed != "binary":
            self.streamed = "text" if event.encoding == "utf8" else "binary"
        if not self.last:
            self._first_seq = event.seq
        self.last += 1
        line = frames.entry(self.last, int(time.time() * 1000), frames.plain(event, self.scrubber))
        self._entries.append(line)
        self._held += len(line)
        if self._held > self._memory:
            self._forget()
        self.projection.apply(event)
        if event.terminal:
            self.projection.describe(self.job)
            self.ended = self.projection.status
            self.news.now()
            self.detail.now()
        else:
            self.news.tell()
            self.detail.tell()

    def fail(self, error: BaseException) -> None:
        """No more events come."""
        self.error = error
        self.news.now()
        self.detail.now()

    def close(self) -> None:
        """Leave no timer behind."""
        self.news.close()
        self.detail.close()

    def _learn(self) -> None:
        values = [credential.value for credential in self.job.credentials.values()]
        new = [value for value in values if value.get_secret_value() and value not in self._known]
        if new:
            self._known += new
            self.scrubber = Scrubber(self._known)

    def _forget(self) -> None:
        """Forget an eighth at once: lists lose their heads in one piece."""
        spare, forgotten = self._held - self._memory * 7 // 8, 0
        freed = 0
        while freed < spare and forgotten < len(self._entries) - 1:
            freed += len(self._entries[forgotten])
            forgotten += 1
        del self._entries[:forgotten]
        self._held -= freed
        self.first += forgotten

    # ------------------------------------------------------------------ frames out

    @property
    def over(self) -> bool:
        """Whether no more events come."""
        return self.ended is not None or self.error is not None

    @property
    def lost(self) -> bool:
        """Whether no more events come although the job's end was not seen."""
        return isinstance(self.error, errors.JobLost | errors.JobNotFound) and self.ended is None

    def start(self, asked: Position | None) -> tuple[int, Reset | None]:
        """Where somebody goes on who has read up to a position: behind which number, and why anew.

        The reason is ``None`` if they go on exactly where they were.
        """
        if asked is None:
            return self.first - 1, "start"
        if asked.epoch != self.epoch or asked.n > self.last:
            return self.first - 1, "restarted"
        if asked.n < self.first - 1:
            return self.first - 1, "expired"
        return asked.n, None

    def read(self, after: int) -> tuple[int, bytes] | None:
        """The next batch behind a number, and the number of its last event; ``None`` if none.

        Args:
            after: not below ``first - 1``.
        """
        if after >= self.last:
            return None
        known = self._batches.get(after)
        if known is not None:
            return known
        begin = after - self.first + 1
        size, end = 0, begin
        while end < len(self._entries) and end - begin < BATCH_EVENTS:
            size += len(self._entries[end]) + 1
            if size > BATCH_BYTES and end > begin:
                break
            end += 1
        last = after + end - begin
        made = (last, frames.batch(self._entries[begin:end], Position(self.epoch, last)))
        self._batches[after] = made
        if len(self._batches) > _RECENT:
            self._batches.popitem(last=False)
        return made

    def reset(self, reason: Reset) -> bytes:
        """The frame that says: forget what you have, what follows begins at the oldest event."""
        return frames.frame(
            "reset",
            frames.encoded({"reason": reason}),
            id=Position(self.epoch, self.first - 1),
        )

    @property
    def missing(self) -> Gap | None:
        """What stands for the events that are not kept any more; ``None`` if all are."""
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
        """The inline result as JSON, scrubbed, with the digits of its numbers."""
        if self.ended != "success" or not self._entries:
            return None
        try:
            value = msgspec.json.decode(self._entries[-1], type=_Entry).event.value
        except ValueError:  # half a character
            return None
        return bytes(value) or None

    def lines(self) -> Iterable[transcripts.EventLine]:
        """What is kept as lines of a transcript, scrubbed already."""
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
        """The job as of now, its secrets masked."""
        self.projection.describe(self.job)
        told = self.projection.to_dict()
        if self.error is not None and self.ended is None:
            told["error"] = {
                "code": getattr(self.error, "code", "JOB_LOST"),
                "message": str(self.error),
                "retryable": False,
            }
        names = told.pop("credentials")  # ids, not values; under this name they would be masked
        shown: dict[str, Any] = self.scrubber(told)
        bars = shown["progress"]
        return {**shown, **self.row(), "progress": bars, "credentials": names}

    def row(self) -> dict[str, Any]:
        """The job as a row of the table of jobs, its secrets masked."""
        row: dict[str, Any] = self.scrubber(
            rows.row(
                self.job.id,
                summary=self.summary,
                handle=self.job,
                seen=self.projection,
                lost=self.lost or self.unknown,
            )
        )
        return row
