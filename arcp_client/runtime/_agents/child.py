"""The handle of a delegated job, for the agent that delegated it (§10)."""

from __future__ import annotations

import base64
import json
from typing import Any

from arcp_client._wire import names
from arcp_client._wire.messages import parse_agent
from arcp_client.errors import InvalidRequest, JobFailed, ResultUnavailable, job_error
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import Failure

__all__ = ["Child", "delegated_to"]


class Child:
    """A delegated job, as the delegating agent sees it.

    The client that submitted the delegating job also receives the child's acceptance and events.
    """

    def __init__(self, job: ServerJob) -> None:
        self._job = job

    def __repr__(self) -> str:
        return f"<Child {self._job.id} {self._job.agent} {self._job.status}>"

    @property
    def id(self) -> str:
        """The child's job id."""
        return self._job.id

    @property
    def agent(self) -> str:
        """The resolved agent."""
        return self._job.agent

    @property
    def status(self) -> str:
        """``pending``, ``running`` or the final status."""
        return self._job.status

    async def result(self) -> Any:
        """Wait for the child's end and return its value: for a stream ``str`` or ``bytes``.

        Raises:
            JobFailed: the child failed. If the agent does not catch it, the delegating job ends
                with the child's code.
            ResultUnavailable: the child's streamed result is no longer held.
        """
        job = self._job
        await job.done.wait()
        outcome = job.outcome
        assert outcome is not None
        if isinstance(outcome, Failure):
            raise _failed(job, outcome)
        if outcome.result_id is None:
            return json.loads(bytes(outcome.value))
        return _streamed(job)


def delegated_to(reference: str) -> str:
    """Return the agent name that a delegation must be authorized for.

    Raises:
        InvalidRequest: the text is not an agent reference.
    """
    try:
        return parse_agent(reference)[0]
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def _failed(job: ServerJob, outcome: Failure) -> JobFailed:
    return job_error(
        outcome.code,
        outcome.message,
        status=outcome.status,
        retryable=outcome.retryable,
        details=outcome.details,
        job_id=job.id,
    )


def _streamed(job: ServerJob) -> str | bytes:
    if job.history.floor:
        raise ResultUnavailable("the child's result is no longer held", job_id=job.id)
    pieces: list[str | bytes] = []
    for _, record in job.history:
        if record.needs != names.RESULT_CHUNKS:
            continue
        body = json.loads(record.payload)["body"]
        binary = body["encoding"] == "base64"
        pieces.append(base64.b64decode(body["data"]) if binary else body["data"])
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if len(texts) == len(pieces):
        return "".join(texts)
    return b"".join(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
