"""Answers the requests of a client on one link, in the forms of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from arcp_client._dialects import Forms
from arcp_client._wire import names as wire
from arcp_client._wire.ids import new_prefixed_id, new_trace_id, now_text
from arcp_client.testing._line import ScriptedLink
from arcp_client.testing._played import Frame, PlayedJob, PlayedSession
from arcp_client.testing._script import Answer, Drop, Later, Raw, Refuse, Withhold
from arcp_client.transports.base import Transport

__all__ = ["Host", "Talk"]


class Host(Protocol):
    """The state shared by all links of one scripted runtime."""

    name: str
    forms: Forms
    legacy: bool
    features: list[str]
    sessions: dict[str, PlayedSession]
    jobs: dict[str, PlayedJob]

    def knows(self, agent: str) -> bool:
        """Whether the agent has a script."""

    def accepts(self, token: str) -> bool:
        """Whether a bearer token is valid."""

    def inventory(self) -> list[str]:
        """Return the names of the agents."""

    def start(
        self, agent: str, session: PlayedSession, talk: Talk, *, parent: str | None, **facts: Any
    ) -> PlayedJob:
        """Make a job, which runs once `PlayedJob.task` is set."""

    def answer_to(self, kind: str) -> Answer | None:
        """Return the test's answer for the next request of this type, if any."""

    def note(self, way: str, frame: Any) -> None:
        """Record a frame."""

    def object(self, why: str, frame: Mapping[str, Any]) -> None:
        """Record a frame that this dialect would not have understood."""


