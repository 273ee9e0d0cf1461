"""Every error of the package has its exit code, and says what to do where something can be done."""

from __future__ import annotations

import inspect
import ssl

import pytest

from arcp_client import errors, events
from arcp_client.cli.errors import command_error, loses_events
from arcp_client.cli.exit_codes import Exit

CODES = {
    errors.JobFailed("no", code="INTERNAL_ERROR"): Exit.FAILED,
    errors.JobCancelled("no", code="CANCELLED"): Exit.FAILED,
    errors.InvalidRequest("no"): Exit.USAGE,
    errors.DuplicateKey("no"): Exit.USAGE,
    errors.ConnectFailed("no"): Exit.CONNECTION,
    errors.LinkLost("no"): Exit.CONNECTION,
    errors.HeartbeatLost("no"): Exit.CONNECTION,
    errors.SessionClosed("no"): Exit.CONNECTION,
    errors.RemoteProtocolError("no"): Exit.CONNECTION,
    errors.Unauthenticated("no"): Exit.AUTHENTICATION,
    errors.PermissionDenied("no"): Exit.AUTHENTICATION,
    errors.AgentNotFound("no"): Exit.NOT_FOUND,
    errors.AgentVersionNotFound("no"): Exit.NOT_FOUND,
    errors.JobNotFound("no"): Exit.NOT_FOUND,
    errors.LeaseExpired("no", code="LEASE_EXPIRED"): Exit.LEASE,
    errors.BudgetExhausted("no", code="BUDGET_EXHAUSTED"): Exit.LEASE,
    errors.LeaseSubsetViolation("no"): Exit.LEASE,
    errors.JobFailed("no", code="PERMISSION_DENIED"): Exit.LEASE,
    errors.JobFailed("no", code="LEASE_SUBSET_VIOLATION"): Exit.LEASE,
    errors.JobLost("no"): Exit.GAP,
    errors.ResultIncomplete("no"): Exit.GAP,
    errors.ResultUnavailable("no"): Exit.GAP,
    errors.ResumeExpired("no"): Exit.GAP,
    errors.JobTimedOut("no", code="TIMEOUT"): Exit.TIMED_OUT,
    errors.RequestTimeout("no"): Exit.TIMED_OUT,
}


@pytest.mark.parametrize(("error", "code"), CODES.items(), ids=lambda v: type(v).__name__)
def test_the_exit_code_of_an_error(error: errors.ArcpError, code: Exit) -> None:
    assert command_error(error).code is code


def test_an_exhausted_budget_names_the_option_that_grants_a_larger_one() -> None:
    told = command_error(errors.BudgetExhausted("no", code="BUDGET_EXHAUSTED"))
    assert "--lease cost.budget=USD:" in told.remedy
    assert "repeat your other --lease options" in told.remedy


def test_an_expired_lease_is_not_extended_by_an_option_that_is_not_there() -> None:
    told = command_error(errors.LeaseExpired("no", code="LEASE_EXPIRED"))
    assert "expires_at" in told.remedy
    assert "--lease" not in told.remedy


DETAILS = {"by": "ann", "client": "phone/1", "at": "noon", "value": {"go": [1.5, "\u00fc"]}}


@pytest.mark.parametrize(
    ("details", "told"),
    [
        (DETAILS, 'ann answered at noon, with phone/1: {"go":[1.5,"\u00fc"]}'),
        ({"value": None}, "ann answered at noon: null"),
        ({"value": "x" * 500}, f'ann answered at noon: "{"x" * 199}'),
        (None, "ann answered at noon"),
        ("odd", "ann answered at noon"),
    ],
)
def test_a_late_answer_is_told_who_answered_and_what(details: object, told: str) -> None:
    late = errors.QuestionAnswered("ann answered at noon", details=details)
    assert command_error(late).happened == told


def test_a_certificate_that_does_not_verify_is_no_question_of_the_address() -> None:
    refused = errors.ConnectFailed("the certificate does not verify", permanent=True)
    assert "ARCP_URL" in command_error(refused).remedy
    refused.__cause__ = ssl.SSLCertVerificationError(1, "self-signed certificate")
    assert command_error(refused).remedy == ""


def test_no_error_is_a_success() -> None:
    for name in errors.__all__:
        cls = getattr(errors, name)
        if inspect.isclass(cls):
            told = command_error(cls("what happened"))
            assert told.code is not Exit.SUCCESS
            assert "what happened" in told.happened, name


def test_codes_are_those_of_the_manual() -> None:
    assert [int(code) for code in Exit] == [0, 1, 2, 3, 4, 5, 6, 7, 124, 130]


@pytest.mark.parametrize(
    ("reason", "hole"),
    [("lost", True), ("unknown_end", True), ("not_retained", False), ("undecodable", False)],
)
def test_which_gaps_are_holes(reason: str, hole: bool) -> None:
    assert loses_events(events.Gap(reason=reason)) is hole  # type: ignore[arg-type]
