"""Requests and their answers in any interleaving: no request ever gets the answer of another (S14).

The runtime answers late, twice, or not at all, and names the request by its id, by its trace, by
its job, or by nothing. Where answers name nothing they come in the order of the requests, since
nothing else could tell them apart, and within the time for which late answers are waited for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import SecretStr

from arcp_client._dialects import recognise
from arcp_client._protocol import actions
from arcp_client._protocol.pending import LATE, Request
from arcp_client._protocol.session import Session
from arcp_client._wire import names
from arcp_client.errors import RequestError, RequestTimeout
from tests.property.seeds import explore
from tests.unit.protocol.scripted import fresh, welcome

SPOKEN = {"id": "arcp-client", "trace": "go", "nothing": "unknown", "in turn": "typescript"}
"""How answers name their request, and the dialect of a runtime that does so."""


class Correlation(RuleBasedStateMachine):
    """A client, and what its runtime may say; a subclass says how the runtime names requests."""

    names: str

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.session = Session(recognise=recognise)
        self.questions: list[dict[str, Any]] = []  # read by the runtime, oldest first
        self.given: list[dict[str, Any]] = []  # answers that may be said once more
        self.asked: dict[str, Request] = {}
        self.count = 0
        self.answers: dict[str, str] = {}
        self.accepted: list[str] = []
        self.link()

    def link(self) -> None:
        self.questions.clear()
        self.given.clear()
        self.act(self.session.greet, SecretStr("t"), self.now)
        features = [names.LISTING, names.SUBSCRIPTIONS, names.HEARTBEAT]
        capabilities = {"encodings": ["json"], "features": features, "agents": []}
        self.say(welcome(SPOKEN[self.names], "sess_1", capabilities=capabilities))

    # -- the client

    def act(self, verb: Callable[..., object], *arguments: object) -> None:
        verb(*arguments)
        for effect in self.session.take():
            if isinstance(effect, actions.Send) and effect.request is not None:
                frame = json.loads(effect.data)
                self.questions.append({**frame, "tag": str(effect.request.token), "at": self.now})
            elif isinstance(effect, actions.Send):
                frame = json.loads(effect.data)
                if frame["type"] == names.PING:
                    self.questions.append({**frame, "tag": "", "at": self.now})
            elif isinstance(effect, actions.Replied):
                self.answered(effect.request, effect.value)
            elif isinstance(effect, actions.Refused):
                self.ended(effect.request, effect.error)

    def answered(self, request: Request, value: Any) -> None:
        """The value says which request it was made for."""
        self.once(request)
        if request.kind == names.SUBMIT:
            assert value.job_id == f"job of {request.token}", "a submit got another's job"
            self.accepted.append(value.job_id)
        elif request.kind == names.LIST_JOBS:
            assert value.next_cursor == request.token, "a listing got another's page"
        elif request.kind == names.SUBSCRIBE:
            assert value.agent == request.token, "a watch got another's confirmation"

    def ended(self, request: Request, error: Exception) -> None:
        self.once(request)
        if isinstance(error, RequestError) and not isinstance(error, RequestTimeout):
            assert str(request.token) in str(error), f"{request.token} got the refusal: {error}"

    def once(self, request: Request) -> None:
        assert request.token not in self.answers, "a request has ended twice"
        self.answers[request.token] = request.kind

    def ask(self, kind: str, payload: dict[str, Any], **fields: Any) -> None:
        self.count += 1
        token = f"<{self.count}>"
        request = Request(kind=kind, payload=payload, deadline=self.now + 30, token=token, **fields)
        self.asked[token] = request
        self.act(self.session.request, request, self.now)

    @rule(agent=st.sampled_from(["a", "b"]))
    def a_job_is_submitted(self, agent: str) -> None:
        number = self.count + 1
        payload = {"agent": agent, "input": None, "idempotency_key": f"k{number}"}
        trace_id = f"{number:032x}"
        self.ask(names.SUBMIT, payload, key=f"k{number}", trace_id=trace_id, fresh=True)

    @rule()
    def jobs_are_listed(self) -> None:
        self.ask(names.LIST_JOBS, {})

    @rule(number=st.integers(0, 2))
    def a_job_is_watched(self, number: int) -> None:
        job_id = f"job_w{number}"
        self.ask(names.SUBSCRIBE, {"job_id": job_id, "history": False}, job_id=job_id)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def a_request_is_withdrawn(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(sorted(self.asked)), label="request")
        if token not in self.answers:
            self.answers[token] = "withdrawn"
            self.act(self.session.withdraw, self.asked[token])

    @rule(seconds=st.sampled_from([1.0, 10.0, 29.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        for _ in range(100):
            deadline = self.session.deadline
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self.act(self.session.tick, self.now)
            self.session.frame_seen(self.now)  # the link is not what is silent
        self.now = end
        if any(self.now - question["at"] > LATE for question in self.questions):
            self.the_link_is_lost()

    @rule()
    def the_link_is_lost(self) -> None:
        self.act(self.session.lost, self.now)
        self.link()

    # -- the runtime

    def say(self, frame: dict[str, Any]) -> None:
        whole = {"arcp": "1.1", "id": fresh(), "session_id": "sess_1", **frame}
        self.act(self.session.receive, (json.dumps(whole).encode(),), self.now)

    @property
    def in_order(self) -> bool:
        return self.names in ("nothing", "in turn")

    @precondition(lambda self: self.questions)
    @rule(data=st.data(), how=st.sampled_from(["answer", "answer", "refuse", "swallow"]))
    def the_runtime_goes_on(self, data: st.DataObject, how: str) -> None:
        last = 0 if self.in_order else len(self.questions) - 1
        place = data.draw(st.integers(0, last), label="question")
        question = self.questions.pop(place)
        if question["type"] == names.PING:
            self.say({"type": names.PONG, "payload": {"ping_nonce": question["payload"]["nonce"]}})
        elif how == "refuse":
            self.give(self.refusal(question))
        elif how == "answer" or self.in_order:
            self.give(self.answer(question))

    def give(self, frame: dict[str, Any]) -> None:
        self.given.append(frame)
        self.say(frame)

    @precondition(lambda self: self.given and not self.in_order)
    @rule(data=st.data())
    def an_answer_is_said_twice(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.given) - 1), label="answer")
        self.say({**self.given[place], "id": fresh()})

    @rule(
        name=st.sampled_from(["trace_id", "job_id", "request_id"]),
        kind=st.sampled_from([names.SESSION_ERROR, names.ACCEPTED]),
    )
    def something_comes_that_names_nothing_known(self, name: str, kind: str) -> None:
        value = "ab" * 16 if name == "trace_id" else f"unknown {name}"
        top = {} if name == "request_id" else {name: value}
        payload = {"code": "INVALID_REQUEST", "message": "nobody's"}
        if kind == names.ACCEPTED:
            if name == "job_id":
                return  # every acceptance names a job
            payload = {"job_id": "nobody's job", "agent": "a"}
        if name == "request_id":
            payload["request_id"] = value
        self.say({"type": kind, "payload": payload, **top})

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        kind, token, payload = question["type"], question["tag"], question["payload"]
        if kind == names.SUBMIT:
            answer = {"job_id": f"job of {token}", "agent": payload["agent"]}
            return self.named(names.ACCEPTED, answer, question)
        if kind == names.SUBSCRIBE:
            answer = {"job_id": payload["job_id"], "agent": token, "current_status": "running"}
            return self.named(names.SUBSCRIBED, answer, question)
        return self.named(names.JOBS, {"jobs": [], "next_cursor": token}, question)

    def refusal(self, question: dict[str, Any]) -> dict[str, Any]:
        payload = {"code": "INTERNAL_ERROR", "message": f"refused: {question['tag']}"}
        return self.named(names.SESSION_ERROR, payload, question)

    def named(self, kind: str, payload: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
        frame = {"type": kind, "payload": payload}
        submits = question["type"] == names.SUBMIT
        if self.names == "trace" and submits:
            return {**frame, "trace_id": question["trace_id"]}
        if self.names in ("id", "trace") or kind == names.JOBS:
            payload["request_id"] = question["id"]
        return frame

    # -- what holds

    @invariant()
    def nothing_is_kept_without_bound(self) -> None:
        if not hasattr(self, "session"):
            return
        known = list(self.session.requests.known())
        own = [request for request in known if request.owner is not None]
        assert len(known) - len(own) <= len(self.asked)
        # A plan repeats a request after 30 s, and its late answer is awaited for 60 s more.
        assert len(own) <= 4 * len(self.asked)

    def teardown(self) -> None:
        if not hasattr(self, "session"):
            return
        self.time_passes(31.0)
        assert set(self.asked) == set(self.answers), "a request has no end"


@pytest.mark.parametrize("names", SPOKEN)
def test_s14_no_request_gets_the_answer_of_another(names: str) -> None:
    machine = type("Correlation_" + names.replace(" ", "_"), (Correlation,), {"names": names})
    name = "test_s14_no_request_gets_the_answer_of_another"
    explore(machine, f"tests/property/test_correlation.py::{name}[{names}]", quick=20)
