"""The exceptions of this package, as one tree ordered by cause.

::

    ArcpError
    ├── LinkError                 the connection failed; the session may survive
    │   ├── LinkLost              (also a ConnectionError) the connection ended
    │   ├── HeartbeatLost         (also a TimeoutError) two silent intervals (§6.4)
    │   ├── HandshakeTimeout      (also a TimeoutError) no welcome in time
    │   └── ConnectFailed         the first connect gave up; ``__cause__`` is the last reason
    ├── ProtocolError             one side violated the protocol
    │   ├── LocalProtocolError    this side: a call that is not allowed now, here or in this size
    │   └── RemoteProtocolError   the peer: a frame that could not be understood
    ├── SessionError              the session cannot continue, or cannot make this call
    │   ├── Unauthenticated       the runtime refused the token
    │   ├── ResumeExpired         the runtime no longer holds the data for a resume (§6.3)
    │   ├── SessionClosed         the runtime ended the session
    │   ├── ClientClosed          this client was closed
    │   ├── StoreLocked           another client holds this checkpoint
    │   ├── BufferFull            a request inside a handler while every buffer is full
    │   ├── TooManyStreams        browsers already follow the maximum number of jobs
    │   └── WouldDeadlock         the wait would close a cycle of waits
    ├── RequestError              the runtime refused one request; see ``code`` (§12)
    │   ├── PermissionDenied · AgentNotFound · AgentVersionNotFound · DuplicateKey
    │   ├── JobNotFound · LeaseSubsetViolation
    │   ├── InvalidRequest        the runtime found the request malformed
    │   │   └── InvalidInput      the input does not match the agent's schema; see ``fields``
    │   ├── JobEnded              the job has ended; its agent takes no messages any more
    │   ├── QuestionNotFound · QuestionAnswered · QuestionClosed · InvalidAnswer
    │   ├── RequestTimeout        (also a TimeoutError) no answer before the deadline
    │   ├── FeatureNotNegotiated  the runtime does not offer a required feature (§6.2)
    │   └── UnknownCode           any other code, kept verbatim
    ├── JobError                  a job did not end in success, or its result is not available
    │   ├── JobFailed             ``job.error``: see ``code``, ``retryable``, ``details``
    │   │   └── JobCancelled · JobTimedOut · LeaseExpired · BudgetExhausted · QuestionExpired
    │   ├── JobLost               the runtime no longer knows the job
    │   ├── ResultIncomplete      the streamed result of the job is incomplete
    │   └── ResultUnavailable     the result can no longer be received
    ├── StorageError              (also a ValueError) a store's or event log's file is unusable
    ├── TranscriptError           a file is not a transcript, or is a damaged one
    ├── HandlerError              a handler raised; given to ``on_error`` hooks
    └── HandlerFailed             a handler with ``on_error="stop"`` raised and closed the client

Apart from these, public functions raise ``TypeError`` and ``ValueError`` for invalid arguments,
``TimeoutError`` where a parameter sets the time, ``RuntimeError`` when two tasks await one iterator
or transport at the same time, and ``asyncio.CancelledError`` when the caller is cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client.version import DOCS_URL

__all__ = [
    "AgentNotFound",
    "AgentVersionNotFound",
    "ArcpError",
    "BudgetExhausted",
    "BufferFull",
    "ClientClosed",
    "ConnectFailed",
    "DuplicateKey",
    "FeatureNotNegotiated",
    "HandlerError",
    "HandlerFailed",
    "HandshakeTimeout",
    "HeartbeatLost",
    "InvalidAnswer",
    "InvalidInput",
    "InvalidRequest",
    "JobCancelled",
    "JobEnded",
    "JobError",
    "JobFailed",
    "JobLost",
    "JobNotFound",
    "JobTimedOut",
    "LeaseExpired",
    "LeaseSubsetViolation",
    "LinkError",
    "LinkLost",
    "LocalProtocolError",
    "PermissionDenied",
    "ProtocolError",
    "QuestionAnswered",
    "QuestionClosed",
    "QuestionExpired",
    "QuestionNotFound",
    "RemoteProtocolError",
    "RequestError",
    "RequestTimeout",
    "ResultIncomplete",
    "ResultUnavailable",
    "ResumeExpired",
    "SessionClosed",
    "SessionError",
    "StorageError",
    "StoreLocked",
    "TooManyStreams",
    "TranscriptError",
    "Unauthenticated",
    "UnknownCode",
    "WouldDeadlock",
]


class ArcpError(Exception):
    """Base class of the errors of this package.

    The traceback ends with the remedy and the address of the error's page.
    """

    remedy: ClassVar[str] = "Look at the page of the error's class, which describes the remedy."
    """How to resolve the error, as text for people; names are between backticks."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.add_note(f"{self.remedy}\n{self.help_url}")

    @property
    def help_url(self) -> str:
        """Address of the documentation page on this class: its cause and its remedy."""
        own = type(self)
        while own.__module__.partition(".")[0] != __name__.partition(".")[0]:
            own = own.__base__ or ArcpError  # a user's subclass has the page of its base
        return f"{DOCS_URL}reference/errors/index.html#{own.__name__.lower()}"

    def __reduce__(self) -> tuple[Any, ...]:
        # The default protocol calls cls(*args), which fails for keyword-only parameters.
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(cls: type[ArcpError], args: tuple[Any, ...], state: dict[str, Any]) -> ArcpError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


