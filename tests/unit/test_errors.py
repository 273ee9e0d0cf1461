"""The exception tree: as drawn, catchable in the ways that Python programmers expect, picklable."""

from __future__ import annotations

import asyncio
import builtins
import copy
import pickle
import re
import traceback
from typing import Any

import pytest

from arcp_client import errors
from arcp_client._wire import names
from arcp_client.acp.errors import AgentRefused
from arcp_client.errors import (
    ArcpError,
    ConnectFailed,
    HandlerError,
    HandlerFailed,
    HeartbeatLost,
    JobCancelled,
    JobError,
    JobFailed,
    JobTimedOut,
    LinkLost,
    RemoteProtocolError,
    RequestError,
    ResultIncomplete,
    UnknownCode,
    job_error,
    request_error,
)
from arcp_client.events import Log

CLASSES: list[type[ArcpError]] = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, ArcpError)
]

CODES = [
    "PERMISSION_DENIED",
    "LEASE_SUBSET_VIOLATION",
    "JOB_NOT_FOUND",
    "DUPLICATE_KEY",
    "AGENT_NOT_AVAILABLE",
    "AGENT_VERSION_NOT_AVAILABLE",
    "CANCELLED",
    "TIMEOUT",
    "RESUME_WINDOW_EXPIRED",
    "HEARTBEAT_LOST",
    "LEASE_EXPIRED",
    "BUDGET_EXHAUSTED",
    "INVALID_REQUEST",
    "UNAUTHENTICATED",
    "INTERNAL_ERROR",
]
"""The codes of §12."""


# ------------------------------------------------------------------------- the drawn tree


def drawn() -> dict[str, tuple[str, set[str]]]:
    """Class name to its parent and the builtins it also is, from the module's docstring."""
    lines = (errors.__doc__ or "").splitlines()
    start = next(n for n, line in enumerate(lines) if line.strip() == "ArcpError")
    path = ["ArcpError"]
    tree: dict[str, tuple[str, set[str]]] = {}
    for line in lines[start + 1 :]:
        if not line.strip():
            break
        branch = re.match(r"    ((?:│   |    )*)[├└]── (.+)", line)
        assert branch, line
        depth = len(branch[1]) // 4 + 1
        names = re.split(r"\s{2,}", branch[2])[0].split(" · ")
        also = set(re.findall(r"\(also an? (\w+)\)", line))
        del path[depth:]
        for name in names:
            tree[name] = (path[-1], also)
        path.append(names[-1])
    return tree


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    actual = {
        cls.__name__: (
            next(base for base in cls.__bases__ if issubclass(base, ArcpError)).__name__,
            {base.__name__ for base in cls.__bases__ if not issubclass(base, ArcpError)},
        )
        for cls in CLASSES
        if cls is not ArcpError
    }

    assert drawn() == actual


def test_every_class_is_exported_and_documented() -> None:
    assert {cls.__name__ for cls in CLASSES} == set(errors.__all__)
    assert all(cls.__doc__ for cls in CLASSES)
    assert errors.__all__ == sorted(errors.__all__)


def test_no_class_is_named_like_a_builtin() -> None:
    assert not {cls.__name__ for cls in CLASSES} & set(dir(builtins))
    assert not {cls.__name__ for cls in CLASSES} & set(dir(asyncio))


def test_lost_links_are_connection_errors_and_missed_deadlines_timeouts() -> None:
    assert issubclass(LinkLost, ConnectionError)
    assert {cls.__name__ for cls in CLASSES if issubclass(cls, TimeoutError)} == {
        "HeartbeatLost",
        "HandshakeTimeout",
        "RequestTimeout",
    }
    assert {cls for cls in CLASSES if issubclass(cls, OSError)} == {
        cls for cls in CLASSES if issubclass(cls, ConnectionError | TimeoutError)
    }


def test_a_cancelled_job_does_not_cancel_the_task_that_waits_for_it() -> None:
    assert not any(issubclass(cls, asyncio.CancelledError) for cls in CLASSES)
    assert all(issubclass(cls, Exception) for cls in CLASSES)


# ------------------------------------------------------------------------------- values

