"""Answers requests that cannot be served in JSON: a code for programs, words for people."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

from arcp_client import ArcpError, errors
from arcp_client.web import frames

__all__ = ["LAST", "Problem", "answer", "problem"]

LAST: Mapping[str, str] = {hdrs.CONNECTION: "close"}
"""Headers of an answer to a request whose rest is not read."""


class Problem(Exception):
    """A request that cannot be served.

    Args:
        status: of HTTP.
        code: for programs, in upper case.
        message: what happened.
        remedy: what one can do about it.
        headers: more of the answer.
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


# The first one that fits counts, so subclasses come before their bases.
_KNOWN: tuple[tuple[type[ArcpError], int, str], ...] = (
    (errors.JobNotFound, 404, "the table of jobs has those that may be seen"),
    (errors.AgentNotFound, 404, "choose an agent of the list"),
    (errors.AgentVersionNotFound, 404, "choose a version of the list"),
    (errors.PermissionDenied, 403, "only the session that submitted a job may do this"),
    (errors.DuplicateKey, 409, "submit it anew, with a key that was not used before"),
    (errors.InvalidRequest, 400, "see what the agent takes"),
    (errors.LeaseSubsetViolation, 403, "ask for a narrower lease"),
    (errors.RequestTimeout, 504, "the runtime is slow or out of reach; try again"),
    (errors.FeatureNotNegotiated, 501, "this runtime does not offer it"),
    (errors.RequestError, 502, ""),
    (errors.JobCancelled, 409, "the job was cancelled and has no result"),
    (errors.JobFailed, 409, "the job failed and has no result"),
    (errors.JobError, 410, "submit the job again"),
    (errors.Unauthenticated, 502, "the dashboard was started with a token that does not count"),
    (errors.LinkError, 503, "the runtime is out of reach; try again later"),
    (errors.SessionError, 503, "the session with the runtime is over; start the dashboard again"),
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


def problem(error: ArcpError) -> Problem:
    """What to answer where the package raised an error."""
    kind, status, remedy = next(each for each in _KNOWN if isinstance(error, each[0]))
    code = getattr(error, "code", "") or _NAMES.get(kind, "RUNTIME_ERROR")
    message = str(getattr(error, "message", "") or error)
    return Problem(status, str(code), message, remedy or error.remedy.replace("``", ""))


class _LastResponse(web.Response):
    """Ends the connection: else aiohttp reads the rest, and logs what is wrong with it as ours."""

    _asked: BaseRequest | None = None

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        self._asked = request
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        await super().write_eof(data)
        if self._asked is not None:
            self._asked.protocol.force_close()


def answer(found: Problem) -> web.Response:
    """The response that tells of a problem."""
    told = {"code": found.code, "message": found.message, "remedy": found.remedy}
    kind = _LastResponse if hdrs.CONNECTION in found.headers else web.Response
    return kind(
        status=found.status,
        body=frames.encoded({"error": told}),
        content_type="application/json",
        headers=found.headers,
    )
