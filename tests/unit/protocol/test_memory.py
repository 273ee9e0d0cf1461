"""What a session remembers is bounded, however many jobs come and go."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from arcp_client._dialects import _unreliable_numbers
from arcp_client._wire import names
from tests.dialects import ALL
from tests.unit.protocol.scripted import Table

A_FEW, MANY = 400, 800


def held(root: object) -> int:
    """How many objects are reached from one, classes and functions aside."""
    seen: set[int] = set()
    left: list[object] = [root]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type) or callable(one):
            continue
        seen.add(id(one))
        left.extend(_referents(one))
    return len(seen)


def _referents(one: object) -> Iterator[object]:
    module = type(one).__module__
    if isinstance(one, (dict, list, set, tuple)) or module.startswith(
        ("arcp_client", "collections")
    ):
        yield from gc.get_referents(one)


class Small(Table):
    """A table whose session remembers little, and that itself remembers nothing."""

    def __init__(self, spoken: str) -> None:
        super().__init__(spoken)
        self.session.jobs.remember = 50
        self.seq = 0

    def forget(self) -> None:
        self.events.clear()
        self.done.clear()
        self.sent.clear()

    def own(self, n: int) -> None:
        """A job is submitted, says something and ends; somebody cancels it meanwhile."""
        job_id = f"job_{n}"
        self.ask(names.SUBMIT, key=f"k{n}")
        self.accept(job_id)
        if self.sent:  # under a key of the user's it may be an old one
            self.subscribed()
        self.ask(names.CANCEL, job_id=job_id)
        self.say(job_id)

    def watched(self, n: int) -> None:
        """A job is watched, with its history or without, says something and ends."""
        job_id = f"seen_{n}"
        self.ask(names.SUBSCRIBE, job_id=job_id, history=bool(n % 2))
        self.subscribed()
        self.say(job_id)

    def subscribed(self) -> None:
        """The subscription is confirmed, and a ping that follows it answered."""
        self.confirmed(self.said(names.SUBSCRIBE))
        for ping in self.sent:
            pong = {"ping_nonce": ping["payload"]["nonce"]}
            self.hear({"type": names.PONG, "payload": pong})
        self.sent.clear()

    def left(self, n: int) -> None:
        """A job is watched and then not any more."""
        job_id = f"left_{n}"
        self.ask(names.SUBSCRIBE, job_id=job_id, history=False)
        self.confirm(job_id)
        self.session.unsubscribe(job_id, self.now)
        self.do()

    def foreign(self, n: int) -> None:
        """A job that nobody asked for ends, one is refused, one cannot be read."""
        self.say(f"foreign_{n}")
        request = self.ask(names.SUBSCRIBE, job_id=f"nobody_{n}", history=True)
        self.session.refuse(request, RuntimeError("no"), self.now)  # type: ignore[arg-type]
        self.do()

    def say(self, job_id: str) -> None:
        self.seq += 2
        self.event(self.seq - 1, job_id, 1)
        self.result(self.seq, job_id)


@pytest.mark.parametrize("spoken", ALL)
@pytest.mark.parametrize("kind", ["own", "watched", "left", "foreign"])
@pytest.mark.usefixtures("untraced")
def test_what_is_remembered_of_ended_jobs_is_bounded(
    spoken: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_unreliable_numbers, "REMEMBERED", 50)
    table = Small(spoken)
    do: Any = getattr(table, kind)

    def run(first: int, last: int) -> int:
        for n in range(first, last):
            do(n)
            table.forget()
        return held(table.session)

    few = run(0, A_FEW)
    many = run(A_FEW, MANY)
    assert many <= few + 50, f"{few} objects after {A_FEW} jobs, {many} after {MANY}"


@pytest.mark.parametrize("spoken", ALL)
def test_a_plan_whose_requests_get_no_answer_keeps_few_of_them(spoken: str) -> None:
    table = Table(spoken)
    table.ask(names.SUBSCRIBE, job_id="job_a", history=False)
    table.confirm("job_a")
    table.cut()
    table.connect()
    most = 0
    for _ in range(600):
        table.alive(1.0)
        most = max(most, sum(1 for _ in table.session.requests.known()))
    assert most <= 4