SAMPLES: list[ArcpError] = [
    LinkLost("m", close_code=1006, exit_code=-9, stderr="tail"),
    HeartbeatLost("m"),
    errors.HandshakeTimeout("m"),
    ConnectFailed("m", permanent=True, attempts=3),
    errors.LocalProtocolError("m"),
    RemoteProtocolError("m", size=12, head="{"),
    errors.Unauthenticated("m"),
    errors.ResumeExpired("m"),
    errors.SessionClosed("m"),
    errors.ClientClosed("m"),
    errors.StoreLocked("m"),
    errors.BufferFull("m"),
    errors.TooManyStreams("m"),
    errors.WouldDeadlock("m"),
    errors.PermissionDenied("m", retryable=True, details={"a": [1]}),
    errors.AgentNotFound("m"),
    errors.AgentVersionNotFound("m"),
    errors.DuplicateKey("m"),
    errors.JobNotFound("m"),
    errors.InvalidRequest("m"),
    errors.InvalidInput("input.a: m", details={"input_fields": {"a": "m"}}),
    errors.LeaseSubsetViolation("m"),
    errors.JobEnded("m"),
    errors.QuestionNotFound("m"),
    errors.QuestionAnswered("m", details={"by": "alice", "at": "then", "value": [1]}),
    errors.QuestionClosed("m", details={"state": "expired"}),
    errors.InvalidAnswer("m"),
    errors.RequestTimeout("m"),
    errors.FeatureNotNegotiated("m"),
    UnknownCode("m", code="x.new", details="text"),
    JobFailed("m", code="X", retryable=True, details=[1], job_id="j"),
    JobCancelled("m", code="CANCELLED", job_id="j"),
    JobTimedOut("m", code="TIMEOUT"),
    errors.LeaseExpired("m", code="LEASE_EXPIRED"),
    errors.BudgetExhausted("m", code="BUDGET_EXHAUSTED"),
    errors.QuestionExpired("m", code="QUESTION_EXPIRED"),
    errors.JobLost("m", job_id="j"),
    ResultIncomplete("m", missing=(1, 2), partial="text", job_id="j"),
    errors.ResultUnavailable("m", job_id="j"),
    HandlerError("m", event=Log(message="m"), handler="module.function"),
    errors.StorageError("m", path="/p", permanent=True),
    errors.TranscriptError("m", line=3),
    HandlerFailed("m"),
]
every_error = pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)


def test_the_samples_cover_every_class_that_is_raised() -> None:
    abstract = {
        "ArcpError",
        "LinkError",
        "ProtocolError",
        "SessionError",
        "RequestError",
        "JobError",
    }
    sampled = {type(error).__name__ for error in SAMPLES}

    assert sampled | abstract == {cls.__name__ for cls in CLASSES}


def same(one: BaseException, other: BaseException) -> bool:
    return (type(one), one.args, str(one), vars(one)) == (
        type(other),
        other.args,
        str(other),
        vars(other),
    )


@every_error
def test_an_error_survives_pickle_and_copy_with_its_attributes(error: ArcpError) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert same(pickle.loads(pickle.dumps(error, protocol)), error)
    assert same(copy.copy(error), error)
    assert same(copy.deepcopy(error), error)
    assert copy.deepcopy(error) is not error


@every_error
def test_an_error_says_what_happened_in_one_line(error: ArcpError) -> None:
    assert str(error).endswith("m")
    assert "\n" not in str(error)
    assert repr(error).startswith(type(error).__name__)


def test_notes_travel_with_an_error() -> None:
    error = LinkLost("m")
    error.add_note("while draining")

    notes = pickle.loads(pickle.dumps(error)).__notes__
    assert notes[-1] == "while draining"
    assert len(notes) == 2


@every_error
def test_a_traceback_ends_with_what_to_do_and_where_to_read_more(error: ArcpError) -> None:
    text = "".join(traceback.format_exception_only(error))
    assert error.remedy in text
    assert text.rstrip().endswith(f"/reference/errors/index.html#{type(error).__name__.lower()}")


def test_every_class_says_what_to_do() -> None:
    remedies = [vars(cls)["remedy"] for cls in CLASSES]
    assert all(text.endswith(".") for text in remedies)
    assert not any("``" in text for text in remedies), "it is read as it stands"
    # What is the same for several classes does not help with one.
    assert len({*remedies}) == len(remedies)


def test_a_class_of_a_users_own_is_explained_by_its_base() -> None:
    class Own(errors.JobLost):
        """Of a program that uses this package."""

    assert Own("m").help_url.endswith("#joblost")


