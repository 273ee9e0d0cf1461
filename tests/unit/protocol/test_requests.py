"""S6 and S7: whose answer is it, what goes out again, and how every request ends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arcp_client._protocol import actions
from arcp_client._protocol.pending import PendingRequests, Request
from arcp_client._wire import names
from arcp_client.errors import (
    ClientClosed,
    FeatureNotNegotiated,
    LinkLost,
    LocalProtocolError,
    RequestTimeout,
)
from tests.interop.rules import rule
from tests.unit.protocol.kit import JOB, Strict, live


def answered(table: Strict) -> list[Request]:
    return [effect.request for effect in table.of(actions.Replied)]


def refused(table: Strict) -> list[Request]:
    return [effect.request for effect in table.of(actions.Refused)]


def accept(table: Strict, job_id: str, **fields: Any) -> None:
    payload = {"job_id": job_id, **fields.pop("payload", {})}
    table.hear({"type": names.ACCEPTED, "payload": payload, **fields})


# ------------------------------------------------------------------ S6: the same again


@rule("send-1", "send-6")
def test_s6_a_submit_goes_out_again_with_the_same_bytes_under_a_fresh_id() -> None:
    table = Strict()
    raw = b'{"agent":"a","input":{"b":1.0, "a":[2]},"idempotency_key":"k"}'
    request = Request(
        kind=names.SUBMIT, payload=msgspec.Raw(raw), deadline=1e9, trace_id="ab" * 16, key="k"
    )
    table.session.request(request, table.now)
    table.resumed(0)
    table.resumed(0)
    sent = [e.data for e in table.order if isinstance(e, actions.Send) and e.request is request]
    assert len(sent) == 3
    assert all(raw in frame for frame in sent)
    ids = zip(sent, request.ids, strict=True)
    assert len({frame.replace(name.encode(), b"") for frame, name in ids}) == 1
    assert len(set(request.ids)) == 3


@pytest.mark.parametrize("which", [0, 1, 2])
def test_s6_an_answer_to_any_of_its_ids_answers_it(which: int) -> None:
    table = Strict()
    request = table.ask(names.SUBMIT)
    table.resumed(0)
    table.resumed(0)
    accept(table, JOB, payload={"request_id": request.ids[which]})
    assert answered(table) == [request]
    accept(table, JOB, payload={"request_id": request.ids[-1]})
    assert answered(table) == [request]


def test_s7_requests_made_without_a_link_wait_for_it() -> None:
    table = Strict(connect=False)
    request = table.ask(names.LIST_JOBS)
    table.connect()
    assert table.said(names.LIST_JOBS)["id"] == request.ids[0]


def test_cancels_and_lists_and_pings_sent_during_an_outage_go_out_on_the_next_link() -> None:
    table = live()
    table.cut()
    for kind, payload in (
        (names.CANCEL, {"job_id": JOB}),
        (names.LIST_JOBS, {}),
        (names.PING, {"nonce": "n"}),
    ):
        table.ask(kind, **payload)
    table.connect()
    assert [frame["type"] for frame in table.sent] == [
        names.CANCEL,
        names.LIST_JOBS,
        names.PING,
    ]


# ------------------------------------------------------------------ whose answer


def test_an_error_for_the_second_of_two_submits_leaves_the_first_alone() -> None:
    table = Strict()
    first, second = table.ask(names.SUBMIT), table.ask(names.SUBMIT)
    payload = {"code": "AGENT_NOT_AVAILABLE", "request_id": second.ids[0]}
    table.hear({"type": names.SESSION_ERROR, "payload": payload})
    assert refused(table) == [second]
    accept(table, JOB)
    assert answered(table) == [first]


def pair() -> tuple[Strict, Request, Request]:
    """Two submits under way; whatever names one means the second."""
    table = Strict()
    first = table.ask(names.SUBMIT)
    second = Request(kind=names.SUBMIT, payload={}, deadline=1e9, trace_id="cd" * 16)
    table.session.request(second, table.now)
    table.do()
    return table, first, second


@pytest.mark.parametrize("name", ["request_id", "reply_to", "correlation_id", "id", "trace_id"])
@pytest.mark.parametrize("kind", [names.SESSION_ERROR, names.JOB_ERROR])
@rule("accept-6")
def test_a_refusal_is_told_by_whatever_names_its_request(name: str, kind: str) -> None:
    table, _, second = pair()
    value = second.trace_id if name == "trace_id" else second.ids[0]
    in_payload = {name: value} if name in ("request_id", "reply_to") else {}
    on_top = {} if in_payload else {name: value}
    payload = {"code": "INVALID_REQUEST", **in_payload}
    table.hear({"type": kind, "payload": payload, **on_top})
    assert refused(table) == [second]


@rule("accept-6")
def test_the_id_that_a_frame_names_counts_before_its_own_and_that_before_the_trace() -> None:
    table, first, second = pair()
    payload = {"code": "INVALID_REQUEST", "request_id": first.ids[0]}
    frame = {"type": names.SESSION_ERROR, "id": second.ids[0], "trace_id": second.trace_id}
    table.hear({**frame, "payload": payload})
    assert refused(table) == [first]


@rule("accept-6")
def test_a_trace_counts_before_a_job_and_a_job_before_age() -> None:
    table, first, second = pair()
    cancel = table.ask(names.CANCEL, job_id="job_x")
    frame: dict[str, Any] = {"type": names.SESSION_ERROR, "job_id": "job_x"}
    code = {"code": "INVALID_REQUEST"}
    table.hear({**frame, "trace_id": second.trace_id, "payload": code})
    table.hear({**frame, "payload": code})
    table.error("INVALID_REQUEST")
    assert refused(table) == [second, cancel, first]


def test_an_error_that_names_a_request_which_is_over_is_nobodys() -> None:
    table = Strict()
    request = table.ask(names.SUBMIT)
    payload = {"code": "INVALID_REQUEST", "request_id": "some other"}
    table.hear({"type": names.SESSION_ERROR, "payload": payload})
    assert refused(table) == []
    assert request in table.session.requests


@pytest.mark.parametrize(
    "code", ["DUPLICATE_KEY", "AGENT_NOT_AVAILABLE", "AGENT_VERSION_NOT_AVAILABLE"]
)
def test_a_code_that_only_a_submit_can_meet_is_not_blamed_on_another_request(code: str) -> None:
    table = Strict()
    table.ask(names.LIST_JOBS)
    submit = table.ask(names.SUBMIT)
    table.error(code)
    assert refused(table) == [submit]


def test_an_unknown_job_is_not_blamed_on_a_listing_nor_anything_on_a_ping() -> None:
    table = live()
    table.ask(names.PING, nonce="n")
    table.ask(names.LIST_JOBS)
    cancel = table.ask(names.CANCEL, job_id=JOB)
    table.error(names.JOB_NOT_FOUND)
    assert refused(table) == [cancel]
    table.error(names.JOB_NOT_FOUND)
    assert refused(table) == [cancel]
    assert "JOB_NOT_FOUND" in table.of(actions.Report)[-1].message


@rule("accept-6")
def test_an_acceptance_is_told_by_the_trace_else_it_is_the_oldests() -> None:
    table, first, second = pair()
    accept(table, "job_2", trace_id=second.trace_id)
    accept(table, "job_1")
    assert answered(table) == [second, first]
    assert (first.job_id, second.job_id) == ("job_1", "job_2")


@rule("accept-6")
def test_subscriptions_and_cancels_are_told_by_their_job() -> None:
    table = Strict()
    first = table.ask(names.SUBSCRIBE, job_id="job_1")
    second = table.ask(names.SUBSCRIBE, job_id="job_2")
    for job_id in ("job_2", "job_1", "job_2"):
        table.hear({"type": names.SUBSCRIBED, "payload": {"job_id": job_id}})
    assert answered(table) == [second, first]
    assert "answers no request" in table.of(actions.Report)[-1].message


def test_pongs_are_told_by_their_nonce_and_where_it_is_missing_by_age() -> None:
    table = Strict()
    pings = [Request(kind=names.PING, payload={"nonce": n}, deadline=1e9, nonce=n) for n in "abc"]
    for ping in pings:
        table.session.request(ping, table.now)
    table.hear({"type": names.PONG, "payload": {"ping_nonce": "b"}})
    table.hear({"type": names.PONG, "payload": {"ping_nonce": "nobody's"}})
    table.hear({"type": names.PONG, "payload": {}})
    assert answered(table) == [pings[1], pings[0]]
    assert [effect.value for effect in table.of(actions.Replied)] == [table.now, table.now]


def test_answers_that_nobody_waits_for_change_nothing() -> None:
    table = live()
    before = len(table.order)
    table.hear({"type": names.JOBS, "payload": {}})
    table.hear({"type": names.CANCELLED, "payload": {"job_id": JOB}})
    table.hear({"type": names.PONG, "payload": {"ping_nonce": "x"}})
    assert table.order[before:] == []


def test_an_acceptance_that_names_no_job_is_reported() -> None:
    table = Strict()
    request = table.ask(names.SUBMIT)
    table.hear({"type": names.ACCEPTED, "payload": {"request_id": request.ids[0]}})
    assert "names no job" in table.of(actions.Report)[-1].message
    assert request in table.session.requests


@rule("accept-9")
def test_a_delegated_job_is_no_answer_to_a_submit() -> None:
    table = live()
    request = table.ask(names.SUBMIT)
    accept(table, "job_child", payload={"parent_job_id": JOB})
    assert answered(table)[1:] == []
    told = table.of(actions.JobKnown)[-1]
    assert (told.job.job_id, told.submitted) == ("job_child", False)
    assert request in table.session.requests


# ------------------------------------------------------------------ job.error that ends no job


@rule("accept-8")
def test_a_duplicate_key_names_the_job_that_has_it_and_that_goes_on() -> None:
    table = live()
    request = table.ask(names.SUBMIT)
    table.failure(1, JOB, names.DUPLICATE_KEY)
    assert refused(table) == [request]
    table.event(2, JOB, 2)
    table.result(3, JOB)
    assert table.numbers == [2, "result"]


@rule("accept-8")
def test_a_refused_cancel_ends_no_job() -> None:
    table = live()
    cancel = table.ask(names.CANCEL, job_id=JOB)
    payload = {"code": names.PERMISSION_DENIED}
    table.hear({"type": names.JOB_ERROR, "job_id": JOB, "payload": payload})
    assert refused(table) == [cancel]
    assert [job.job_id for job in table.session.jobs] == [JOB]


def test_a_failure_with_such_a_code_is_the_jobs_own_while_something_else_is_asked() -> None:
    table = live()
    cancel = table.ask(names.CANCEL, job_id=JOB)
    table.failure(1, JOB, names.PERMISSION_DENIED)
    assert table.numbers == ["error"]
    assert cancel in answered(table)  # a cancel is answered by the job's end
    assert refused(table) == []


@rule("accept-8")
def test_a_refused_submit_under_a_made_up_job_is_a_refusal() -> None:
    table = Strict()
    request = table.ask(names.SUBMIT)
    table.failure(1, "job_made_up", "LEASE_SUBSET_VIOLATION")
    assert refused(table) == [request]
    assert table.events == []


def test_where_no_refusal_is_correlated_any_code_refuses_a_submit() -> None:
    table = Strict(spoken="typescript")
    request = table.ask(names.SUBMIT)
    table.failure(1, "job_made_up", "INTERNAL_ERROR")
    assert refused(table) == [request]


def test_the_end_of_a_job_that_is_being_subscribed_to_is_its_end() -> None:
    table = Strict(spoken="typescript")
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.failure(1, JOB, "INTERNAL_ERROR")
    assert table.numbers == ["error"]


def test_a_failure_of_an_unknown_job_is_delivered_when_nothing_was_submitted() -> None:
    table = Strict()
    table.failure(1, "job_other", "AGENT_NOT_AVAILABLE")
    assert table.numbers == ["error"]


# ------------------------------------------------------------------ S7: every request ends


@rule("accept-27")
def test_s7_a_request_that_is_not_answered_ends_at_its_deadline() -> None:
    table = Strict()
    request = table.ask(names.LIST_JOBS)
    table.wait(31)
    (effect,) = table.of(actions.Refused)
    assert effect.request is request
    assert isinstance(effect.error, RequestTimeout)
    assert len(table.session.requests) == 0


def test_s7_so_does_one_that_was_never_sent_and_it_says_so() -> None:
    table = Strict(connect=False)
    table.ask(names.SUBMIT)
    table.wait(31)
    assert "never sent" in str(table.of(actions.Refused)[0].error)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [(names.LIST_JOBS, {}), (names.SUBSCRIBE, {"job_id": JOB}), (names.PING, {})],
)
@rule("send-11")
def test_s7_what_the_runtime_does_not_offer_is_refused_at_once(
    kind: str, payload: dict[str, str]
) -> None:
    table = Strict(features=())
    table.ask(kind, **payload)
    assert isinstance(table.of(actions.Refused)[0].error, FeatureNotNegotiated)
    assert table.sent == []


def test_s7_a_request_that_does_not_fit_the_link_ends() -> None:
    table = Strict()
    request = table.ask(names.SUBMIT)
    table.session.refuse(request, LocalProtocolError("too large"), table.now)
    table.session.refuse(request, LocalProtocolError("too large"), table.now)
    table.do()
    assert refused(table) == [request]


def test_s7_every_request_ends_just_before_the_session() -> None:
    table = live()
    requests = [table.ask(names.LIST_JOBS), table.ask(names.SUBMIT)]
    cause = LinkLost("no more")
    table.session.end(cause)
    table.do()
    assert refused(table) == requests
    errors = [effect.error for effect in table.of(actions.Refused)]
    assert [(type(error), str(error)) for error in errors] == [(LinkLost, "no more")] * 2
    assert errors[0] is not errors[1]
    assert isinstance(table.order[-1], actions.Ended)


def test_s7_without_a_cause_they_end_with_the_client() -> None:
    table = live()
    table.ask(names.LIST_JOBS)
    table.session.end(None)
    table.do()
    assert isinstance(table.of(actions.Refused)[0].error, ClientClosed)


def test_s7_nothing_can_be_asked_of_a_session_that_is_over() -> None:
    table = Strict()
    table.session.end(None)
    request = Request(kind=names.PING, payload={}, deadline=1e9)
    with pytest.raises(LocalProtocolError, match="the session is ended"):
        table.session.request(request, table.now)
    table.session.request_outcome(JOB, table.now)
    assert len(table.session.requests) == 0


@rule("accept-16")
def test_a_cancel_is_answered_by_the_jobs_end() -> None:
    table = live()
    cancel = table.ask(names.CANCEL, job_id=JOB)
    other = table.ask(names.CANCEL, job_id="job_b")
    table.result(1, JOB)
    assert cancel in answered(table)
    assert other in table.session.requests


# ------------------------------------------------------------------ one at a time, and withdrawn


def one_by_one() -> Strict:
    """A runtime whose refusals name no request."""
    return Strict(spoken="typescript")


@rule("send-11")
def test_one_at_a_time_the_next_goes_out_when_the_first_has_ended() -> None:
    table = one_by_one()
    first, second = table.ask(names.LIST_JOBS), table.ask(names.LIST_JOBS)
    assert len(table.sent) == 1
    table.error("INVALID_REQUEST")
    assert refused(table) == [first]
    assert len(table.sent) == 2
    table.hear({"type": names.JOBS, "payload": {"request_id": second.ids[0]}})
    assert answered(table) == [second]


def test_one_at_a_time_pings_do_not_wait() -> None:
    table = one_by_one()
    table.ask(names.LIST_JOBS)
    table.ask(names.PING, nonce="n")
    assert [frame["type"] for frame in table.sent] == [names.LIST_JOBS, names.PING]


@rule("accept-27")
def test_one_at_a_time_a_request_out_of_time_makes_place() -> None:
    """Several runtimes answer nothing at all for a request that they do not like."""
    table = one_by_one()
    table.ask(names.LIST_JOBS)
    table.now += 10
    table.ask(names.LIST_JOBS)
    table.sent.clear()
    table.wait(21)
    assert names.LIST_JOBS in [frame["type"] for frame in table.sent]


def test_one_at_a_time_what_cannot_be_sent_makes_place_too() -> None:
    table = Strict(spoken="typescript", features=(names.LISTING,), connect=False)
    table.ask(names.SUBSCRIBE, job_id=JOB)
    table.ask(names.LIST_JOBS)
    table.connect()
    assert [frame["type"] for frame in table.sent] == [names.LIST_JOBS]


def test_a_withdrawn_request_is_still_to_be_answered_and_nobody_else_gets_its_answer() -> None:
    table = one_by_one()
    first, second = table.ask(names.LIST_JOBS), table.ask(names.LIST_JOBS)
    table.session.withdraw(first)
    assert not first.waits
    assert [request.orphaned for request in table.session.requests] == [True, False]
    table.error("INVALID_REQUEST")
    assert refused(table) == []
    table.hear({"type": names.JOBS, "payload": {}})
    assert answered(table) == [second]


def test_a_withdrawn_request_nobody_waits_for() -> None:
    table = Strict()
    request = table.ask(names.LIST_JOBS)
    table.session.withdraw(request)
    assert all(request.orphaned for request in table.session.requests)
    table.hear({"type": names.JOBS, "payload": {"request_id": request.ids[0]}})
    table.session.withdraw(request)
    assert table.of(actions.Replied) == []
    assert len(table.session.requests) == 0


def test_a_withdrawn_request_is_not_sent_again_nor_does_it_time_out() -> None:
    table = Strict()
    request = table.ask(names.SUBMIT)
    table.session.withdraw(request)
    table.cut()
    table.connect()
    assert table.sent == []
    request = table.ask(names.SUBMIT)
    table.session.withdraw(request)
    table.wait(31)
    assert table.of(actions.Refused) == []


def test_a_request_that_was_never_sent_is_withdrawn_at_once() -> None:
    table = Strict(connect=False)
    request = table.ask(names.SUBMIT)
    table.session.withdraw(request)
    assert len(table.session.requests) == 0


def test_the_job_of_a_withdrawn_submit_is_known_all_the_same() -> None:
    table = Strict()
    request = table.ask(names.SUBMIT)
    table.session.withdraw(request)
    accept(table, JOB)
    assert [told.submitted for told in table.of(actions.JobKnown)] == [True]
    table.event(1, JOB, 1)
    assert table.numbers == [1]


def test_a_withdrawn_subscription_is_no_news() -> None:
    table = Strict()
    request = table.ask(names.SUBSCRIBE, job_id=JOB)
    table.session.withdraw(request)
    table.hear({"type": names.SUBSCRIBED, "payload": {"job_id": JOB}})
    assert table.of(actions.JobKnown) == []
    table.session.end(None)
    table.do()
    assert [type(effect) for effect in table.done[-1:]] == [actions.Ended]


def test_withdrawn_requests_are_not_told_of_the_end() -> None:
    table = Strict()
    table.session.withdraw(table.ask(names.SUBMIT))
    table.session.end(None)
    table.do()
    assert table.of(actions.Refused) == []


def test_requests_are_kept_in_the_order_in_which_they_were_made() -> None:
    requests = PendingRequests()
    made = [Request(kind=names.LIST_JOBS, payload={}, deadline=float(n)) for n in (3, 1, 2)]
    for request in made:
        requests.add(request)
    assert list(requests) == made
    assert requests.deadline == 1.0
    assert [request.name for request in requests] == [names.LIST_JOBS] * 3
