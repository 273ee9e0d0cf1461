"""A session and a runtime of some dialect, by turns: what one says, the other hears at once."""

from __future__ import annotations

import itertools
import json
from typing import Any

from pydantic import SecretStr

from arcp_client._dialects import DIALECTS, Forms, recognise
from arcp_client._protocol import actions
from arcp_client._protocol.pending import Request
from arcp_client._protocol.session import Session
from arcp_client._wire import names
from arcp_client.events import Event, Gap

__all__ = ["ULID", "Table", "welcome"]

_COUNT = itertools.count(1)
ULID = "01M8FG7VMNRJ7KBJC3XAC8W74H"
_FEATURES = list(names.FEATURES)


def fresh(prefix: str = "") -> str:
    """A fresh envelope id of the right form."""
    return f"{prefix}01M8FG7VMNRJ7KBJC3XA{next(_COUNT):06d}"


def welcome(spoken: str, session_id: str, **fields: Any) -> dict[str, Any]:
    """The welcome of a runtime of that dialect."""
    forms = DIALECTS[spoken].forms
    marked = forms.token != Forms().token
    token = forms.resume_token() if marked else f"token of {session_id}"
    payload = forms.welcome("acme", session_id, token, _FEATURES, _FEATURES)
    payload["capabilities"]["agents"] = []
    payload["resume_window_sec"] = 600
    if "accepted_at" in payload:
        payload["accepted_at"] = "2026-01-01T00:00:10.000000Z"  # before the events
    payload |= fields
    return {
        "type": names.WELCOME,
        "id": forms.envelope_id(),
        "session_id": session_id,
        "payload": payload,
    }