def test_the_attributes_have_defaults() -> None:
    def own(error: ArcpError) -> dict[str, Any]:
        return {name: value for name, value in vars(error).items() if name != "__notes__"}

    assert own(LinkLost("m")) == {"close_code": None, "exit_code": None, "stderr": ""}
    assert own(ConnectFailed("m")) == {"permanent": False, "attempts": 1}
    assert own(RemoteProtocolError("m")) == {"size": 0, "head": ""}
    assert own(HandlerError("m")) == {"event": None, "handler": ""}
    assert own(ResultIncomplete("m")) == {"missing": (), "partial": b"", "job_id": None}
    assert JobError().job_id is None
    assert (JobFailed().code, JobFailed().message) == ("INTERNAL_ERROR", "")


def test_the_text_names_the_code() -> None:
    assert str(errors.DuplicateKey("used")) == "DUPLICATE_KEY: used"
    assert str(errors.DuplicateKey()) == "DUPLICATE_KEY"
    assert str(errors.RequestTimeout("late")) == "REQUEST_TIMEOUT: late"
    assert str(JobFailed("boom", code="X")) == "X: boom"
    assert str(JobFailed(code="X")) == "X"


def test_an_error_of_the_system_is_caught_as_one() -> None:
    with pytest.raises(ConnectionError):
        raise LinkLost("m", close_code=1006)
    with pytest.raises(TimeoutError):
        raise errors.RequestTimeout("m", details={"request": "job.submit"})
    assert LinkLost("m").errno is None


# ----------------------------------------------------------------------- codes to classes

REQUEST_CLASSES = {
    "PERMISSION_DENIED": errors.PermissionDenied,
    "LEASE_SUBSET_VIOLATION": errors.LeaseSubsetViolation,
    "JOB_NOT_FOUND": errors.JobNotFound,
    "DUPLICATE_KEY": errors.DuplicateKey,
    "AGENT_NOT_AVAILABLE": errors.AgentNotFound,
    "AGENT_VERSION_NOT_AVAILABLE": errors.AgentVersionNotFound,
    "INVALID_REQUEST": errors.InvalidRequest,
}
JOB_CLASSES = {
    "CANCELLED": JobCancelled,
    "TIMEOUT": JobTimedOut,
    "LEASE_EXPIRED": errors.LeaseExpired,
    "BUDGET_EXHAUSTED": errors.BudgetExhausted,
}


@pytest.mark.parametrize("code", [*CODES, "x.new", "NOT_FOUND", "permission_denied"])
def test_a_refused_request_becomes_the_class_of_its_code(code: str) -> None:
    error = request_error(code, "m", retryable=True, details={"a": 1})

    assert type(error) is REQUEST_CLASSES.get(code, UnknownCode)
    assert (error.code, error.message, error.retryable, error.details) == (
        code,
        "m",
        True,
        {"a": 1},
    )


@pytest.mark.parametrize("code", [*CODES, "x.new", ""])
def test_a_failed_job_becomes_the_class_of_its_code(code: str) -> None:
    error = job_error(code, "m", retryable=True, details=[1], job_id="j")

    assert type(error) is JOB_CLASSES.get(code, JobFailed)
    assert (error.code, error.message, error.retryable) == (code, "m", True)
    assert (error.details, error.job_id) == ([1], "j")


@pytest.mark.parametrize(
    ("code", "status", "cls"),
    [
        ("X", "cancelled", JobCancelled),
        ("X", "timed_out", JobTimedOut),
        ("X", "error", JobFailed),
        ("X", "odd", JobFailed),
        ("LEASE_EXPIRED", "cancelled", errors.LeaseExpired),
        ("CANCELLED", "error", JobCancelled),
    ],
)
def test_the_final_status_decides_where_the_code_does_not(
    code: str, status: str, cls: type[JobFailed]
) -> None:
    error = job_error(code, status=status)

    assert type(error) is cls
    assert error.code == code


def test_the_codes_of_the_specification_are_spelled_the_same_everywhere() -> None:
    spelled = {getattr(names, name) for name in CODES if name != "CANCELLED"}

    assert spelled | {names.CODE_CANCELLED} == set(CODES)
    assert {names.INTERNAL_ERROR, names.HEARTBEAT_LOST} == names.RETRYABLE_BY_DEFAULT


@pytest.mark.parametrize(
    "cls",
    [
        AgentRefused,
        *(cls for cls in RequestError.__subclasses__() if cls.__module__ == errors.__name__),
    ],
)
def test_every_request_error_has_a_code_of_its_own(cls: type[RequestError]) -> None:
    assert cls("m").code == cls.default_code
    assert cls.default_code
