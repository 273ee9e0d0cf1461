"""A runtime that keeps the rules, on links that do not: what a session is checked against."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from arcp_client._wire import names

__all__ = ["Job", "Runtime", "SessionLog"]

FEATURES = ["ack", "list_jobs", "subscribe", "heartbeat"]


@dataclass
class Job:
    """One job of the runtime.

    Attributes:
        home: the session that submitted it.
        seqs: the number of each of its events in that session.
        lost: its events that were never stored: nobody will see them.
        ended: the number of its terminal event, 0 while it runs.
    """

    name: str
    key: str
    home: str
    seqs: list[int] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    ended: int = 0
    cancelled: bool = False

    @property
    def status(self) -> str:
        if not self.ended:
            return "running"
        return "cancelled" if self.cancelled else "success"


@dataclass
class SessionLog:
    """One session: its numbered events, as (number, job, event of the job)."""

    name: str
    token: str
    last: int = 0
    events: list[tuple[int, str, int]] = field(default_factory=list)
    feeds: set[str] = field(default_factory=set)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    kept: bool = True


class Runtime:
    """Numbers, logs and sends; says what a strict runtime says.

    Attributes:
        wire: frames on their way to the client.
        ignores_cursor: it replays from the beginning, whatever it is asked for.
        live_first: what happens while it replays is sent ahead of the replay.
        control_first: messages without a number overtake events.
        mixes_histories: a history is sent as two logs, the first of which begins in its middle.
    """

    def __init__(
        self,
        *,
        ignores_cursor: bool,
        live_first: bool,
        control_first: bool,
        mixes_histories: bool = False,
    ) -> None:
        self.ignores_cursor = ignores_cursor
        self.live_first = live_first
        self.control_first = control_first
        self.mixes_histories = mixes_histories
        self.sessions: dict[str, SessionLog] = {}
        self.jobs: dict[str, Job] = {}
        self.wire: list[bytes] = []
        self.here: SessionLog | None = None
        self._count = 0

    # -- links

    def cut(self) -> None:
        """The link is gone, with everything that was on it."""
        self.wire.clear()
        self.here = None

    def forget_sessions(self) -> None:
        """Whoever resumes now comes too late."""
        for session in self.sessions.values():
            session.kept = False

    def greet(self, hello: dict[str, Any], *, deliver: bool) -> None:
        """Answer a hello; without ``deliver``, the link breaks before the welcome is sent."""
        resume = hello["payload"].get("resume")
        if resume is None:
            session = SessionLog(f"sess_{self._next()}", "")
            self.sessions[session.name] = session
            cursor = 0
        else:
            session = self.sessions[resume["session_id"]]
            cursor = 0 if self.ignores_cursor else resume["last_event_seq"]
            if not session.kept:
                if deliver:
                    self._say(names.SESSION_ERROR, {"code": "RESUME_WINDOW_EXPIRED"})
                return
        session.token = f"token_{self._next()}"
        if not deliver:
            return
        self.here = session
        payload = {
            "runtime": {"name": "model", "version": "1", "sdk": "arcp-client/0"},
            "resume_token": session.token,
            "heartbeat_interval_sec": 30,
            "capabilities": {"features": FEATURES},
        }
        self._say(names.WELCOME, payload)
        replay = [self._frame(*event) for event in session.events if event[0] > cursor]
        if self.live_first and replay:  # the newest one is sent as it happens
            replay.insert(0, replay.pop())
        self.wire += replay

    # -- requests

    def hear(self, data: bytes, *, deliver: bool = True) -> None:
        """A frame of the client."""
        frame = json.loads(data)
        kind, payload = frame["type"], frame["payload"]
        if kind == names.HELLO:
            self.greet(frame, deliver=deliver)
        elif self.here is None:
            pass
        elif kind == names.SUBMIT:
            self._submit(frame["id"], payload["idempotency_key"])
        elif kind == names.CANCEL:
            self._cancel(frame["id"], self.jobs[payload["job_id"]])
        elif kind == names.LIST_JOBS:
            jobs = [
                {"job_id": j.name, "agent": "a", "status": j.status} for j in self.jobs.values()
            ]
            self._say(names.JOBS, {"request_id": frame["id"], "jobs": jobs})
        elif kind == names.SUBSCRIBE:
            self._subscribe(frame["id"], payload)
        elif kind == names.PING:
            self._say(names.PONG, {"ping_nonce": payload["nonce"]})

    def _submit(self, request_id: str, key: str) -> None:
        assert self.here is not None
        job = next((job for job in self.jobs.values() if job.key == key), None)
        if job is None:
            job = Job(f"job_{self._next()}", key, self.here.name)
            self.jobs[job.name] = job
        payload = {"job_id": job.name, "agent": "a", "request_id": request_id}
        self._say(names.ACCEPTED, payload, job_id=job.name)

    def _cancel(self, request_id: str, job: Job) -> None:
        payload = {"job_id": job.name, "request_id": request_id}
        self._say(names.CANCELLED, payload, job_id=job.name)
        if not job.ended:
            job.cancelled = True
            self.emit(job, end=True)

    def _subscribe(self, request_id: str, payload: dict[str, Any]) -> None:
        assert self.here is not None
        job = self.jobs[payload["job_id"]]
        answer = {"job_id": job.name, "request_id": request_id, "current_status": job.status}
        self._say(names.SUBSCRIBED, answer, job_id=job.name)
        here = self.here
        if job.home == here.name or job.name in here.feeds:
            return
        here.feeds.add(job.name)
        start = payload.get("from_event_seq") or 0
        past = [
            number
            for number, seq in enumerate(job.seqs, start=1)
            if payload["history"] and seq > start and number not in job.lost
        ]
        if self.mixes_histories:
            past = [*past[len(past) // 2 :], *past]
        for number in past:
            self._append(here, job, number)

    # -- jobs

    def emit(self, job: Job, *, end: bool = False, lost: bool = False) -> None:
        """The next event of a job; ``lost``: it takes a number and is never stored."""
        number = len(job.seqs) + 1
        if end:
            job.ended = number
        if lost:
            job.lost.add(number)
        home = self.sessions[job.home]
        self._append(home, job, number)
        job.seqs.append(home.last)
        for session in self.sessions.values():
            if job.name in session.feeds and not lost:
                self._append(session, job, number)

    def nudge(self) -> None:
        """An event of no job, so that a hole before it shows."""
        if self.here is not None:
            self.here.last += 1
            event = (self.here.last, "", 0)
            self.here.events.append(event)
            self.wire.append(self._frame(*event))

    def _append(self, session: SessionLog, job: Job, number: int) -> None:
        session.last += 1
        session.numbers[job.name, number] = session.last
        if number in job.lost:
            return
        event = (session.last, job.name, number)
        session.events.append(event)
        if session is self.here:
            self.wire.append(self._frame(*event))

    # -- frames

    def _frame(self, seq: int, job_id: str, number: int) -> bytes:
        if not job_id:
            nothing = {"kind": "status", "ts": None, "body": {"phase": "back_pressure"}}
            return self._encode(names.EVENT, nothing, f"n{seq}", event_seq=seq)
        job = self.jobs[job_id]
        if number != job.ended:
            kind = names.EVENT
            body = {"current": number}
            moment = f"2026-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
            payload: dict[str, Any] = {"kind": "progress", "ts": moment, "body": body}
        elif job.cancelled:
            kind = names.JOB_ERROR
            payload = {"final_status": "cancelled", "code": "CANCELLED"}
        else:
            kind, payload = names.RESULT, {"final_status": "success", "result": number}
        # An event has the same id in every session.
        return self._encode(kind, payload, f"{job_id}.{number}", job_id=job_id, event_seq=seq)

    def _say(self, kind: str, payload: dict[str, Any], **top: Any) -> None:
        frame = self._encode(kind, payload, f"c{self._next()}", **top)
        if self.control_first:
            self.wire.insert(0, frame)
        else:
            self.wire.append(frame)

    def _encode(self, kind: str, payload: dict[str, Any], name: str, **top: Any) -> bytes:
        session = self.here.name if self.here is not None else ""
        frame = {"arcp": "1.1", "id": name, "type": kind, "session_id": session, **top}
        return json.dumps({**frame, "payload": payload}).encode()

    def _next(self) -> int:
        self._count += 1
        return self._count
