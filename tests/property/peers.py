"""Models the runtime of each dialect: what it replays, renames, loses and forgets.

`Peer` is the runtime and `Play` holds one client session with it. Both directions of the link are
queues, so a link can be cut at any point between a request and the end of its answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from pydantic import SecretStr

from arcp_client._dialects import recognise
from arcp_client._protocol import actions
from arcp_client._protocol.pending import Request
from arcp_client._protocol.session import Session
from arcp_client._protocol.states import State
from arcp_client._wire import names
from arcp_client.errors import ArcpError
from arcp_client.events import Completed, Event, Failed, Gap, Progress
from tests.unit.protocol.scripted import fresh, welcome

__all__ = ["TRAITS", "Peer", "Play"]

ALL: Final = ("ack", "list_jobs", "subscribe", "heartbeat")


class Traits(NamedTuple):
    """How a runtime behaves, as far as recovery depends on it.

    Attributes:
        away: what happens to the events of a job whose link is down.
        live: a resumed link gets the events of jobs that were submitted before it.
        names: how an answer names its request.
        history_first: a history is sent before its confirmation.
        end_in_history: a history holds the terminal message.
        finished: what a subscription to a finished job is answered with.
        lists_finished: whether finished jobs are listed.
        renames: every sending to a subscriber has an envelope id of its own.
        bound: a subscription stays bound to the link over which it was made.
        dropped: a subscription ends with its link.
        logs_histories: a resume brings the rest of a history that was cut off.
        doubles: a subscription to a job of the same session sends its events a second time.
        mixes: a history with several observers comes as several logs.
        notices_late: the first resume after a cut may be refused.
    """

    away: Literal["kept", "lost", "fatal"] = "kept"
    live: bool = True
    names: Literal["request_id", "reply_to", "trace"] = "trace"
    history_first: bool = False
    end_in_history: bool = True
    finished: str = ""
    lists_finished: bool = True
    renames: bool = False
    bound: bool = False
    dropped: bool = False
    logs_histories: bool = True
    doubles: bool = False
    mixes: bool = False
    notices_late: bool = False


TRAITS: Final = {
    "arcp-client": Traits(names="request_id"),
    "unknown": Traits(),
    "python": Traits(
        away="lost",
        live=False,
        names="request_id",
        history_first=True,
        renames=True,
        bound=True,
    ),
    "typescript": Traits(
        away="fatal",
        live=False,
        history_first=True,
        finished=names.JOB_NOT_FOUND,
        lists_finished=False,
        renames=True,
        dropped=True,
    ),
    "csharp": Traits(live=False, end_in_history=False, bound=True),
    "java": Traits(end_in_history=False, renames=True, doubles=True, notices_late=True),
    "go": Traits(
        finished=names.JOB_NOT_FOUND,
        lists_finished=False,
        logs_histories=False,
        doubles=True,
        mixes=True,
        notices_late=True,
    ),
    "ruby": Traits(
        live=False,
        names="reply_to",
        history_first=True,
        finished=names.PERMISSION_DENIED,
        dropped=True,
    ),
}


@dataclass(repr=False)
class Log:
    """One session of the runtime: its frames by number, and those without one."""

    name: str
    last: int = 0
    frames: dict[int, dict[str, Any]] = field(default_factory=dict)
    ends: list[dict[str, Any]] = field(default_factory=list)
    kept: bool = True


@dataclass(repr=False)
class Job:
    """One job: its events by number, with the number that each has in the session of its submit.

    Attributes:
        times: when each event was emitted.
    """

    name: str
    key: str
    home: Log
    link: int
    at: str
    count: int = 0
    end: int = 0
    gone: bool = False
    seqs: dict[int, int] = field(default_factory=dict)
    times: dict[int, str] = field(default_factory=dict)

    @property
    def status(self) -> str:
        return names.SUCCESS if self.end else "running"


@dataclass(repr=False)
class Feed:
    """A subscription: over which link it was made, and how much it sent."""

    job: Job
    log: Log
    link: int
    count: int = 0


class Peer:
    """A runtime of some dialect.

    Attributes:
        inbox: frames of the client that it has not read.
        wire: frames on their way to the client.
        swallow: how many requests it reads and never answers.
        busy: how many subscriptions it refuses for now.
        unnoticed: it has not noticed that the last link is gone.
    """

    def __init__(self, spoken: str, *, features: tuple[str, ...] = ALL) -> None:
        self.spoken = spoken
        self.traits = TRAITS[spoken]
        self.features = list(features)
        self.inbox: list[bytes] = []
        self.wire: list[bytes] = []
        self.swallow = 0
        self.busy = 0
        self.unnoticed = False
        self.jobs: dict[str, Job] = {}
        self.logs: dict[str, Log] = {}
        self.feeds: list[Feed] = []
        self.here: Log | None = None
        self.link = 0
        self._count = 0

    # -- links

    def cut(self, *, unnoticed: bool = False) -> None:
        """The link is gone, with everything that was on it."""
        self.inbox.clear()
        self.wire.clear()
        self.here = None
        self.unnoticed = unnoticed and self.traits.notices_late
        if self.traits.dropped:
            self.feeds.clear()

    def forget_sessions(self) -> None:
        """Their time to be resumed is over."""
        for log in self.logs.values():
            log.kept = False

    def read(self) -> None:
        """The next frame of the client."""
        frame = json.loads(self.inbox.pop(0))
        kind, payload = frame["type"], frame["payload"]
        if kind == names.HELLO:
            self._greet(payload.get("resume"))
        elif self.here is None:
            pass
        elif kind == names.PING:
            self._say(names.PONG, {"ping_nonce": payload["nonce"]})
        elif kind == names.UNSUBSCRIBE:
            job_id = payload["job_id"]
            self.feeds = [
                feed for feed in self.feeds if feed.log is not self.here or feed.job.name != job_id
            ]
        elif kind in (names.SUBMIT, names.SUBSCRIBE, names.LIST_JOBS):
            if self.swallow:
                self.swallow -= 1
            elif kind == names.SUBMIT:
                self._submit(frame, self.here)
            elif kind == names.SUBSCRIBE:
                self._subscribe(frame, self.here)
            else:
                self._list(frame)

    def _greet(self, resume: dict[str, Any] | None) -> None:
        self.link += 1
        if resume is None:
            log = Log(f"sess_{self._next()}")
            self.logs[log.name] = log
            replay: list[dict[str, Any]] = []
        else:
            log, cursor = self.logs[resume["session_id"]], resume["last_event_seq"]
            late, self.unnoticed = self.unnoticed, False
            caught_up = self.spoken == "typescript" and 0 < log.last <= cursor
            if late or caught_up or not log.kept:
                lost = self.spoken == "python" and not late
                code = names.PERMISSION_DENIED if lost else names.RESUME_WINDOW_EXPIRED
                kind = names.JOB_ERROR if self.spoken == "java" else names.SESSION_ERROR
                self._send({"type": kind, "payload": {"code": code}, "id": fresh()})
                return
            replay = [log.frames[seq] for seq in sorted(log.frames) if seq > cursor] + log.ends
        self.here = log
        capabilities = {"encodings": ["json"], "features": self.features, "agents": []}
        hello: dict[str, Any] = {"capabilities": capabilities}
        if self.spoken == "python":
            hello["accepted_at"] = self._time()
        self._send(welcome(self.spoken, log.name, **hello))
        for frame in replay:
            self._send(frame)

    # -- requests

    def _submit(self, frame: dict[str, Any], here: Log) -> None:
        key = frame["payload"]["idempotency_key"]
        job = next((job for job in self.jobs.values() if job.key == key), None)
        again = job is not None
        if job is None:
            job = Job(f"job_{self._next()}", key, here, self.link, self._time())
            self.jobs[job.name] = job
        payload = {"job_id": job.name, "agent": "a", "accepted_at": job.at, **self._names(frame)}
        stored = {"session_id": job.home.name} if again and self.spoken == "python" else {}
        self._say(names.ACCEPTED, payload, job_id=job.name, **stored)
        if stored and job.end:
            here.last += 1
            end = self._frame(job, job.end, here.last) | stored | {"id": f"{job.name}.end"}
            here.frames[here.last] = end
            self._send(end)

    def _subscribe(self, frame: dict[str, Any], here: Log) -> None:
        payload, traits = frame["payload"], self.traits
        job = self.jobs[payload["job_id"]]
        if self.busy:
            self.busy -= 1
            self._refuse(frame, names.INTERNAL_ERROR, retryable=True)
            return
        if job.gone or (job.end and traits.finished):
            self._refuse(frame, traits.finished)
            return
        answer = {"job_id": job.name, "current_status": job.status, **self._names(frame)}
        known = next((feed for feed in self.feeds if feed.job is job and feed.log is here), None)
        feed = known or Feed(job, here, self.link)
        rebinds = traits.doubles or traits.away == "lost" or self.spoken == "ruby"
        second = job.home is here and not rebinds
        past = []
        if payload["history"] and not second and not (known and self.spoken == "csharp"):
            start = payload.get("from_event_seq") or 0
            past = [
                number
                for number, seq in sorted(job.seqs.items())
                if (number if self.spoken == "csharp" else seq) > start
                and (number != job.end or traits.end_in_history)
            ]
        if traits.mixes and sum(other.job is job for other in self.feeds):
            past = [*past[len(past) // 2 :], *past]
        if not traits.history_first:
            self._say(names.SUBSCRIBED, answer, job_id=job.name)
        for number in past:
            self._forward(feed, number, logged=traits.logs_histories)
        if traits.history_first:
            self._say(names.SUBSCRIBED, answer, job_id=job.name)
        if known is None and not second:
            self.feeds.append(feed)

    def _list(self, frame: dict[str, Any]) -> None:
        jobs = [
            {"job_id": job.name, "agent": "a", "status": job.status}
            for job in self.jobs.values()
            if not job.gone and (not job.end or self.traits.lists_finished)
        ]
        name = "reply_to" if self.spoken == "ruby" else "request_id"
        self._say(names.JOBS, {name: frame["id"], "jobs": jobs})

    def _names(self, frame: dict[str, Any]) -> dict[str, Any]:
        if self.traits.names != "trace":
            return {self.traits.names: frame["id"]}
        trace_id = frame.get("trace_id")
        return {} if trace_id is None else {"trace_id": trace_id}

    def _refuse(self, frame: dict[str, Any], code: str, *, retryable: bool = False) -> None:
        payload = {"code": code, "message": "no", "retryable": retryable}
        job_id = frame["payload"].get("job_id")
        if self.spoken == "java":
            self._send({"type": names.JOB_ERROR, "id": frame["id"], "payload": payload})
        elif self.spoken == "typescript" and code == names.JOB_NOT_FOUND:
            assert self.here is not None
            self.here.last += 1
            seq = self.here.last
            refusal = {"type": names.JOB_ERROR, "id": fresh(), "payload": payload}
            refusal |= {"job_id": job_id, "event_seq": seq}
            self.here.frames[seq] = refusal
            self._send(refusal)
        else:
            named = {
                "arcp-client": {"request_id": frame["id"]},
                "go": {"request_id": frame["id"], "job_id": job_id},
                "ruby": {"reply_to": frame["id"]},
            }.get(self.spoken, {})
            self._say(names.SESSION_ERROR, payload | named)

    # -- jobs

    def foreign(self) -> Job:
        """A job of another client's session, whose link is up."""
        job = Job(f"job_{self._next()}", "", Log(f"sess_{self._next()}"), -1, self._time())
        self.jobs[job.name] = job
        return job

    def emit(self, job: Job, *, end: bool = False) -> None:
        """The next event of a job."""
        traits, foreign = self.traits, job.link == -1
        attached = foreign or (job.link == self.link and self.here is job.home)
        if not attached and traits.away == "fatal":
            job.gone = True
            return
        job.count += 1
        job.times[job.count] = self._time()
        if end:
            job.end = job.count
        if attached or traits.away == "kept":
            self._store(job, attached=attached or traits.live)
        for feed in self.feeds:
            if feed.job is job and (feed.link == self.link or self.spoken != "python"):
                self._forward(feed, job.count)

    def _store(self, job: Job, *, attached: bool) -> None:
        home = job.home
        home.last += 1
        job.seqs[job.count] = home.last
        frame = self._frame(job, job.count, home.last)
        if self.spoken == "ruby" and job.count == job.end:
            del frame["event_seq"]
            home.last -= 1
            home.ends.append(frame)
        else:
            home.frames[home.last] = frame
        if attached and self.here is home:
            self._send(frame)

    def _forward(self, feed: Feed, number: int, *, logged: bool = True) -> None:
        """Send an event to a subscriber, in the numbers that this runtime gives it."""
        job, log = feed.job, feed.log
        if self.spoken == "ruby":
            frame = self._frame(job, number, job.seqs[number])
            if number == job.end:
                del frame["event_seq"]
            if self.here is log:
                self._send(frame)
            return
        if self.spoken == "python":
            feed.count += 1
            seq = feed.count
            logged = seq not in log.frames
            log.last = max(log.last, seq)
        else:
            log.last += 1
            seq = log.last
        frame = self._frame(job, number, seq) | {"session_id": log.name}
        if self.traits.renames:
            frame["id"] = fresh()
        if logged:
            log.frames[seq] = frame
        if self.here is log and (feed.link == self.link or not self.traits.bound):
            self._send(frame)

    # -- frames

    def _frame(self, job: Job, number: int, seq: int) -> dict[str, Any]:
        payload: dict[str, Any]
        if number == job.end:
            kind, payload = names.RESULT, {"final_status": "success", "result": number}
        else:
            kind, payload = names.EVENT, {"kind": "progress", "body": {"current": number}}
            if self.spoken != "ruby":
                payload["ts"] = job.times[number]
        return {
            "type": kind,
            "id": f"{job.name}.{number}",
            "session_id": job.home.name,
            "job_id": job.name,
            "event_seq": seq,
            "payload": payload,
        }

    def _say(self, kind: str, payload: dict[str, Any], **top: Any) -> None:
        session_id = self.here.name if self.here is not None else ""
        frame = {"type": kind, "id": fresh(), "session_id": session_id, "payload": payload}
        self._send(frame | top)

    def _send(self, frame: dict[str, Any]) -> None:
        self.wire.append(json.dumps({"arcp": "1.1", **frame}).encode())

    def _time(self) -> str:
        minutes, seconds = divmod(self._next(), 60)
        return f"2026-01-01T{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}Z"

    def _next(self) -> int:
        self._count += 1
        return self._count