class Table:
    """Where both sit.

    Attributes:
        session: the client's side.
        sent: frames that it sent since they were looked at last.
        done: all other effects.
        events: what was delivered.
        now: the time.
        lines: whether links send frames as lines.
    """

    lines = False

    def __init__(self, spoken: str, *, features: tuple[str, ...] = names.FEATURES) -> None:
        self.spoken = spoken
        self.session = Session(features=features, recognise=recognise)
        self.id = f"sess_{fresh()}"
        self.sent: list[dict[str, Any]] = []
        self.done: list[Any] = []
        self.events: list[Event] = []
        self.now = 0.0
        self.connect()
        self.sent.clear()

    # -- the link

    def connect(self, *, session_id: str | None = None, **fields: Any) -> dict[str, Any]:
        """Hello and welcome; gives the hello."""
        hello = self.hello()
        self.id = session_id or self.id
        self.hear(welcome(self.spoken, self.id, **fields))
        return hello

    def hello(self) -> dict[str, Any]:
        """A new link, and the client's first word on it."""
        self.session.greet(SecretStr("secret"), self.now, lines=self.lines)
        self.do()
        return self.said(names.HELLO)

    def cut(self) -> None:
        """The link is gone."""
        self.session.lost(self.now)
        self.do()
        self.sent.clear()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        end = self.now + seconds
        for _ in range(1000):
            deadline = self.session.deadline
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self.session.tick(self.now)
            self.do()
        self.now = end

    def alive(self, seconds: float, *, moment: float = 0.01) -> None:
        """Time passes, and every ping is answered a moment later."""
        end = self.now + seconds
        for _ in range(1000):
            pings = [frame for frame in self.sent if frame["type"] == names.PING]
            for ping in pings:
                self.sent.remove(ping)
                self.now += moment
                pong = {"ping_nonce": ping["payload"]["nonce"]}
                self.hear({"type": names.PONG, "payload": pong})
            deadline = self.session.deadline
            if not pings and (deadline is None or deadline > end):
                break
            if deadline is not None and deadline <= end:
                self.now = max(self.now, deadline)
                self.session.tick(self.now)
                self.do()
        self.now = max(self.now, end)

    # -- the client

    def ask(self, kind: str, **payload: Any) -> Request:
        """The client asks for something."""
        key = payload.pop("key", None)
        if kind == names.SUBMIT:
            payload = {"agent": "a", "input": None, "idempotency_key": key or fresh("auto-")}
        request = Request(
            kind=kind,
            payload=payload,
            deadline=self.now + 30,
            job_id=payload.get("job_id"),
            key=payload.get("idempotency_key"),
            fresh=key is None,
        )
        self.session.request(request, self.now)
        self.do()
        return request

    def said(self, kind: str) -> dict[str, Any]:
        """The next frame of the client, which is of this type."""
        assert self.sent, f"nothing was sent, {kind} was expected"
        frame = self.sent.pop(0)
        assert frame["type"] == kind, f"{frame['type']} was sent, {kind} was expected"
        return frame

    # -- the runtime

    def hear(self, frame: dict[str, Any]) -> None:
        """The runtime says something."""
        whole = {"arcp": "1.1", "id": fresh(), "session_id": self.id, **frame}
        self.events += self.session.receive((json.dumps(whole).encode(),), self.now)
        self.do()

    def accept(self, job_id: str, *, at: str = "2026-01-01T00:00:11Z", **fields: Any) -> None:
        """It takes in the submit that was sent, as this job."""
        submit = self.said(names.SUBMIT)
        payload = {"job_id": job_id, "agent": "a", "accepted_at": at, "request_id": submit["id"]}
        self.hear({"type": names.ACCEPTED, "payload": payload, "job_id": job_id, **fields})

    def event(self, seq: int | None, job_id: str, number: int, **fields: Any) -> None:
        """An event of a job: progress, with a time of its own for each number."""
        payload = {
            "kind": "progress",
            "ts": f"2026-01-01T00:01:{number:02d}.000001Z",
            "body": {"current": number},
        }
        frame = {"type": names.EVENT, "job_id": job_id, "payload": payload, **fields}
        self.hear(frame if seq is None else {**frame, "event_seq": seq})

    def result(self, seq: int | None, job_id: str, value: Any = "done", **fields: Any) -> None:
        """A job succeeds."""
        payload = {"final_status": "success", "result": value}
        self.hear(
            {
                "type": names.RESULT,
                "job_id": job_id,
                "event_seq": seq,
                "payload": payload,
                **fields,
            }
        )

    def confirm(self, job_id: str, status: str = "running") -> dict[str, Any]:
        """It confirms the subscription that was sent; gives that."""
        subscribe = self.said(names.SUBSCRIBE)
        assert subscribe["payload"]["job_id"] == job_id
        self.confirmed(subscribe, status)
        return subscribe

    def confirmed(self, subscribe: dict[str, Any], status: str = "running") -> None:
        """It confirms that subscription."""
        job_id = subscribe["payload"]["job_id"]
        payload = {"request_id": subscribe["id"], "job_id": job_id, "current_status": status}
        self.hear({"type": names.SUBSCRIBED, "job_id": job_id, "payload": payload})

    def error(self, code: str, **fields: Any) -> None:
        """It reports an error without saying what about."""
        self.hear({"type": names.SESSION_ERROR, "payload": {"code": code}, **fields})

    # -- what came of it

    @property
    def numbers(self) -> list[Any]:
        """What was delivered: numbers of progress, ``gap``, or the kind of the end."""
        return [
            "gap" if isinstance(event, Gap) else getattr(event, "current", event.kind)
            for event in self.events
        ]

    def of(self, kind: type) -> list[Any]:
        """The effects of one kind."""
        return [effect for effect in self.done if isinstance(effect, kind)]

    def do(self) -> None:
        """Take what the session wants to be done."""
        for effect in self.session.take():
            if isinstance(effect, actions.Send):
                self.sent.append(json.loads(effect.data))
            elif isinstance(effect, Event):
                self.events.append(effect)
            else:
                self.done.append(effect)
