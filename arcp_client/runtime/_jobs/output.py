"""Sends the result of a job: as one value, or as a stream of chunks (§8.4).

The job holds the state of the stream; `JobOutput` advances it.
"""

from __future__ import annotations

import base64
import logging
from typing import Any

from arcp_client._wire import names
from arcp_client._wire.codec import snapshot
from arcp_client._wire.ids import new_prefixed_id
from arcp_client.errors import (
    FeatureNotNegotiated,
    JobFailed,
    LeaseSubsetViolation,
    LocalProtocolError,
    PermissionDenied,
)
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import Failure, Streamed, Success
from arcp_client.runtime.limits import Limits

__all__ = ["JobOutput"]

_log = logging.getLogger("arcp_client.runtime")


class JobOutput:
    """Emits the result of one job, in pieces or as one value.

    Args:
        job: the job.
        limits: bounds the size of the result.
    """

    def __init__(self, job: ServerJob, limits: Limits) -> None:
        self._job = job
        self._limits = limits

    def chunk(self, data: str | bytes, more: bool) -> None:
        """Emit a piece of the result.

        Raises:
            JobFailed: the piece or the whole result exceeds its limit.
            LocalProtocolError: the stream was closed with ``more=False``.
        """
        stream = self._stream()
        if stream.done:
            raise LocalProtocolError("a chunk after the one with more=False")
        size = len(data.encode("utf-8", "surrogatepass")) if isinstance(data, str) else len(data)
        if size > self._limits.chunk_bytes:
            self._too_large(f"a chunk of {size} bytes", self._limits.chunk_bytes)
        limit = self._limits.result_bytes
        if stream.kept is not None:  # sent in one piece at the end
            limit = min(limit, self._limits.event_bytes)
        if stream.size + size > limit:
            self._too_large("the streamed result", limit)
        if stream.kept is not None:
            stream.kept.append(data)
        else:
            text = isinstance(data, str)
            body = {
                "result_id": stream.result_id,
                "chunk_seq": stream.count,
                "data": data if isinstance(data, str) else base64.b64encode(data).decode("ascii"),
                "encoding": "utf8" if text else "base64",
                "more": more,
            }
            self._job.emit("result_chunk", body)
        stream.count += 1
        # Joined like in a client: surrogate halves in two pieces become one character.
        if isinstance(data, str):
            stream.size += len(stream.text.add(data))
        else:
            stream.size += len(stream.text.end()) + len(data)
        stream.done = not more
        if stream.done:
            stream.size += len(stream.text.end())

    def _too_large(self, what: str, limit: int) -> None:
        message = f"{what} is over the limit of {limit} bytes"
        self._job.violated = Failure(names.ERROR, names.INTERNAL_ERROR, message, retryable=True)
        raise JobFailed(message, code=names.INTERNAL_ERROR, retryable=True, job_id=self._job.id)

    def _stream(self) -> Streamed:
        job = self._job
        if job.streamed is None:
            owner = job.owner
            plain = owner is not None and names.RESULT_CHUNKS not in owner.features
            plain |= job.request is not None and job.request.plain
            job.streamed = Streamed(new_prefixed_id("res"), kept=[] if plain else None)
        return job.streamed

    def finish(self) -> None:
        """Close the stream after the agent's iterator has ended."""
        if not self._stream().done:
            self.chunk("", more=False)

    def success(self, value: Any) -> Success:
        """Make the outcome of an agent that returned ``value``.

        Raises:
            JobFailed: the value cannot be sent.
        """
        stream = self._job.streamed
        if stream is None:
            return Success(self._inline(value))
        if value is not None:
            raise self._unsendable("the agent returned a value after it had streamed its result")
        self.finish()
        if stream.kept is None:
            return Success(result_id=stream.result_id, size=stream.size)
        return Success(self._inline(_joined(stream.kept)))

    def _inline(self, value: Any) -> Any:
        try:
            encoded = snapshot(value)
        except ValueError as error:
            raise self._unsendable(f"the agent's result is {error}") from error
        if len(bytes(encoded)) > self._limits.event_bytes:
            raise self._unsendable("the result is too large to be sent in one piece; stream it")
        return encoded

    def failure(
        self, error: JobFailed | PermissionDenied | LeaseSubsetViolation | FeatureNotNegotiated
    ) -> Failure:
        """Make the outcome of an agent that raised an error for its client.

        Details that JSON cannot represent are replaced by a description of the problem, so that the
        job ends in any case.
        """
        details = error.details
        if details is not None:
            try:
                details = snapshot(details)
            except ValueError as fault:
                _log.error(
                    "the details of the error of job %s: %s",
                    self._job.id,
                    fault,
                    extra=self._job.log_fields,
                )
                details = {"left_out": f"the details are {fault}"}
        return Failure(
            names.ERROR, str(error.code), str(error.message), bool(error.retryable), details
        )

    def _unsendable(self, message: str) -> JobFailed:
        return JobFailed(message, code=names.INTERNAL_ERROR, retryable=True, job_id=self._job.id)


def _joined(pieces: list[str | bytes]) -> str:
    """Join a streamed result for a client without ``result_chunk``: text, or base64 if binary."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(piece for piece in pieces if isinstance(piece, str))
    whole = b"".join(
        piece.encode("utf-8", "replace") if isinstance(piece, str) else piece for piece in pieces
    )
    return base64.b64encode(whole).decode("ascii")