# --------------------------------------------------------------------------- the link


class LinkError(ArcpError):
    """The connection failed. The session and its jobs may survive."""

    remedy: ClassVar[str] = (
        "No action is needed while the client reconnects and resumes its session. If a call raises "
        "it, the client has given up: look at `__cause__`, and at `Reconnect`."
    )


class LinkLost(LinkError, ConnectionError):
    """The connection ended, cleanly or not.

    Attributes:
        close_code: the WebSocket close code, if there was one.
        exit_code: the exit code of a child process, negative for a signal.
        stderr: the tail of a child process's standard error.
    """

    remedy: ClassVar[str] = (
        "No action is needed while a `Client` reconnects and resumes its session. An `AcpClient` "
        "does not reconnect: make a new one, and load or resume the session. If it happens often, "
        "look at `close_code`, or at `exit_code` and `stderr` of a child process."
    )

    def __init__(
        self,
        message: str,
        *,
        close_code: int | None = None,
        exit_code: int | None = None,
        stderr: str = "",
    ) -> None:
        super().__init__(message)
        self.close_code = close_code
        self.exit_code = exit_code
        self.stderr = stderr


class HeartbeatLost(LinkError, TimeoutError):
    """The peer sent nothing for two heartbeat intervals (§6.4)."""

    remedy: ClassVar[str] = (
        "No action is needed while the client reconnects. If it happens often, a proxy drops idle "
        "connections, or the event loop of one side is blocked for seconds."
    )


