"""A session with a strict runtime, and what the tests ask of both."""

from __future__ import annotations

import json
from typing import Any

from arcp_client._dialects import recognise
from arcp_client._protocol import actions
from arcp_client._protocol.session import Session
from arcp_client._wire import names
from arcp_client.events import Event, Gap
from tests.unit.protocol.scripted import Table, fresh

__all__ = ["JOB", "Strict", "gaps", "live"]

JOB = "job_a"


class Strict(Table):
    """A table at which a runtime with true numbers sits.

    Args:
        connect: whether the first link is up.
        spoken: its dialect.
        options: of the session.
    """

    def __init__(
        self, *, connect: bool = True, spoken: str = "arcp-client", **options: Any
    ) -> None:
        self.spoken = spoken
        self.session = Session(recognise=recognise, **options)
        self.id = options["checkpoint"].session_id if "checkpoint" in options else "sess_1"
        self.sent: list[dict[str, Any]] = []
        self.done: list[Any] = []
        self.events: list[Event] = []
        self.order: list[Any] = []
        self.now = 100.0
        if connect:
            self.connect()
            self.sent.clear()

    def do(self) -> None:
        """As a table does, and every effect is noted in order."""
        for effect in self.session.take():
            self.order.append(effect)
            if isinstance(effect, actions.Send):
                self.sent.append(json.loads(effect.data))
            elif isinstance(effect, Event):
                self.events.append(effect)
            else:
                self.done.append(effect)

    def submit(self, job_id: str = JOB, *, key: str | None = None) -> None:
        """A job is submitted and accepted."""
        self.ask(names.SUBMIT, key=key)
        self.accept(job_id)

    def raw(self, data: bytes) -> None:
        """The runtime sends just these bytes."""
        self.events += self.session.receive((data,), self.now)
        self.do()

    def unreadable(self, seq: int, job_id: str = JOB, *, id: str | None = None) -> None:
        """A frame whose number can be read and whose body cannot."""
        name = id or fresh()
        head = f'{{"id":"{name}","type":"job.event","job_id":"{job_id}","event_seq":{seq},'
        self.raw(head.encode() + b'"payload":{"kind":nope}}')

    def failure(self, seq: int, job_id: str, code: str, **fields: Any) -> None:
        """A job fails."""
        payload = {"final_status": "error", "code": code, "message": ""}
        frame = {"type": names.JOB_ERROR, "job_id": job_id, "payload": payload, **fields}
        self.hear({**frame, "event_seq": seq})

    def replay(self, first: int, last: int, job_id: str = JOB) -> None:
        """Events come, numbered as their progress is."""
        for seq in range(first, last + 1):
            self.event(seq, job_id, seq)

    def resumed(self, cursor: int) -> None:
        """The link drops, and the session is resumed from that cursor."""
        self.cut()
        hello = self.connect()
        assert hello["payload"]["resume"]["last_event_seq"] == cursor
        assert self.of(actions.Opened)[-1].resumed

    def refuse_hello(self, code: str, **payload: Any) -> dict[str, Any]:
        """A new link on which the runtime refuses the hello; gives that."""
        hello = self.hello()
        self.hear({"type": names.SESSION_ERROR, "payload": {"code": code, **payload}})
        return hello

    @property
    def causes(self) -> list[str]:
        """Why new links were asked for: names of errors."""
        return [type(effect.cause).__name__ for effect in self.of(actions.Relink)]


def live(**options: Any) -> Strict:
    """A table with a job that runs."""
    table = Strict(**options)
    table.submit(key=None)
    return table


def gaps(table: Table) -> list[tuple[int, int | None, str]]:
    """Every gap: first, last, reason."""
    return [(e.first, e.last, e.reason) for e in table.events if isinstance(e, Gap)]