class Play:
    """A session, and the runtime that it talks to.

    Attributes:
        asked: how many jobs were submitted or watched.
        mine: the jobs that were accepted.
        watched: the jobs that are watched.
        trail: what happened, for a failure's report.
    """

    def __init__(self, spoken: str, *, features: tuple[str, ...] = ALL) -> None:
        self.peer = Peer(spoken, features=features)
        self.session = Session(recognise=recognise)
        self.now = 0.0
        self.linked = False
        self.relink = False
        self.events: list[Event] = []
        self.ended: set[Request] = set()
        self.mine: set[str] = set()
        self.watched: set[str] = set()
        self.gone: dict[str, ArcpError] = {}
        self.trail: list[str] = []
        self.asked = 0

    # -- links

    def connect(self) -> None:
        """A new link, and the hello on it."""
        self._note("connect")
        self.linked, self.relink = True, False
        self.session.greet(SecretStr("secret"), self.now)
        self._do()

    def cut(self, *, unnoticed: bool = False) -> None:
        """The link is gone."""
        self._note("cut")
        self.peer.cut(unnoticed=unnoticed)
        self.linked = False
        self.session.lost(self.now)
        self._do()

    def read(self) -> None:
        """The runtime reads the next frame."""
        self._note("< " + _short(self.peer.inbox[0]))
        self.peer.read()

    def hear(self) -> None:
        """The client reads the next frame."""
        self._note("> " + _short(self.peer.wire[0]))
        self.events += self.session.receive((self.peer.wire.pop(0),), self.now)
        self._do()

    def flow(self) -> None:
        """Everything that is under way arrives, and what follows from it."""
        for _ in range(5000):
            if self.linked and self.peer.inbox:
                self.now += 0.001
                self.read()
            elif self.linked and self.peer.wire:
                self.hear()
            else:
                return
        raise AssertionError("the two never come to rest")

    def up(self) -> None:
        """A link on which a session is live; refused resumes are tried again."""
        for _ in range(12):
            if self.linked and self.session.state is State.LIVE and not self.relink:
                return
            if self.linked:
                self.cut()
            self.connect()
            self.flow()
        raise AssertionError("no session is to be had")

    def welcomed(self) -> None:
        """A link on which a session is live; what it asks for first is still on its way."""
        for _ in range(12):
            if self.linked:
                self.cut()
            self.connect()
            while self.session.state is not State.LIVE and not self.relink:
                if self.peer.inbox:
                    self.read()
                elif self.peer.wire:
                    self.hear()
                else:
                    break
            if self.session.state is State.LIVE and not self.relink:
                return
        raise AssertionError("no session is to be had")

    def move(self, count: int) -> None:
        """So many frames arrive, those of the client first."""
        for _ in range(count):
            if self.linked and self.peer.inbox:
                self.read()
            elif self.linked and self.peer.wire:
                self.hear()

    def wait(self, seconds: float) -> None:
        """Time passes; nothing arrives."""
        end = self.now + seconds
        for _ in range(500):
            deadline = self.session.deadline
            if deadline is None or deadline > end:
                self.now = end
                return
            self.now = max(self.now, deadline)
            self.session.tick(self.now)
            self._do()
        raise AssertionError("the session's timer runs wild")

    def _do(self) -> None:
        for effect in self.session.take():
            if isinstance(effect, Event):
                self._note(f"    {effect.job_id} {_number(effect)}")
                self.events.append(effect)
            elif isinstance(effect, actions.Send):
                if self.linked:
                    self.peer.inbox.append(effect.data)
            elif isinstance(effect, actions.Replied | actions.Refused):
                assert effect.request not in self.ended, "a request has ended twice"
                self.ended.add(effect.request)
            elif isinstance(effect, actions.JobKnown):
                if effect.request is not None:
                    (self.mine if effect.submitted else self.watched).add(effect.job.job_id)
            elif isinstance(effect, actions.JobGone):
                assert effect.job_id not in self.gone, "a job is lost twice"
                self._note(f"    {effect.job_id} gone: {effect.error}")
                self.gone[effect.job_id] = effect.error
            elif isinstance(effect, actions.Relink):
                self.relink = True

    def _note(self, line: str) -> None:
        if "session.p" in line:
            return  # pings and pongs
        self.trail.append(f"{self.now:8.2f} {line}")

    # -- the client

    def submit(self) -> Request:
        """A job is asked for."""
        self.asked += 1
        key = f"key {self.asked}"
        return self._ask(
            names.SUBMIT,
            {"agent": "a", "input": None, "idempotency_key": key},
            key=key,
            trace_id=f"{self.asked:032x}",
            fresh=True,
        )

    def watch(self, job_id: str, *, history: bool) -> Request:
        """A job is watched."""
        self.asked += 1
        payload = {"job_id": job_id, "history": history}
        return self._ask(names.SUBSCRIBE, payload, job_id=job_id)

    def _ask(self, kind: str, payload: dict[str, Any], **fields: Any) -> Request:
        request = Request(kind=kind, payload=payload, deadline=self.now + 30.0, **fields)
        self.session.request(request, self.now)
        self._do()
        return request

    # -- what holds

    def check(self) -> None:
        """Events come once each, in order, and a gap stands where some are missing."""
        last: dict[str, int] = {}
        marked: dict[str, bool] = {}
        ends: set[str] = set()
        wanted = self.mine | self.watched
        # Without a heartbeat nothing says whether the runtime has read that a watch is over.
        asked = self.session.negotiated(names.HEARTBEAT)
        for event in self.events:
            if isinstance(event, Gap):
                for job_id in [event.job_id] if event.job_id else list(last):
                    marked[job_id] = True
                if not event.job_id:
                    marked[""] = True
                continue
            job_id = event.job_id
            assert job_id is not None
            if not asked and (job_id not in wanted or job_id in self.gone):
                continue
            assert job_id not in ends, f"{job_id}: something comes after its end"
            number = self._number(event)
            before = last.get(job_id, 0)
            assert number > before, f"{job_id}: {number} comes after {before}"
            begins = job_id not in last and job_id not in self.mine
            told = marked.get(job_id) or (job_id not in last and marked.get(""))
            if number > before + 1 and not begins:
                assert told, f"{job_id}: {before + 1} is missing before {number}, without a gap"
            last[job_id] = number
            marked[job_id] = False
            if isinstance(event, Completed | Failed):
                ends.add(job_id)
        both = ends & set(self.gone)
        assert not both, f"{both}: lost, and ended"
        self.ends = ends

    def _number(self, event: Event) -> int:
        assert event.job_id is not None
        return event.current if isinstance(event, Progress) else self.peer.jobs[event.job_id].end

    def finish(self) -> None:
        """No more faults: every job comes to an outcome or a typed error, and requests end."""
        self._note("finish")
        self.peer.swallow = self.peer.busy = 0
        for _ in range(400):
            self.up()
            self.flow()
            for job in list(self.peer.jobs.values()):
                if not job.end and not job.gone:
                    self.peer.emit(job)
                    self.peer.emit(job, end=True)
            self.flow()
            if self.relink:
                continue
            self.check()
            wanted = (self.mine | self.watched) - self.ends - set(self.gone)
            if not wanted and not list(self.session.requests):
                return
            deadline = self.session.deadline
            self.wait(min(60.0, max(0.0, (deadline or self.now) - self.now)) or 1.0)
        raise AssertionError(f"no end of {sorted(wanted)}, {list(self.session.requests)}")

    def report(self, count: int = 120) -> str:
        """What happened last."""
        return "\n".join(self.trail[-count:])


def _number(event: Event) -> str:
    if isinstance(event, Gap):
        return f"gap {event.first}..{event.last} {event.reason}"
    return str(event.current) if isinstance(event, Progress) else event.kind


def _short(data: bytes) -> str:
    frame = json.loads(data)
    payload = {
        name: value
        for name, value in frame["payload"].items()
        if name in ("job_id", "history", "from_event_seq", "current_status", "resume", "code")
    }
    seq, current = frame.get("event_seq"), frame["payload"].get("body", {}).get("current", "")
    return f"{frame['type']} {frame.get('job_id') or ''} {seq or ''} {current} {payload or ''}"