class HandshakeTimeout(LinkError, TimeoutError):
    """The peer accepted the connection and did not answer the first message in time.

    That message is ``session.hello``, or ``initialize`` to an ACP agent.

    Attributes:
        stderr: the tail of a child process's standard error, which often names the reason.
    """

    remedy: ClassVar[str] = (
        "Check that an ARCP runtime answers at that address, or an ACP agent for an `AcpClient`. "
        "Give a slow one more time with `Timeouts(connect=…)` or `AcpLimits(start=…)`."
    )

    def __init__(self, message: str, *, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class ConnectFailed(LinkError):
    """No connection could be made. ``__cause__`` is the last reason.

    Attributes:
        permanent: the reason will not go away (a bad address, a wrong path, a missing program). On
            its first connect, a client then does not try again. A client that was connected before
            retries nevertheless.
        attempts: number of attempts.
    """

    remedy: ClassVar[str] = (
        "Check that the runtime or agent runs at that address, and read `__cause__`. If "
        "`permanent` is set, the address, path or program is wrong."
    )

    def __init__(self, message: str, *, permanent: bool = False, attempts: int = 1) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.attempts = attempts


# --------------------------------------------------------------------------- the protocol


class ProtocolError(ArcpError):
    """This client or the peer violated the protocol; the subclass says which of them."""

    remedy: ClassVar[str] = "See the subclass: LocalProtocolError or RemoteProtocolError."


class LocalProtocolError(ProtocolError):
    """The call is not allowed at this time or place (thread, loop, process), or exceeds a limit."""

    remedy: ClassVar[str] = (
        "Change the order of the calls, or the place of the call: the message names the condition, "
        "such as a connection, a job that has not ended, an event loop, a thread or a process."
    )


class RemoteProtocolError(ProtocolError):
    """The peer sent a frame that could not be understood. The link stays up.

    Attributes:
        size: the frame's length in bytes.
        head: its first characters, escaped and masked, for a log line.
        event_seq: its event number, if it could be read.
        job_id: the id of its job, if it could be read.
    """

    remedy: ClassVar[str] = (
        "No action is needed: the frame was skipped and the link stays up. If it recurs, report "
        "`head` to the maintainers of the runtime; `arcp-client doctor` examines the runtime."
    )

    event_seq: int | None = None
    job_id: str | None = None

    def __init__(self, message: str, *, size: int = 0, head: str = "") -> None:
        super().__init__(message)
        self.size = size
        self.head = head


# --------------------------------------------------------------------------- the session


class SessionError(ArcpError):
    """The session cannot continue, or cannot make this call."""

    remedy: ClassVar[str] = "Make a new client, or change its arguments as the subclass describes."


class Unauthenticated(SessionError):
    """The runtime refused the token (§6.1), and the client has no other token."""

    remedy: ClassVar[str] = (
        "Pass a token that this runtime accepts as `Client(token=…)`. If tokens expire, pass a "
        "function that returns one: the client calls it again."
    )


class ResumeExpired(SessionError):
    """The runtime no longer holds the data for a resume (RESUME_WINDOW_EXPIRED, §6.3).

    Attributes:
        permanent: the runtime refused a new session, too, with the same code, so another attempt
            cannot succeed.
    """

    remedy: ClassVar[str] = (
        "Connect with a new client; the jobs keep running and can be watched. Reconnect within "
        "`resume_window`, or raise the runtime's limits."
    )

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class SessionClosed(SessionError):
    """The runtime ended the session."""

    remedy: ClassVar[str] = (
        "Read the reason in the message, and make a new client. The jobs keep running and can be "
        "watched."
    )


class ClientClosed(SessionError):
    """This client was closed before or during the call."""

    remedy: ClassVar[str] = "Keep the client open until its results arrive, or make a new one."


class StoreLocked(SessionError):
    """Another client, in this process or another one, holds the checkpoint.

    `Client.connect` raises it. If the store detects the other client later, this client is closed
    with this error.
    """

    remedy: ClassVar[str] = (
        "Close the other client, or give this one another `key` or another file."
    )


class BufferFull(SessionError):
    """A handler waited for an answer or event that could not be read, as every buffer was full."""

    remedy: ClassVar[str] = (
        "Make the handlers faster, make requests outside of handlers, or enlarge `Buffer`."
    )


class TooManyStreams(SessionError):
    """Browsers already follow the maximum number of jobs that one client streams at a time."""

    remedy: ClassVar[str] = (
        "Let pages close the streams of jobs that they no longer show, or stream further jobs with"
        " another `Client`."
    )


class WouldDeadlock(SessionError):
    """A handler would wait for itself, directly or through other handlers."""

    remedy: ClassVar[str] = (
        "Wait outside of the handler: in a task of your own, or after the handler has returned. "
        "If results need not wait for a handler, register it with `barrier=False`. A handler "
        "that makes calls of a blocking client needs `thread=True`."
    )


# --------------------------------------------------------------------------- requests


class RequestError(ArcpError):
    """The runtime refused one request. The session and all other requests continue.

    Attributes:
        code: the error code (§12), verbatim.
        message: the runtime's text.
        retryable: whether the same request may succeed later, as the runtime states.
        details: further data from the runtime.
    """

    remedy: ClassVar[str] = (
        "Look at `code` and `message`. If `retryable` is set, the same request may succeed later."
    )

    default_code: ClassVar[str] = ""

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        retryable: bool = False,
        details: Any = None,
    ) -> None:
        self.code = code or self.default_code
        self.message = message
        self.retryable = retryable
        self.details = details
        super().__init__(f"{self.code}: {message}" if message else self.code)


class PermissionDenied(RequestError):
    """The principal may not do this, or the lease does not cover it."""

    remedy: ClassVar[str] = (
        "Use the token of a principal with that right, or widen the job's lease."
    )

    default_code = "PERMISSION_DENIED"