class Talk(ScriptedLink):
    """One link, from its first frame to its last.

    Args:
        host: the runtime.
        transport: the link.
    """

    def __init__(self, host: Host, transport: Transport) -> None:
        super().__init__(transport, host.note)
        self._host = host
        self._forms = host.forms
        self.session: PlayedSession | None = None
        self._readers: Mapping[str, Callable[[Frame], None]] = {
            wire.SUBMIT: self._submit,
            wire.CANCEL: self._cancel,
            wire.SUBSCRIBE: self._subscribe,
            wire.UNSUBSCRIBE: self._unsubscribe,
            wire.LIST_JOBS: self._list,
            wire.PING: self._ping,
            wire.PONG: lambda frame: None,
            wire.ACK: self._ack,
            wire.CLOSE: self._close,
            wire.BYE: self._close,
        }

    # -- what comes

    def _left(self) -> None:
        if self.session is not None and self.session.link is self:
            self.session.link = None

    def _take(self, frame: Frame) -> None:
        kind = str(frame.get("type"))
        why = self._forms.objection(frame)
        if why is not None:
            self._host.object(why, frame)
        usual = self._usual(kind, why)
        match self._host.answer_to(kind):
            case None:
                usual(frame)
            case Withhold():
                pass
            case Refuse(code, message):
                self._refuse(frame, code, message)
            case Drop():
                usual(frame)
                self.drop()
            case Later(_, by):
                self.later(by, lambda: usual(frame))
            case Raw(raw):
                self.send(raw if isinstance(raw, bytes) else {**self._envelope(frame), **raw})

    def _usual(self, kind: str, why: str | None) -> Callable[[Frame], None]:
        if self.session is None:
            return self._greet if kind == wire.HELLO else lambda frame: self.drop()
        if why is not None:
            return lambda frame: self._refuse(frame, wire.INVALID_REQUEST, why)
        return self._readers.get(kind, self._unknown)

    def _envelope(self, frame: Frame) -> Frame:
        if self.session is not None:
            return self.session.frame("", {})
        return {"arcp": wire.PROTOCOL, "id": self._forms.envelope_id(), "payload": {}}

    # -- the handshake

    def _greet(self, hello: Frame) -> None:
        payload = hello["payload"]
        if self._host.legacy:
            self._refuse_legacy()
        elif not self._host.accepts(str((payload.get("auth") or {}).get("token", ""))):
            self._refuse_token(hello)
        else:
            asked = self._resume_block(payload)
            if asked is None:
                self._open(hello)
            else:
                self._resume(hello, *asked)

    def _refuse_legacy(self) -> None:
        rejected = {"code": "INVALID_ARGUMENT", "message": "expected session.open"}
        self.send({**self._envelope({}), "type": "session.rejected", "payload": rejected})
        self.drop()

    def _refuse_token(self, hello: Frame) -> None:
        if self._forms.bad_token != "close":
            error = self._forms.error(wire.UNAUTHENTICATED, "invalid bearer token")
            frame = {**self._envelope(hello), "type": wire.SESSION_ERROR, "payload": error}
            match self._forms.bad_token_session:
                case "proposed":
                    frame["session_id"] = hello.get("session_id")
                case "new":
                    frame["session_id"] = new_prefixed_id("sess")
            self.send(frame)
        if self._forms.bad_token != "error":
            self.drop()

    def _resume_block(self, payload: Frame) -> tuple[str, int] | None:
        """Read the resume token and the last number from where this runtime expects them."""
        block = payload.get("resume") or {}
        match self._forms.resume_in:
            case "top":
                token, last = payload.get("resume_token"), payload.get("last_event_seq")
            case "token":
                token, last = block.get("token"), block.get("last_event_seq")
            case _:
                token, last = block.get("resume_token"), block.get("last_event_seq")
        return None if token is None else (str(token), int(last or 0))

    def _open(self, hello: Frame) -> None:
        offered = (hello["payload"].get("capabilities") or {}).get("features") or []
        own = hello.get("session_id") if self._forms.session_of_client else None
        session_id = str(own) if own else new_prefixed_id("sess")
        common = frozenset(offered).intersection(self._host.features)
        session = PlayedSession(self._forms, session_id, common)
        self._host.sessions[session.id] = session
        self._welcome(session, offered)

    def _resume(self, hello: Frame, token: str, last: int) -> None:
        found = [s for s in self._host.sessions.values() if s.token == token]
        session = found[0] if found else None
        if session is None or (not self._forms.caught_up and last == session.seq > 0):
            self._refuse_resume(hello)
            return
        if self._forms.rotates:
            session.token = self._forms.resume_token()
        offered = (hello["payload"].get("capabilities") or {}).get("features") or []
        self._welcome(session, offered)
        for frame in session.since(last):
            self.send(frame)

    def _refuse_resume(self, hello: Frame) -> None:
        error = self._forms.error(self._forms.resume_error, "the session cannot be resumed")
        kind = wire.JOB_ERROR if self._forms.refuses == "same id" else wire.SESSION_ERROR
        self.send({**self._envelope(hello), "type": kind, "payload": error})
        self.drop()

    def _welcome(self, session: PlayedSession, offered: list[str]) -> None:
        old, session.link, self.session = session.link, self, session
        if isinstance(old, Talk):
            old.drop()
        payload = self._forms.welcome(
            f"scripted-{self._host.name}", session.id, session.token, self._host.features, offered
        )
        agents = [self._forms.agent(name) for name in self._host.inventory()]
        payload["capabilities"]["agents"] = agents
        self.send(session.frame(wire.WELCOME, payload))

    # -- requests

    def _reply(self, request: Frame, kind: str, payload: Frame, **top: Any) -> None:
        """Send an answer that names its request in the way of this runtime."""
        assert self.session is not None
        named = dict(payload)
        if self._forms.names_request in ("request_id", "reply_to"):
            named[self._forms.names_request] = request["id"]
        elif kind == wire.JOBS:
            named["request_id"] = request["id"]
        self.send(self.session.frame(kind, named, **top))

    def _refuse(
        self, request: Frame, code: str, message: str, *, job_id: str | None = None
    ) -> None:
        forms, session = self._forms, self.session
        payload = forms.error(code, message)
        about = job_id or request.get("job_id") or request["payload"].get("job_id")
        submit = request["type"] == wire.SUBMIT
        if session is None:
            self.send({**self._envelope(request), "type": wire.SESSION_ERROR, "payload": payload})
            return
        match forms.refuses:
            case "request_id":
                payload["request_id"] = request["id"]
            case "reply_to":
                payload["reply_to"] = request["id"]
                if request.get("job_id"):
                    payload["final_status"] = wire.ERROR
                    self.send(session.frame(wire.JOB_ERROR, payload, job_id=about))
                    return
            case "same id":
                top = {"id": request["id"], "trace_id": request.get("trace_id")}
                if request.get("job_id"):
                    top["job_id"] = about
                self.send(session.frame(wire.JOB_ERROR, payload, **top))
                return
            case "job" if (submit and code in _MADE_UP) or (about and code in _ABOUT):
                payload["final_status"] = wire.ERROR
                made_up = about or new_prefixed_id("job")
                self.send(session.numbered(wire.JOB_ERROR, payload, job_id=made_up))
                return
        self.send(session.frame(wire.SESSION_ERROR, payload))

    def _submit(self, frame: Frame) -> None:
        assert self.session is not None
        payload = frame["payload"]
        key = payload.get("idempotency_key")
        for job in self._host.jobs.values():
            if key is not None and job.key == key:
                self._submit_again(frame, job)
                return
        if not self._host.knows(payload["agent"]):
            code = wire.AGENT_NOT_AVAILABLE
            self._refuse(frame, code, f"the agent {payload['agent']} does not exist")
            return
        trace_id = frame.get("trace_id")
        if trace_id is None and self._forms.makes_traces:
            trace_id = new_trace_id()
        self._host.start(
            payload["agent"],
            self.session,
            self,
            parent=payload.get("parent_job_id"),
            key=key,
            submit=payload,
            trace_id=trace_id,
            request_id=frame["id"],
        )

    def _submit_again(self, frame: Frame, job: PlayedJob) -> None:
        if job.submit != frame["payload"]:
            self._refuse(frame, wire.DUPLICATE_KEY, "the key is in use", job_id=job.id)
            return
        if self._forms.stored_ends:  # the same acceptance as before, except for the request id
            again = {**job.accepted["payload"], "request_id": frame["id"]}
            self.send({**job.accepted, "payload": again})
            if job.end is not None and self.session is not None:
                end = {name: v for name, v in job.end.items() if name != "event_seq"}
                self.session.seq += 1
                self.send({**end, "event_seq": self.session.seq})
            return
        self._reply(
            frame,
            wire.ACCEPTED,
            job.accepted["payload"],
            job_id=job.id,
            trace_id=frame.get("trace_id"),
        )

    def _cancel(self, frame: Frame) -> None:
        job_id = frame.get("job_id") or frame["payload"].get("job_id")
        job = self._host.jobs.get(str(job_id))
        if job is None or (job.over and self._forms.refuses_late_cancel):
            self._refuse(frame, wire.JOB_NOT_FOUND, "there is no such job", job_id=str(job_id))
        elif not job.over:
            job.cancel()

    def _subscribe(self, frame: Frame) -> None:
        assert self.session is not None
        payload = frame["payload"]
        job = self._host.jobs.get(payload["job_id"])
        gone = job is not None and job.over and self._forms.ended not in ("end", "no end")
        if job is None or gone:
            private = self._forms.ended == wire.PERMISSION_DENIED
            code = wire.PERMISSION_DENIED if private else wire.JOB_NOT_FOUND
            self._refuse(frame, code, "there is no such job")
            return
        after = int(payload.get("from_event_seq") or 0)
        past, facts = job.watch(self.session, history=bool(payload.get("history")), after=after)
        if self._forms.history_first:
            for piece in past:
                self.send(piece)
            self._reply(frame, wire.SUBSCRIBED, facts)
            return
        self._reply(frame, wire.SUBSCRIBED, facts)
        for piece in past:
            self.send(piece)

    def _unsubscribe(self, frame: Frame) -> None:
        job = self._host.jobs.get(frame["payload"]["job_id"])
        if job is not None:
            job.watchers = [w for w in job.watchers if w.session is not self.session]

    def _list(self, frame: Frame) -> None:
        assert self.session is not None
        if wire.LISTING not in self.session.features and not self._forms.answers_unagreed:
            return
        jobs = [
            self._forms.entry(
                {
                    "job_id": job.id,
                    "agent": job.agent,
                    "status": job.status,
                    "lease": {},
                    "created_at": job.created_at,
                    "last_event_seq": job.session.seq,
                }
            )
            for job in self._host.jobs.values()
            if self._forms.lists_ended or not job.over
        ]
        listed = None if not jobs and self._forms.null_listing else jobs
        self._reply(frame, wire.JOBS, {"jobs": listed, "next_cursor": None})

    def _ping(self, frame: Frame) -> None:
        assert self.session is not None
        pong = {"ping_nonce": frame["payload"].get("nonce"), "received_at": now_text()}
        self.send(self.session.frame(wire.PONG, pong))

    def _ack(self, frame: Frame) -> None:
        assert self.session is not None
        last = frame["payload"]["last_processed_seq"]
        self.session.acknowledged(last)
        for job in self._host.jobs.values():
            job.acknowledged(self.session, last)

    def _close(self, frame: Frame) -> None:
        assert self.session is not None
        if frame["type"] not in self._forms.closes:
            self._unknown(frame)
            return
        if self._forms.away == "dies":
            for job in self._host.jobs.values():
                if job.session is self.session:
                    job.die()
        if self._forms.close_cancels:
            for job in list(self._host.jobs.values()):
                if job.session is self.session and not job.over:
                    job.cancel()
        if self._forms.answers_close:
            self.send(self.session.frame(wire.CLOSED, {}))
        self.drop()

    def _unknown(self, frame: Frame) -> None:
        if self._forms.refuses_unknown:
            self._refuse(frame, wire.INVALID_REQUEST, f"unexpected {frame['type']}")


_MADE_UP = frozenset({wire.AGENT_NOT_AVAILABLE, wire.PERMISSION_DENIED, wire.DUPLICATE_KEY})
_ABOUT = frozenset({wire.JOB_NOT_FOUND, wire.PERMISSION_DENIED, wire.DUPLICATE_KEY})
