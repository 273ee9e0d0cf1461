"""Describes errors in JSON responses: a code for programs, a message and a remedy for users."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

from arcp_client import ArcpError, errors
from arcp_client._feeds import frames
from arcp_client._feeds.registry import FeedUnavailable, TooManyFeeds

__all__ = ["LAST", "Problem", "answer", "problem"]

LAST: Mapping[str, str] = {hdrs.CONNECTION: "close"}
"""Headers of the response to a request whose body is not read to its end."""


class Problem(Exception):
    """A request was refused or has failed.

    Args:
        status: the HTTP status.
        code: the code for programs, in upper case.
        message: the error.
        remedy: what the user can do about it.
        headers: further headers of the response.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        remedy: str = "",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.remedy = remedy
        self.headers = dict(headers or {})


# The first match counts, so subclasses come before their bases.
_KNOWN: tuple[tuple[type[ArcpError], int, str], ...] = (
    (errors.JobNotFound, 404, "the job list has all jobs that may be seen"),
    (errors.AgentNotFound, 404, "choose an agent from the list"),
    (errors.AgentVersionNotFound, 404, "choose a version from the list"),
    (errors.PermissionDenied, 403, "only the session that submitted a job may do this"),
    (errors.DuplicateKey, 409, "submit it again with a new key"),
    (errors.QuestionNotFound, 404, "the inbox has all questions that are open"),
    (errors.QuestionAnswered, 409, ""),
    (errors.QuestionClosed, 409, ""),
    (errors.InvalidAnswer, 400, "answer with a value that fits; the question is still open"),
    (errors.InvalidRequest, 400, "check the input that the agent takes"),
    (errors.LeaseSubsetViolation, 403, "request a narrower lease"),
    (errors.QuestionNotFound, 404, "closed questions are kept for a limited time"),
    (errors.RequestTimeout, 504, "the runtime is slow or unreachable; try again"),
    (errors.FeatureNotNegotiated, 501, "this runtime does not support it"),
    (errors.RequestError, 502, ""),
    (errors.JobCancelled, 409, "the job was cancelled and has no result"),
    (errors.JobFailed, 409, "the job failed and has no result"),
    (errors.JobError, 410, "submit the job again"),
    (errors.Unauthenticated, 502, "start the dashboard with a token that the runtime accepts"),
    (errors.LinkError, 503, "the runtime is unreachable; try again later"),
    (errors.SessionError, 503, "the session with the runtime has ended; restart the dashboard"),
    (errors.LocalProtocolError, 503, "the client is not connected yet; try again later"),
    (ArcpError, 502, ""),
)
_NAMES: Mapping[type[ArcpError], str] = {
    errors.LinkError: "LINK_LOST",
    errors.LocalProtocolError: "NOT_CONNECTED",
    errors.SessionError: "SESSION_OVER",
    errors.JobError: "RESULT_UNAVAILABLE",
    errors.Unauthenticated: "UNAUTHENTICATED",
}


def problem(error: ArcpError | FeedUnavailable) -> Problem:
    """The problem that describes an error of the client or of a feed."""
    if isinstance(error, TooManyFeeds):
        return Problem(503, "TOO_MANY_JOBS", str(error), "close some pages")
    if isinstance(error, FeedUnavailable):
        return Problem(503, "SHUTTING_DOWN", str(error), "try again later")
    kind, status, remedy = next(each for each in _KNOWN if isinstance(error, each[0]))
    code = getattr(error, "code", "") or _NAMES.get(kind, "RUNTIME_ERROR")
    message = str(getattr(error, "message", "") or error)
    return Problem(status, str(code), message, remedy or error.remedy)


class _LastResponse(web.Response):
    """Closes the connection. Otherwise aiohttp reads the rest, and logs errors in it as its own."""

    _request: BaseRequest | None = None

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        self._request = request
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        await super().write_eof(data)
        if self._request is not None:
            self._request.protocol.force_close()


def answer(found: Problem) -> web.Response:
    """The response that describes a problem."""
    error = {"code": found.code, "message": found.message, "remedy": found.remedy}
    kind = _LastResponse if hdrs.CONNECTION in found.headers else web.Response
    return kind(
        status=found.status,
        body=frames.encoded({"error": error}),
        content_type="application/json",
        headers=found.headers,
    )