class AgentNotFound(RequestError):
    """No agent of that name is registered."""

    remedy: ClassVar[str] = (
        "See `client.session.agents` for the registered agents; names are lower case."
    )

    default_code = "AGENT_NOT_AVAILABLE"


class AgentVersionNotFound(RequestError):
    """The agent exists, but not in that version (§7.5)."""

    remedy: ClassVar[str] = (
        "See `client.session.agents` for the available versions, or omit the version."
    )

    default_code = "AGENT_VERSION_NOT_AVAILABLE"


class DuplicateKey(RequestError):
    """The idempotency key was used before with other parameters (§7.2)."""

    remedy: ClassVar[str] = "Use another `idempotency_key`, or the same parameters as before."

    default_code = "DUPLICATE_KEY"


class JobNotFound(RequestError):
    """The job does not exist, or this principal may not see it."""

    remedy: ClassVar[str] = (
        "See `client.jobs()` for the jobs that you may see. A runtime forgets jobs some time "
        "after their end."
    )

    default_code = "JOB_NOT_FOUND"


class InvalidRequest(RequestError):
    """The runtime found the request malformed."""

    remedy: ClassVar[str] = "Change the request as the message says."

    default_code = "INVALID_REQUEST"


class InvalidInput(InvalidRequest):
    """The input of a submit does not match the schema that the agent declares.

    No job was started. The message names the first invalid field, ``fields`` all of them.
    """

    remedy: ClassVar[str] = (
        "Change the fields that `fields` names. `arcp-client run AGENT --help` and "
        "`client.session.agents` show the schema."
    )

    @property
    def fields(self) -> dict[str, str]:
        """What is wrong, by the position in the input, such as ``files[2].name``.

        The position ``""`` is the input as a whole.
        """
        return _input_fields(self.details)


class LeaseSubsetViolation(RequestError):
    """A delegated lease asked for more than its parent holds (§9.4)."""

    remedy: ClassVar[str] = "Ask for no more than the parent's lease holds, also in time and money."

    default_code = "LEASE_SUBSET_VIOLATION"


class JobEnded(RequestError):
    """The job has ended, so its agent cannot get a message any more."""

    remedy: ClassVar[str] = "Submit a new job whose input has the message."

    default_code = "JOB_ENDED"


class QuestionNotFound(RequestError):
    """There is no such question, or this principal may not see it."""

    remedy: ClassVar[str] = (
        "List the open questions with `client.questions()` or `arcp-client inbox`. Closed "
        "questions are kept for a limited time only."
    )

    default_code = "QUESTION_NOT_FOUND"


class QuestionAnswered(RequestError):
    """Another answer to the question was taken first; ``details`` says whose."""

    remedy: ClassVar[str] = (
        "Nothing to do: the agent continues with the answer in `value`, which `by` gave."
    )

    default_code = "QUESTION_ANSWERED"

    @property
    def by(self) -> str:
        """The principal whose answer was taken."""
        return str(self._detail("by") or "")

    @property
    def client(self) -> str:
        """The name and version of the client whose answer was taken."""
        return str(self._detail("client") or "")

    @property
    def at(self) -> str:
        """When the answer was taken, RFC 3339."""
        return str(self._detail("at") or "")

    @property
    def value(self) -> Any:
        """The answer that was taken."""
        return self._detail("value")

    def _detail(self, name: str) -> Any:
        return self.details.get(name) if isinstance(self.details, Mapping) else None


class QuestionClosed(RequestError):
    """The question has expired, or was withdrawn: its job ended, or its agent stopped waiting."""

    remedy: ClassVar[str] = (
        "Nothing to do: the agent no longer waits. To allow more time, let the agent ask with a "
        "longer `timeout`."
    )

    default_code = "QUESTION_CLOSED"


class InvalidAnswer(RequestError):
    """The answer does not fit the schema of the question; the message has the path."""

    remedy: ClassVar[str] = (
        "Answer with a value that fits the `schema` of the question, or with one of its "
        "`options`. The question is still open."
    )

    default_code = "INVALID_ANSWER"


