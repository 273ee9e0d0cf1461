"""Answers that come after their time, twice, or name nothing that is known (S14)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arcp_client._protocol import actions
from arcp_client._protocol.pending import LATE, MOST_LATE, Request
from arcp_client._wire import names
from tests.unit.protocol.kit import JOB, Strict, live

TRACED = ["go", "java", "typescript", "csharp", "unknown"]


def submit(table: Strict, number: int, agent: str = "a", *, seconds: float = 30.0) -> Request:
    """A submit as a client sends it, with a trace of its own."""
    request = Request(
        kind=names.SUBMIT,
        payload=msgspec.Raw(msgspec.json.encode({"agent": agent, "input": None})),
        deadline=table.now + seconds,
        trace_id=f"{number:032x}",
        key=f"key {number}",
        fresh=True,
    )
    table.session.request(request, table.now)
    table.do()
    return request


def accept(table: Strict, job_id: str, *, trace_id: str | None = None, agent: str = "a") -> None:
    payload = {"job_id": job_id, "agent": agent}
    top = {} if trace_id is None else {"trace_id": trace_id}
    table.hear({"type": names.ACCEPTED, "job_id": job_id, "payload": payload, **top})


def refusal(table: Strict, code: str = "INVALID_REQUEST", **top: Any) -> None:
    table.hear({"type": names.SESSION_ERROR, "payload": {"code": code}, **top})


def of(table: Strict, kind: type) -> list[Request]:
    return [effect.request for effect in table.of(kind)]


def overdue(spoken: str = "go") -> tuple[Strict, Request, Request]:
    """A submit whose time is over, and another one that is under way."""
    table = Strict(spoken=spoken)
    first = submit(table, 1)
    table.wait(30)
    second = submit(table, 2)
    assert of(table, actions.Refused) == [first]
    table.done.clear()
    return table, first, second


@pytest.mark.parametrize("spoken", TRACED)
def test_s14_a_late_acceptance_is_not_taken_for_that_of_a_newer_submit(spoken: str) -> None:
    table, first, second = overdue(spoken)
    accept(table, "job_1", trace_id=first.trace_id)
    assert of(table, actions.Replied) == []
    assert "after its deadline" in table.of(actions.Report)[-1].message
    accept(table, "job_2", trace_id=second.trace_id)
    assert of(table, actions.Replied) == [second]
    assert second.job_id == "job_2"


@pytest.mark.parametrize("spoken", TRACED)
def test_s14_a_late_refusal_refuses_no_newer_submit(spoken: str) -> None:
    table, first, second = overdue(spoken)
    refusal(table, trace_id=first.trace_id)
    code = {"code": "INVALID_REQUEST", "request_id": first.ids[0]}
    table.hear({"type": names.SESSION_ERROR, "payload": code})  # and once more, by its id
    assert of(table, actions.Refused) == []
    assert second in table.session.requests


def test_s14_the_job_of_a_submit_that_was_accepted_late_is_known() -> None:
    table, first, _ = overdue()
    accept(table, "job_1", trace_id=first.trace_id)
    (told,) = table.of(actions.JobKnown)
    assert (told.job.job_id, told.submitted, told.request) == ("job_1", True, first)


def test_s14_an_answer_that_names_nothing_is_that_of_the_oldest_be_it_late() -> None:
    table, _, second = overdue()
    accept(table, "job_1")
    assert of(table, actions.Replied) == []
    accept(table, "job_2")
    assert of(table, actions.Replied) == [second]


@pytest.mark.parametrize("kind", [names.SUBSCRIBE, names.CANCEL, names.LIST_JOBS])
def test_s14_so_it_is_for_every_kind_of_request(kind: str) -> None:
    table = Strict()
    payload = {} if kind == names.LIST_JOBS else {"job_id": JOB}
    table.ask(kind, **payload)
    table.wait(30)
    second = table.ask(kind, **payload)
    answer = {"session.list_jobs": "session.jobs"}.get(kind, f"{kind.rstrip('e')}ed")
    answer = {"job.cancel": names.CANCELLED}.get(kind, answer)
    for expected in ([], [second]):
        table.hear({"type": answer, "payload": {"job_id": JOB} if payload else {"jobs": []}})
        assert of(table, actions.Replied) == expected
        table.alive(0.1)  # the watch that was out of time is ended before a new one


def test_s14_once_the_runtime_has_read_on_what_names_nothing_is_the_newer_ones() -> None:
    table = Strict(spoken="typescript")
    first = table.ask(names.LIST_JOBS)  # it is swallowed
    table.alive(31)
    second = table.ask(names.LIST_JOBS)
    table.error("INVALID_REQUEST")
    assert of(table, actions.Refused) == [first, second]


def test_s14_how_long_and_how_many_late_answers_are_waited_for_is_bounded() -> None:
    table = Strict()
    first = table.ask(names.LIST_JOBS)
    table.alive(30 + LATE + 1)
    assert first not in list(table.session.requests.known())
    for _ in range(MOST_LATE + 5):
        table.ask(names.LIST_JOBS)
    table.alive(31)
    assert len(list(table.session.requests.known())) == MOST_LATE


def test_s14_a_late_answer_is_lost_with_its_link() -> None:
    table, _, second = overdue()
    table.cut()
    table.connect()
    accept(table, "job_2")
    assert of(table, actions.Replied) == [second]


def test_s14_of_submits_the_agent_that_was_accepted_decides_before_their_age() -> None:
    table = Strict()
    first, second = submit(table, 1, "copy@1.0"), submit(table, 2, "move")
    third = submit(table, 3, "copy@2.0")
    accept(table, "job_3", agent="copy@2.0")
    accept(table, "job_2", agent="move@7")
    accept(table, "job_1", agent="copy@1.0")
    assert of(table, actions.Replied) == [third, second, first]


def test_s14_an_acceptance_that_is_sent_twice_answers_one_submit() -> None:
    table = Strict()
    first, second = submit(table, 1), submit(table, 2)
    accept(table, "job_1")
    accept(table, "job_1")
    assert of(table, actions.Replied) == [first]
    assert second in table.session.requests


@pytest.mark.parametrize("top", [{"trace_id": "ab" * 16}, {"job_id": "job_unknown"}])
@pytest.mark.parametrize("spoken", ["arcp-client", *TRACED, "python", "ruby"])
def test_s14_an_error_that_names_nothing_known_refuses_nothing_and_is_reported(
    spoken: str, top: dict[str, str]
) -> None:
    table = Strict(spoken=spoken)
    request = submit(table, 1)
    refusal(table, **top)
    assert of(table, actions.Refused) == []
    assert "INVALID_REQUEST" in table.of(actions.Report)[-1].message
    assert request in table.session.requests
    refusal(table)
    assert of(table, actions.Refused) == [request]


def test_s14_an_acceptance_with_an_unknown_trace_is_no_submits_that_has_another() -> None:
    table = Strict()
    request = submit(table, 1)
    accept(table, "job_x", trace_id="ab" * 16)
    assert of(table, actions.Replied) == []
    assert request in table.session.requests


def test_s14_a_key_in_use_refuses_the_submit_with_that_key() -> None:
    table = live()
    job = table.session.jobs.get(JOB)
    assert job is not None
    job.key = "key 2"
    submit(table, 1)
    second = submit(table, 2)
    table.failure(1, JOB, names.DUPLICATE_KEY)
    assert of(table, actions.Refused) == [second]


def test_s14_a_withdrawn_request_takes_its_late_answer_too() -> None:
    table = Strict()
    first = table.ask(names.LIST_JOBS)
    table.session.withdraw(first)
    table.wait(31)
    second = table.ask(names.LIST_JOBS)
    for expected in ([], [second]):
        table.hear({"type": names.JOBS, "payload": {"jobs": []}})
        assert of(table, actions.Replied) == expected


def test_s14_an_answer_that_names_nothing_goes_by_the_age_of_requests_not_of_their_ends() -> None:
    table = Strict()
    first = submit(table, 1, seconds=40.0)
    second = submit(table, 2, seconds=10.0)
    table.wait(11)
    assert of(table, actions.Refused) == [second]
    accept(table, "job_1")
    assert of(table, actions.Replied) == [first]


@pytest.mark.parametrize("payload", [b"{}", b'{"agent": 7}'])
def test_s14_a_submit_that_names_no_agent_is_answered_by_age(payload: bytes) -> None:
    table = Strict(spoken="go")
    first = Request(names.SUBMIT, msgspec.Raw(payload), table.now + 30)
    table.session.request(first, table.now)
    table.do()
    second = submit(table, 2, "b")
    accept(table, "job_b", agent="b")
    accept(table, "job_a", agent="c")
    assert of(table, actions.Replied) == [second, first]
