"""Decides who may see and answer a question, and carries refusals between replicas."""

from __future__ import annotations

from typing import Any

from arcp_client._wire.codec import parse, snapshot
from arcp_client.errors import (
    InvalidAnswer,
    PermissionDenied,
    QuestionNotFound,
    RequestError,
    request_error,
)
from arcp_client.runtime._dialogue.question import AskedQuestion
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._log.entries import QuestionState

__all__ = ["check_rights", "checked_size", "read_refusal", "refusal_text", "sees"]


def sees(jobs: JobRegistry, principal: str, state: QuestionState, agent: str | None) -> bool:
    """Whether a principal may see a question: if it may observe the last job that asked it.

    Args:
        jobs: the registry, which knows the policy.
        principal: the principal.
        state: the question.
        agent: the agent of that job; ``None`` if the job is no longer known.
    """
    if agent is None:
        return principal == state.principal
    return jobs.allows(principal, state.principal, state.job_ids[-1], agent)


def check_rights(question: AskedQuestion, principal: str, job_id: str) -> None:
    """Refuse an answer under a job that has not asked, or of a principal that may not answer.

    Raises:
        QuestionNotFound: the job has not asked the question.
        PermissionDenied: the question is for other principals.
    """
    if job_id not in question.stored.job_ids:
        raise QuestionNotFound(f"job {job_id[:80]} has not asked the question {question.id}")
    if not question.may_be_answered_by(principal):
        raise PermissionDenied("this question is for other principals")


def checked_size(value: Any, most: int) -> bytes:
    """Return an answer as JSON.

    Raises:
        InvalidAnswer: it is too large.
    """
    encoded = bytes(snapshot(value))
    if len(encoded) > most:
        raise InvalidAnswer(
            f"$: {len(encoded)} bytes are over the limit of {most} bytes", details={"path": "$"}
        )
    return encoded


def refusal_text(error: RequestError) -> str:
    """Encode a refusal for another replica."""
    refusal = [error.code, str(error), error.retryable, error.details]
    return bytes(snapshot(refusal)).decode()


def read_refusal(text: str) -> RequestError:
    """Decode a refusal of another replica."""
    code, message, retryable, details = parse(text.encode())
    return request_error(code, message, retryable=retryable, details=details)