class RequestTimeout(RequestError, TimeoutError):
    """No answer arrived before the request's deadline. The request may have had its effect."""

    remedy: ClassVar[str] = (
        "Check whether the request took effect before you repeat it; a submit with the same "
        "`idempotency_key` is safe to repeat. `timeout=` gives a slow runtime more time."
    )

    default_code = "REQUEST_TIMEOUT"


class FeatureNotNegotiated(RequestError):
    """The runtime did not offer the feature that the call needs (§6.2)."""

    remedy: ClassVar[str] = (
        "Avoid the call, or use a runtime that offers the feature: `client.session.features` "
        "lists the negotiated ones."
    )

    default_code = "FEATURE_NOT_NEGOTIATED"


class UnknownCode(RequestError):
    """The runtime refused a request with a code for which there is no class."""

    remedy: ClassVar[str] = "Look at `code`, `message` and `details`, which come from the runtime."

    default_code = "UNKNOWN"


# --------------------------------------------------------------------------- jobs


class JobError(ArcpError):
    """A job did not end in success, or its result is not available.

    Attributes:
        job_id: the job's id.
    """

    remedy: ClassVar[str] = "See the subclass, which describes whether to submit the job again."

    job_id: str | None = None


class JobFailed(JobError):
    """The runtime ended the job without success (``job.error``, §7.3).

    Attributes:
        code: the error code (§12), verbatim.
        message: the runtime's text.
        retryable: whether a new submit may succeed, as the runtime states.
        details: further data from the runtime.
    """

    remedy: ClassVar[str] = (
        "Look at `code`, `message` and `details`. If `retryable` is set, submit the job again."
    )

    def __init__(
        self,
        message: str = "",
        *,
        code: str = "INTERNAL_ERROR",
        retryable: bool = False,
        details: Any = None,
        job_id: str | None = None,
    ) -> None:
        self.code = code
        self.message = message
        self.retryable = retryable
        self.details = details
        self.job_id = job_id
        super().__init__(f"{code}: {message}" if message else code)


class JobCancelled(JobFailed):
    """The job was cancelled (§7.4). This is not an ``asyncio.CancelledError``."""

    remedy: ClassVar[str] = "Submit the job again if the cancellation was a mistake."


class JobTimedOut(JobFailed):
    """The job ran longer than its ``max_runtime`` (TIMEOUT)."""

    remedy: ClassVar[str] = "Submit the job with a longer `max_runtime`, or with less work."


class LeaseExpired(JobFailed):
    """The job's lease expired before the job ended (§9.5)."""

    remedy: ClassVar[str] = "Submit the job again with a later `expires_at`."


class BudgetExhausted(JobFailed):
    """A budget counter of the job's lease was spent (§9.6)."""

    remedy: ClassVar[str] = (
        "Submit the job again with the same rights and a larger `cost.budget` in its lease."
    )


class QuestionExpired(JobFailed):
    """A question of the agent expired without an answer and without a default."""

    remedy: ClassVar[str] = (
        "Submit the job again and answer in time, or give the question a default or a longer "
        "`timeout`. An agent can catch the error and continue."
    )


