"""Numbers and encodes the events of one job, and serves them to any number of readers.

A reader is a stream to one page. It has only a position, and asks for the events after it at its
own pace. So a slow reader costs no memory and delays no other reader, and a page that is reloaded
continues at its position. A feed keeps a limited number of bytes. A reader that asks for an event
which is no longer kept is reset to the oldest event.

A reader may ask for a tail: the state of the job now, and the newest events. It reads older events
in pages, on demand. The state is computed here, once for all readers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
from pydantic import SecretStr

from arcp_client import errors, events, transcripts
from arcp_client._feeds import frames, rows
from arcp_client._feeds.frames import Position
from arcp_client._feeds.history import History
from arcp_client._feeds.kept_events import KeptEvents, Unencoded
from arcp_client._feeds.result_tails import ResultTails
from arcp_client._feeds.signals import SharedFrame, Signal
from arcp_client.events import Event, Gap, envelope
from arcp_client.job import JobHandle
from arcp_client.models import JobSummary
from arcp_client.projection import JobProjection, JobRow
from arcp_client.transcripts import Scrubber

__all__ = ["MEMORY", "JobFeed", "Reset", "ResumePoint"]

Reset = Literal["start", "expired", "restarted", "skipped"]

_LISTED = (
    "agent", "version", "status", "parent_job_id", "created_at", "ended_at", "label", "last",
    "tokens", "failure", "verdict", "reason", "due_at",
)  # fmt: skip
"""Values of the row that the state of a job has, too."""

MEMORY = 8 << 20
"""Bytes of events that are kept for each job."""
_BATCH_INTERVAL = 0.05
_DETAIL_INTERVAL = 0.25
_ENCODED_LATER = frozenset(
    {
        events.ArtifactRef,
        events.Log,
        events.Metric,
        events.Progress,
        events.Thought,
        events.ToolCall,
        events.ToolResult,
    }
)
"""Events that nothing but pages need as entries."""


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
        kept: its newest events.
        projection: the state of the job, computed from the events so far.
        changed: notifies readers of new events.
        detail: the frame with the state of the job.
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
        self.kept = KeptEvents(memory, self._entry)
        self.projection = JobProjection.of(job)
        self.changed = Signal(_BATCH_INTERVAL)
        self.detail = SharedFrame(self._detail, _DETAIL_INTERVAL)
        self.ended: str | None = None
        self.error: BaseException | None = None
        self.summary: JobSummary | None = None
        self.unlisted = False
        self.streamed: Literal["text", "binary"] | None = None
        self._results = ResultTails()
        self._first_seq: int | None = None
        self._secrets: list[str | SecretStr] = list(secrets)
        self.scrubber = Scrubber(self._secrets)
        self._learn_credentials()
        self._history = History(job)

    # ------------------------------------------------------------------ adding events

    def add(self, event: Event) -> None:
        """Add the next event of the job."""
        self.extend([event])

    def extend(self, batch: Sequence[Event]) -> None:
        """Add the next events of the job; a terminal event is the last one."""
        if not batch:
            return
        if not self.kept.last:
            self._first_seq = batch[0].seq
        at = int(time.time() * 1000)
        self.kept.extend([self._item(event, at) for event in batch])
        self.projection.apply_all(batch)
        if batch[-1].terminal:
            self.projection.describe(self.job)
            self.ended = self.projection.status
        if self._history.extend(batch) or batch[-1].terminal:
            self.changed.notify_now()  # readers of a tail wait for the end of the history
            self.detail.notify_now()
        else:
            self.changed.notify()
            self.detail.notify()

    def _item(self, event: Event, at: int) -> bytes | Unencoded:
        """The form in which an event is kept."""
        if type(event) in _ENCODED_LATER and event.size and not event.redelivered:
            return Unencoded(at, event.seq, envelope(event))
        if isinstance(event, events.Status):  # it may rotate a credential (§9.8)
            self._learn_credentials()
        entry = frames.entry(at, frames.plain(event, self.scrubber))
        if isinstance(event, events.ResultChunk):
            if self.streamed != "binary":
                self.streamed = "text" if event.encoding == "utf8" else "binary"
            self._results.take(entry)
        return entry

    def _entry(self, item: Unencoded) -> bytes:
        """The entry of an event; secrets that are known by now are masked."""
        return frames.entry(item.at, frames.plain(item.event(), self.scrubber))

    def fail(self, error: BaseException) -> None:
        """Record the error after which no more events arrive."""
        self.error = error
        self.changed.notify_now()
        self.detail.notify_now()

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

    # ------------------------------------------------------------------ reading frames

    @property
    def over(self) -> bool:
        """Whether no more events arrive."""
        return self.ended is not None or self.error is not None

    @property
    def lost(self) -> bool:
        """Whether the job was lost: no more events arrive, and how it ended is unknown."""
        return isinstance(self.error, errors.JobLost | errors.JobNotFound) and self.ended is None

    def resume_point(self, asked: Position | None, tail: int | None = None) -> ResumePoint | None:
        """Where a reader that asks for a position continues.

        The result is ``None`` as long as the event at that position may still arrive: the feed of
        another process has issued the position, and this feed still receives the history of the
        job. Ask again after a change, and after `QUIET` seconds. So it is for a reader that wants a
        tail, as long as the history arrives quickly.

        Args:
            asked: the position; ``None`` for a reader that has read nothing.
            tail: how many of the newest events the reader wants at most if it starts anew, which it
                does as well if more events have arrived since its position; ``None`` for all.
        """
        if tail is not None and not self.over and self._history.arrives_quickly:
            return None
        start = self.kept.first - 1 if tail is None else self.kept.tail_start(tail)
        if asked is None:
            return ResumePoint(start, "start")
        found = self.kept.number_of(asked)
        if found is not None and found >= start:
            return ResumePoint(found, shift=asked.n - found)
        if found is not None:
            return ResumePoint(start, "skipped")
        if not asked.mark.startswith("~") and not self.over and self._history.left:
            return None
        return ResumePoint(start, "expired" if asked.n < self.kept.first - 1 else "restarted")

    def reset(self, reason: Reset, after: int, *, tail: bool = False) -> bytes:
        """The frame that tells a page to drop its events: those after a number follow.

        Args:
            reason: why.
            after: the number.
            tail: whether to add what the page would have computed from all events so far: ``at``,
                the number of the last of these events, ``results``, and ``older``, how many
                events before the following ones the page can ask for.
        """
        told: dict[str, Any] = {"reason": reason}
        if tail:
            told["at"] = self.kept.last
            told["older"] = after - self.kept.first + 1
            told["results"] = self._results.to_list()
        position = Position(self.kept.mark(after), after)
        return frames.frame("reset", frames.encoded(told), id=position)

    @property
    def missing(self) -> Gap | None:
        """A gap in place of the events that are no longer kept; ``None`` if all are kept."""
        if self.kept.first == 1:
            return None
        oldest = frames.decoded(self.kept.entry(self.kept.first))["event"].get("seq")
        return Gap(
            first=self._first_seq or 0,
            last=oldest - 1 if isinstance(oldest, int) else None,
            reason="not_retained",
            job_id=self.job.id,
        )

    def value(self) -> bytes | None:
        """The inline result as JSON, with secrets masked and the exact digits of its numbers."""
        if self.ended != "success" or self.kept.first > self.kept.last:
            return None
        try:
            value = msgspec.json.decode(
                self.kept.entry(self.kept.last), type=_ResultEntry
            ).event.value
        except ValueError:  # a lone surrogate
            return None
        return bytes(value) or None

    def lines(self) -> Iterable[transcripts.EventLine]:
        """The kept events as lines of a transcript; secrets are masked already."""
        begin: int | None = None
        for line in self.kept.entries():
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
