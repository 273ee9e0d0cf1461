"""Plays the steps of a script: the sessions and jobs of a scripted runtime.

The `Forms` of the dialect determine which session receives a frame, under which number, and what
happens to frames while a link is down. No code here depends on a dialect's name.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from arcp_client._dialects import Forms
from arcp_client._wire import names as wire
from arcp_client._wire.ids import new_prefixed_id, now_text
from arcp_client.testing._script import (
    Accept,
    Chunk,
    Drop,
    Emit,
    Fail,
    Finish,
    Later,
    Raw,
    Script,
    Spawn,
    Step,
    Wait,
)

__all__ = ["Frame", "Outlet", "PlayedJob", "PlayedSession"]

Frame = dict[str, Any]


class Outlet(Protocol):
    """The interface of a link for a session."""

    def send(self, frame: Frame | bytes) -> None:
        """Queue a frame."""

    def later(self, by: int, send: Callable[[], None]) -> None:
        """Call ``send`` after ``by`` further frames were queued."""

    def drop(self) -> None:
        """End the link without a goodbye."""


class PlayedSession:
    """One session, across its links.

    Attributes:
        id: its id.
        token: its newest resume token.
        features: the negotiated features.
        link: the open link, if any.
        seq: the last assigned number.
        log: numbered frames and terminal messages, for a resume.
    """

    def __init__(self, forms: Forms, session_id: str, features: frozenset[str]) -> None:
        self.forms = forms
        self.id = session_id
        self.token = forms.resume_token()
        self.features = features
        self.link: Outlet | None = None
        self.seq = 0
        self.log: list[Frame] = []

    def frame(self, kind: str, payload: Mapping[str, Any], **top: Any) -> Frame:
        """Make a frame of this session. Fields that are ``None`` are left out."""
        given = {name: value for name, value in top.items() if value is not None}
        return {
            "arcp": wire.PROTOCOL,
            "type": kind,
            "session_id": self.id,
            "id": self.forms.envelope_id(),
            **given,
            "payload": dict(payload),
        }

    def numbered(self, kind: str, payload: Mapping[str, Any], **top: Any) -> Frame:
        """Make a frame with the next number, and keep it for a resume."""
        self.seq += 1
        frame = self.frame(kind, payload, event_seq=self.seq, **top)
        self.log.append(frame)
        return frame

    def send(self, frame: Frame | bytes) -> None:
        """Send a frame, if a link is open."""
        if self.link is not None:
            self.link.send(frame)

    def acknowledged(self, last: int) -> None:
        """Handle an acknowledgement up to a number."""
        if self.forms.acks_free != "nothing":
            self.log = self.since(last)

    def since(self, last: int) -> list[Frame]:
        """Return the frames for a resume from a number, with unnumbered terminal messages."""
        return [frame for frame in self.log if frame.get("event_seq", last + 1) > last]


@dataclass
class _Watcher:
    session: PlayedSession
    link: Outlet | None
    count: int = 0


@dataclass(eq=False)
class PlayedJob:
    """One run of a script.

    Attributes:
        id: its id.
        agent: the agent of the script.
        script: the steps to play.
        session: the submitting session.
        link: the link of the submit.
        accepted: the acceptance, ready to send.
        key: the idempotency key.
        submit: the payload of the submit.
        trace_id: the trace id of the submit.
        gates: the gates of its script, by name.
        spawn: starts a child job.
    """

    id: str
    agent: str
    script: Script
    session: PlayedSession
    link: Outlet
    accepted: Frame
    gates: Callable[[str], asyncio.Event]
    spawn: Callable[[PlayedJob, str], None]
    key: str | None = None
    submit: Mapping[str, Any] = field(default_factory=dict)
    trace_id: str | None = None
    parent: str | None = None
    status: str = "running"
    created_at: str = field(default_factory=now_text)
    result_id: str | None = None
    end: Frame | None = None
    task: asyncio.Task[None] | None = None
    history: list[tuple[Frame, bool]] = field(default_factory=list)
    watchers: list[_Watcher] = field(default_factory=list)
    copies: dict[str, list[Frame]] = field(default_factory=dict)
    _chunks: int = 0
    _is_accepted: bool = False

    @property
    def forms(self) -> Forms:
        """The forms of its runtime."""
        return self.session.forms

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.status in wire.ENDED

    # -- running

    def begin(self) -> None:
        """Accept the job, unless its script contains an `Accept`."""
        if not any(isinstance(step, Accept) for step in self.script):
            self.accept()

    async def run(self) -> None:
        """Play the script to its end."""
        for number, step in enumerate(self.script):
            if self.over and not isinstance(step, Accept):
                continue
            if isinstance(step, Wait):
                await self.gates(step.gate).wait()
            else:
                self.play(step, last=self._is_last_chunk(number))
        if not self.over:
            self.play(Finish())

    def accept(self) -> None:
        """Send the acceptance; only once."""
        if not self._is_accepted:
            self._is_accepted = True
            self.link.send(self.accepted)

    def play(self, step: Step, *, last: bool = False) -> None:
        """Play one step that takes no time."""
        match step:
            case Emit(kind, body):
                self.tell(wire.EVENT, self.forms.event(kind, body))
            case Chunk(data):
                self._chunk(data, last=last)
            case Finish(value):
                self._succeed(value)
            case Fail(code, message, status):
                self.fail(code, message, status)
            case Accept():
                self.accept()
            case Spawn(agent):
                self.spawn(self, agent)
            case Drop():
                self.link.drop()
            case Raw(frame):
                raw = frame if isinstance(frame, bytes) else self._whole(frame)
                self.session.send(raw)
            case Later(inner, by):
                self.link.later(by, lambda: self.play(inner or Finish()))
            case Wait():
                raise TypeError("a Wait cannot stand inside another step")

    def _is_last_chunk(self, number: int) -> bool:
        return isinstance(self.script[number], Chunk) and not any(
            isinstance(step, Chunk) for step in self.script[number + 1 :]
        )

    def _whole(self, frame: Mapping[str, Any]) -> Frame:
        envelope = self.session.frame(str(frame.get("type", "")), {})
        if frame.get("type") in (wire.EVENT, *wire.TERMINALS):
            envelope["job_id"] = self.id
        return {**envelope, **frame}

    # -- what it says

    def _chunk(self, data: str | bytes, *, last: bool) -> None:
        self.result_id = self.result_id or new_prefixed_id("res")
        self._emit_chunk(data, more=not (last and self.forms.last_chunk == "itself"))
        if last and self.forms.last_chunk == "empty":
            self._emit_chunk("", more=False)

    def _emit_chunk(self, data: str | bytes, *, more: bool) -> None:
        text, encoding = (
            (data, "utf8")
            if isinstance(data, str)
            else (base64.b64encode(data).decode("ascii"), "base64")
        )
        body = {
            "result_id": self.result_id,
            "chunk_seq": self._chunks,
            "data": text,
            "encoding": encoding,
            "more": more,
        }
        self._chunks += 1
        self.tell(wire.EVENT, self.forms.event("result_chunk", body))

    def _succeed(self, value: Any) -> None:
        payload: dict[str, Any] = {"final_status": wire.SUCCESS}
        if self.result_id is not None:
            payload["result_id"] = self.result_id
        elif value is not None:
            payload[self.forms.result_name] = value
        self._end(wire.RESULT, payload, wire.SUCCESS)

    def fail(self, code: str, message: str, status: str) -> None:
        """End the job without success."""
        if self.over:
            return
        if self.forms.ends_as_result and status != wire.ERROR:
            self._end(wire.RESULT, {"final_status": status}, status)
        else:
            payload = {"final_status": status, **self.forms.error(code, message)}
            self._end(wire.JOB_ERROR, payload, status)

    def cancel(self) -> None:
        """Handle a cancellation."""
        if self.forms.acks_cancel != "no":
            payload = {"job_id": self.id}
            if self.forms.acks_cancel == "numbered":
                self.session.send(self.session.numbered(wire.CANCELLED, payload, job_id=self.id))
            else:
                self.session.send(self.session.frame(wire.CANCELLED, payload, job_id=self.id))
        self.fail(wire.CODE_CANCELLED, "cancelled", wire.STATUS_CANCELLED)
        if self.task is not None:
            self.task.cancel()

    def die(self) -> None:
        """End without a message, because the job's session has ended."""
        if not self.over:
            self.status = wire.ERROR
            if self.task is not None:
                self.task.cancel()

    def _end(self, kind: str, payload: dict[str, Any], status: str) -> None:
        self.status = status
        self.end = self.tell(kind, payload)

    def tell(self, kind: str, payload: Mapping[str, Any]) -> Frame:
        """Send a frame to all its recipients; return the frame of the submitting session."""
        forms, session = self.forms, self.session
        is_end = kind in wire.TERMINALS
        bound = session.link is not None and (forms.follows or session.link is self.link)
        if not bound and forms.away == "dies":
            self.status = wire.ERROR if not is_end else self.status
            return session.frame(kind, payload, job_id=self.id)
        if not bound and forms.away == "lost":
            frame = session.frame(kind, payload, job_id=self.id, trace_id=self.trace_id)
        elif is_end and not forms.numbers_ends:
            frame = session.frame(kind, payload, job_id=self.id, trace_id=self.trace_id)
            session.log.append(frame)
        else:
            frame = session.numbered(kind, payload, job_id=self.id, trace_id=self.trace_id)
        if bound:
            session.send(frame)
        if bound or forms.away != "lost":
            self.history.append((frame, is_end))
        for watcher in self.watchers:
            if watcher.session is not session or not bound or forms.doubles_own:
                watcher.session.send(self.copy(frame, watcher))
        return frame

    def acknowledged(self, session: PlayedSession, last: int) -> None:
        """Handle an acknowledgement of a session up to a number."""
        if self.forms.acks_free != "histories":
            return
        if session is self.session:
            self.history = [it for it in self.history if it[0].get("event_seq", last + 1) > last]
        if session.id in self.copies:
            self.copies[session.id] = [
                copy for copy in self.copies[session.id] if copy["event_seq"] > last
            ]

    # -- who watches it

    def copy(self, frame: Frame, watcher: _Watcher) -> Frame:
        """Make the copy of a frame for a watching session."""
        forms = self.forms
        if forms.watched == "submitter":
            return frame
        watcher.count += 1
        top = {"job_id": self.id, "trace_id": self.trace_id}
        if not forms.renames_copies:
            top["id"] = frame["id"]
        if forms.watched == "own":
            made = watcher.session.frame(frame["type"], frame["payload"], **top)
            return {**made, "event_seq": watcher.count}
        copy = watcher.session.numbered(frame["type"], frame["payload"], **top)
        if forms.mixes_histories:
            self.copies.setdefault(watcher.session.id, []).append(copy)
        return copy

    def _past(self) -> list[tuple[Frame, bool]]:
        """Return the frames of the job's history, each with whether it is the terminal message."""
        logs = [(copy, False) for copies in reversed(self.copies.values()) for copy in copies]
        return [*logs, *self.history]

    def watch(
        self, session: PlayedSession, *, history: bool, after: int
    ) -> tuple[list[Frame], dict[str, Any]]:
        """Add a watching session; return the history and the job's state."""
        watcher = _Watcher(session, session.link)
        if not self.over and (self.forms.takes_subscriber or session is not self.session):
            self.watchers = [w for w in self.watchers if w.session is not session]
            self.watchers.append(watcher)
        past = [
            frame
            for frame, is_end in self._past()
            if history and not (is_end and self.forms.ended == "no end")
            # A number that was never assigned is above every starting point.
            if frame.get("event_seq", after + 1) > after
        ]
        facts = {
            "job_id": self.id,
            "current_status": self.forms.timed_out
            if self.status == wire.TIMED_OUT
            else self.status,
            "agent": self.agent,
            "replayed": len(past) if self.forms.counts_replayed else bool(past),
            "subscribed_from": session.seq,
        }
        return [self.copy(frame, watcher) for frame in past], facts