class JobLost(JobError):
    """The runtime no longer knows the job; its outcome is unknown."""

    remedy: ClassVar[str] = (
        "Check by its effects whether the job did its work, then submit it again if necessary. A "
        "runtime with a durable event log keeps jobs over a restart."
    )

    def __init__(self, message: str, *, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class ResultIncomplete(JobError):
    """The job succeeded, but its streamed result is incomplete or inconsistent (§8.4).

    The message names the reason: missing or unreadable chunks, a chunk that arrived twice with
    different contents, chunks of two results, or another total size than the runtime stated.

    Attributes:
        missing: the missing ``chunk_seq`` numbers below the last known one.
        partial: the chunks that arrived, in order, joined; ``str`` if all chunks are text.
    """

    remedy: ClassVar[str] = "Use `partial`, or submit the job again."

    def __init__(
        self,
        message: str,
        *,
        missing: tuple[int, ...] = (),
        partial: str | bytes = b"",
        job_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.missing = missing
        self.partial = partial
        self.job_id = job_id


class ResultUnavailable(JobError):
    """The result of the job can no longer be received.

    The message says so if the job is known to have succeeded. Otherwise it may also have failed.
    """

    remedy: ClassVar[str] = (
        "Unless the message says that the job succeeded, check by its effects whether it did its "
        "work. Submit it again only if you need the value and the effects may happen twice."
    )

    def __init__(self, message: str, *, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


# --------------------------------------------------------------------------- transcripts


class StorageError(ArcpError, ValueError):
    """An event log or a checkpoint store is damaged, or cannot be read or written.

    Attributes:
        path: the file, or the hosts and the name of the database.
        permanent: another attempt cannot succeed, for example because the file is damaged.
        sqlstate: PostgreSQL's code of the failure, if it has one.
    """

    remedy: ClassVar[str] = (
        "If the disk is full or the file is not writable, fix that. Move a damaged file away, "
        "together with its -wal and -shm files, and restore a backup. Without one, a new file is "
        "created, and earlier sessions and jobs are gone."
    )

    def __init__(
        self, message: str, *, path: str = "", permanent: bool = False, sqlstate: str = ""
    ) -> None:
        super().__init__(message)
        self.path = path
        self.permanent = permanent
        self.sqlstate = sqlstate


class TranscriptError(ArcpError):
    """A file is not a transcript, has a later version, or is damaged.

    Attributes:
        line: the number of the unreadable line, from 1; 0 if the error concerns no single line.
    """

    remedy: ClassVar[str] = (
        "Look at the line that the message names. A file that is only truncated is read up to its "
        "end without an error."
    )

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


# --------------------------------------------------------------------------- handlers


class HandlerError(ArcpError):
    """A handler raised an exception, which is ``__cause__``.

    The client passes this error to its ``on_error`` hooks.

    Attributes:
        event: the event that was being handled; of a batch, the first one.
        handler: the handler's qualified name.
    """

    remedy: ClassVar[str] = (
        "Fix the handler; `__cause__` is the exception that it raised. Other handlers are not "
        "affected."
    )

    def __init__(self, message: str, *, event: Any = None, handler: str = "") -> None:
        super().__init__(message)
        self.event = event
        self.handler = handler


class HandlerFailed(ArcpError):
    """A handler registered with ``on_error="stop"`` raised, which closed the client."""

    remedy: ClassVar[str] = (
        "Fix the handler; `__cause__` is the exception that it raised. With "
        '`on_error="skip"` the client continues.'
    )


# --------------------------------------------------------------------------- codes to classes

_REQUEST_ERRORS: Mapping[str, type[RequestError]] = {
    cls.default_code: cls
    for cls in (
        PermissionDenied,
        AgentNotFound,
        AgentVersionNotFound,
        DuplicateKey,
        JobNotFound,
        InvalidRequest,
        LeaseSubsetViolation,
        JobEnded,
        QuestionNotFound,
        QuestionAnswered,
        QuestionClosed,
        InvalidAnswer,
    )
}

_JOB_ERRORS: Mapping[str, type[JobFailed]] = {
    "CANCELLED": JobCancelled,
    "TIMEOUT": JobTimedOut,
    "LEASE_EXPIRED": LeaseExpired,
    "BUDGET_EXHAUSTED": BudgetExhausted,
    "QUESTION_EXPIRED": QuestionExpired,
}


def request_error(
    code: str, message: str = "", *, retryable: bool = False, details: Any = None
) -> RequestError:
    """The error for a refused request with that code; UnknownCode keeps the code verbatim."""
    cls = _REQUEST_ERRORS.get(code, UnknownCode)
    if cls is InvalidRequest and _input_fields(details):
        cls = InvalidInput
    return cls(message, code=code, retryable=retryable, details=details)


def _input_fields(details: Any) -> dict[str, str]:
    named = details.get("input_fields") if isinstance(details, Mapping) else None
    if not isinstance(named, Mapping):
        return {}
    return {str(field): str(text) for field, text in named.items()}


def job_error(
    code: str,
    message: str = "",
    *,
    status: str = "error",
    retryable: bool = False,
    details: Any = None,
    job_id: str | None = None,
) -> JobFailed:
    """The error class for a job that ended with that code and final status."""
    cls = _JOB_ERRORS.get(code, JobFailed)
    if cls is JobFailed and status == "cancelled":
        cls = JobCancelled
    elif cls is JobFailed and status == "timed_out":
        cls = JobTimedOut
    return cls(message, code=code, retryable=retryable, details=details, job_id=job_id)
