"""Every exception that leaves the package, as one tree that says who is at fault.

::

    ArcpError
    ├── LinkError                 the connection is at fault; the session may survive it
    │   ├── LinkLost              (also a ConnectionError) it ended, cleanly or not
    │   ├── HeartbeatLost         (also a TimeoutError) two silent intervals (§6.4)
    │   ├── HandshakeTimeout      (also a TimeoutError) no welcome in time
    │   └── ConnectFailed         the first connect gave up; ``__cause__`` is the last reason
    ├── ProtocolError             somebody broke the protocol
    │   ├── LocalProtocolError    this side: a call that the session's state does not allow
    │   └── RemoteProtocolError   the peer: a frame that could not be understood
    ├── SessionError              the session cannot go on, or not like this
    │   ├── Unauthenticated       the runtime refused the token
    │   ├── ResumeExpired         the runtime no longer holds what a resume needs (§6.3)
    │   ├── SessionClosed         the runtime ended the session
    │   ├── ClientClosed          this client was closed
    │   ├── StoreLocked           another client holds this checkpoint
    │   ├── BufferFull            a request inside a handler while every buffer is full
    │   └── WouldDeadlock         waiting here would wait for itself
    ├── RequestError              the runtime refused one request; ``code`` says why (§12)
    │   ├── PermissionDenied · AgentNotFound · AgentVersionNotFound · DuplicateKey
    │   ├── JobNotFound · InvalidRequest · LeaseSubsetViolation
    │   ├── RequestTimeout        (also a TimeoutError) no answer before the deadline
    │   ├── FeatureNotNegotiated  the runtime does not offer what the call needs (§6.2)
    │   └── UnknownCode           any other code, kept as it came
    ├── JobError                  a job did not end in success
    │   ├── JobFailed             the runtime said so: ``code``, ``retryable``, ``details``
    │   │   └── JobCancelled · JobTimedOut · LeaseExpired · BudgetExhausted
    │   ├── JobLost               the runtime no longer knows the job
    │   ├── ResultIncomplete      its streamed result is not whole
    │   └── ResultUnavailable     the job ended well, its value can no longer be had
    ├── StorageError              (also a ValueError) a store's or event log's file is unusable
    ├── TranscriptError           a file that is no transcript, or a damaged one
    ├── HandlerError              a handler raised; given to ``on_error`` hooks
    └── HandlerFailed             a handler with ``on_error="stop"`` raised and closed the client

Nothing else is raised on purpose, apart from ``TypeError`` and ``ValueError`` for arguments that
no call accepts, and ``asyncio.CancelledError`` for the caller's own cancellation.
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
    "InvalidRequest",
    "JobCancelled",
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
    "TranscriptError",
    "Unauthenticated",
    "UnknownCode",
    "WouldDeadlock",
]


class ArcpError(Exception):
    """Root of every error that this package raises on purpose.

    A traceback of one ends with what to do about it, and with the address of its page.
    """

    remedy: ClassVar[str] = "Look at the class of the error: each says what to do about it."
    """What can be done about it, for people."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.add_note(f"{self.remedy.replace('``', '')}\n{self.help_url}")

    @property
    def help_url(self) -> str:
        """The page of the docs on this class: what happened, and what to do about it."""
        own = type(self)
        while own.__module__.partition(".")[0] != __name__.partition(".")[0]:
            own = own.__base__ or ArcpError  # a class of the user's is explained by its base
        return f"{DOCS_URL}reference/errors/index.html#{own.__name__.lower()}"

    def __reduce__(self) -> tuple[Any, ...]:
        # The default protocol calls cls(*args), which keyword-only constructors refuse.
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(cls: type[ArcpError], args: tuple[Any, ...], state: dict[str, Any]) -> ArcpError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


# --------------------------------------------------------------------------- the link


class LinkError(ArcpError):
    """The connection is at fault. The session and its jobs may well survive."""

    remedy: ClassVar[str] = (
        "Nothing, as long as the client reconnects: it resumes its session by itself. Where one "
        "leaves the client it has given up; look at its cause, and at ``Reconnect``."
    )


class LinkLost(LinkError, ConnectionError):
    """The connection ended, cleanly or not.

    Attributes:
        close_code: the WebSocket close code, if there was one.
        exit_code: the exit code of a child process, negative for a signal.
        stderr: the tail of a child process's standard error.
    """

    remedy: ClassVar[str] = (
        "Nothing, as long as the client reconnects: it resumes its session by itself. If it "
        "happens often, look at ``close_code``, or at ``exit_code`` and ``stderr`` of a child "
        "process."
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
    """Nothing was heard from the peer for two intervals (§6.4)."""

    remedy: ClassVar[str] = (
        "Nothing, as long as the client reconnects. If it happens often, something on the way "
        "drops idle connections, or one side's event loop is blocked for seconds."
    )


class HandshakeTimeout(LinkError, TimeoutError):
    """The peer took the connection and did not answer ``session.hello`` in time.

    Attributes:
        stderr: the tail of a child process's standard error: often it says what it waits for.
    """

    remedy: ClassVar[str] = (
        "See whether a runtime of this protocol answers at that address; a slow one is given "
        "more time with ``Timeouts(connect=…)``."
    )

    def __init__(self, message: str, *, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class ConnectFailed(LinkError):
    """No connection could be made. ``__cause__`` is the last reason.

    Attributes:
        permanent: for a first connect another try cannot help (a bad address, a wrong path, a
            missing program). A client that was live before tries again all the same.
        attempts: how many tries were made.
    """

    remedy: ClassVar[str] = (
        "See whether the runtime runs at that address, and read ``__cause__``. If ``permanent`` "
        "is set, the address, path or program itself is wrong."
    )

    def __init__(self, message: str, *, permanent: bool = False, attempts: int = 1) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.attempts = attempts


# --------------------------------------------------------------------------- the protocol


class ProtocolError(ArcpError):
    """Somebody broke the protocol; the subclass says who."""

    remedy: ClassVar[str] = "The subclass says which side is at fault."


class LocalProtocolError(ProtocolError):
    """A call that the session's present state does not allow."""

    remedy: ClassVar[str] = (
        "Call in another order: the message says what the call needs, such as a connection, a "
        "registration before ``connect()``, or a job that has not ended."
    )


class RemoteProtocolError(ProtocolError):
    """A frame of the peer that could not be understood. The link lives on.

    Attributes:
        size: the frame's length in bytes.
        head: its first characters, escaped and masked, for a log line.
        event_seq: its number, where that could be read.
        job_id: the job that it is of, where that could be read.
    """

    remedy: ClassVar[str] = (
        "Nothing: the frame was passed over and the link lives on. If it recurs, report "
        "``head`` to the maintainers of the runtime; ``arcp-client doctor`` examines it."
    )

    event_seq: int | None = None
    job_id: str | None = None

    def __init__(self, message: str, *, size: int = 0, head: str = "") -> None:
        super().__init__(message)
        self.size = size
        self.head = head


# --------------------------------------------------------------------------- the session


class SessionError(ArcpError):
    """The session cannot go on, or not like this."""

    remedy: ClassVar[str] = (
        "Make a new client, or, if the subclass says so, change what it was given."
    )


class Unauthenticated(SessionError):
    """The runtime refused the token (§6.1). Permanent, unless a provider has another one."""

    remedy: ClassVar[str] = (
        "Give the token that this runtime knows, as ``Client(token=…)``. One that expires is "
        "given as a function, which is asked again."
    )


class ResumeExpired(SessionError):
    """The runtime no longer holds what a resume needs (RESUME_WINDOW_EXPIRED, §6.3).

    Attributes:
        permanent: hellos that ask for a new session were refused so, too; another cannot help.
    """

    remedy: ClassVar[str] = (
        "Connect anew; jobs run on and can be watched. Come back sooner than ``resume_window``, "
        "or keep more on the runtime's side."
    )

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class SessionClosed(SessionError):
    """The runtime ended the session."""

    remedy: ClassVar[str] = (
        "Read the reason in the message, and make a new client. Jobs run on and can be watched."
    )


class ClientClosed(SessionError):
    """The client was closed, here, while or before the call was made."""

    remedy: ClassVar[str] = "Keep the client open until its results are in, or make a new one."


class StoreLocked(SessionError):
    """Another client, in this process or another one, holds the checkpoint.

    From ``connect()``, or, of a store that finds out later, as the end of a live client.
    """

    remedy: ClassVar[str] = (
        "Close the other client, or give this one another ``key`` or another file."
    )


class BufferFull(SessionError):
    """A request made inside a handler while every buffer is full: its reply could not be read."""

    remedy: ClassVar[str] = (
        "Make the handlers quicker, ask outside of handlers, or give ``Buffer`` more room."
    )


class WouldDeadlock(SessionError):
    """Waiting here would, directly or through other handlers, wait for this very handler."""

    remedy: ClassVar[str] = (
        "Wait outside of the handler: in a task of your own, or after the handler has returned. "
        "A handler that need not hold up results is registered with ``barrier=False``."
    )


# --------------------------------------------------------------------------- requests


class RequestError(ArcpError):
    """The runtime refused one request. The session and all other requests go on.

    Attributes:
        code: the error code of §12, or what the runtime sent in its place.
        message: the runtime's text.
        retryable: the runtime's word on whether the same request may succeed later.
        details: whatever the runtime added.
    """

    remedy: ClassVar[str] = (
        "Look at ``code`` and ``message``; if ``retryable`` is set, the same request may "
        "succeed later."
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

    remedy: ClassVar[str] = "Ask as the principal that may do it, or widen the job's lease."

    default_code = "PERMISSION_DENIED"


class AgentNotFound(RequestError):
    """No agent of that name is registered."""

    remedy: ClassVar[str] = (
        "See ``client.session.agents`` for the agents that there are; names are lower case."
    )

    default_code = "AGENT_NOT_AVAILABLE"


class AgentVersionNotFound(RequestError):
    """The agent exists, the version does not (§7.5)."""

    remedy: ClassVar[str] = (
        "See ``client.session.agents`` for the versions that there are, or leave the version out."
    )

    default_code = "AGENT_VERSION_NOT_AVAILABLE"


class DuplicateKey(RequestError):
    """The idempotency key was used before with other parameters (§7.2)."""

    remedy: ClassVar[str] = "Use another ``idempotency_key``, or the same parameters as before."

    default_code = "DUPLICATE_KEY"


class JobNotFound(RequestError):
    """The job does not exist, or this principal may not know of it."""

    remedy: ClassVar[str] = (
        "See ``client.jobs()`` for the jobs that you may see. A runtime forgets jobs some time "
        "after their end."
    )

    default_code = "JOB_NOT_FOUND"


class InvalidRequest(RequestError):
    """The runtime found the request malformed."""

    remedy: ClassVar[str] = "Change the request as the message says."

    default_code = "INVALID_REQUEST"


class LeaseSubsetViolation(RequestError):
    """A delegated lease asked for more than its parent holds (§9.4)."""

    remedy: ClassVar[str] = "Ask for no more than the parent's lease holds, also in time and money."

    default_code = "LEASE_SUBSET_VIOLATION"


class RequestTimeout(RequestError, TimeoutError):
    """No answer came before the request's deadline. Whether it took effect is unknown."""

    remedy: ClassVar[str] = (
        "Look whether it took effect before you ask again; a submit with the same "
        "``idempotency_key`` is safe. ``timeout=`` gives a slow runtime more time."
    )

    default_code = "REQUEST_TIMEOUT"


class FeatureNotNegotiated(RequestError):
    """The runtime did not offer the feature that the call needs (§6.2)."""

    remedy: ClassVar[str] = (
        "Do without it, or use a runtime that offers it: ``client.session.features`` has what "
        "was agreed on."
    )

    default_code = "FEATURE_NOT_NEGOTIATED"


class UnknownCode(RequestError):
    """A refusal with a code that has no class of its own; ``code`` is verbatim."""

    remedy: ClassVar[str] = (
        "Look at ``code``, ``message`` and ``details``: they are the runtime's own."
    )

    default_code = "UNKNOWN"


# --------------------------------------------------------------------------- jobs


class JobError(ArcpError):
    """A job did not end in success, or its result cannot be had.

    Attributes:
        job_id: which job.
    """

    remedy: ClassVar[str] = "The subclass says whether another submit may help."

    job_id: str | None = None


class JobFailed(JobError):
    """The runtime ended the job without success (``job.error``, §7.3).

    Attributes:
        code: the error code of §12, or what the runtime sent in its place.
        message: the runtime's text.
        retryable: the runtime's word on whether a new submit may succeed.
        details: whatever the runtime added.
    """

    remedy: ClassVar[str] = (
        "Look at ``code``, ``message`` and ``details``; if ``retryable`` is set, submit it again."
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
    """The job was cancelled (§7.4). Not an ``asyncio.CancelledError``."""

    remedy: ClassVar[str] = "Somebody asked for it. Submit the job again if that was a mistake."


class JobTimedOut(JobFailed):
    """The job ran longer than its ``max_runtime`` (TIMEOUT)."""

    remedy: ClassVar[str] = "Give it a longer ``max_runtime``, or less to do."


class LeaseExpired(JobFailed):
    """The job's lease ran out before it ended (§9.5)."""

    remedy: ClassVar[str] = "Submit it again with a later ``expires_at``."


class BudgetExhausted(JobFailed):
    """A budget counter of the job's lease was spent (§9.6)."""

    remedy: ClassVar[str] = "Submit it again with a larger ``cost.budget`` in its lease."


class JobLost(JobError):
    """The runtime no longer knows the job; how it ended is unknown."""

    remedy: ClassVar[str] = (
        "Find out by its effects whether it did its work, then submit it again. A runtime with "
        "a durable event log keeps jobs over a restart."
    )

    def __init__(self, message: str, *, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class ResultIncomplete(JobError):
    """The job succeeded, but its streamed result is not what the runtime sent (§8.4).

    Chunks never arrived or cannot be read, one came twice with different contents, they belong to
    two results, or together they have another size than the runtime stated; the message says which.

    Attributes:
        missing: the ``chunk_seq`` numbers that are missing below the last one seen.
        partial: what did arrive, in order, joined; ``str`` if all chunks are text.
    """

    remedy: ClassVar[str] = "Use ``partial``, or submit the job again."

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
    """The job succeeded before this session saw it, and its value can no longer be had."""

    remedy: ClassVar[str] = "Submit it again if the value is needed; the job did succeed."

    def __init__(self, message: str, *, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


# --------------------------------------------------------------------------- transcripts


class StorageError(ArcpError, ValueError):
    """The file of an event log or a checkpoint store is damaged, or cannot be read or written.

    Attributes:
        path: the file.
        permanent: another try cannot help: what the file holds is at fault.
    """

    remedy: ClassVar[str] = (
        "If the disk is full or the file may not be written, mend that. Move a damaged file away, "
        "together with its -wal and -shm files, and put a copy in its place, or none: then "
        "sessions and jobs start anew."
    )

    def __init__(self, message: str, *, path: str = "", permanent: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.permanent = permanent


class TranscriptError(ArcpError):
    """A file that should be a transcript is none, is of a later version, or is damaged.

    Attributes:
        line: the number of the line that cannot be read, from 1; 0 if it is no single one.
    """

    remedy: ClassVar[str] = (
        "Look at the line that it names. A file that was only cut off is read up to there "
        "without an error."
    )

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


# --------------------------------------------------------------------------- handlers


class HandlerError(ArcpError):
    """A handler raised. ``__cause__`` is what it raised; given to the client's ``on_error`` hooks.

    Attributes:
        event: the event that was being handled.
        handler: the handler's qualified name.
    """

    remedy: ClassVar[str] = (
        "Mend the handler; ``__cause__`` is what it raised. The other handlers go on."
    )

    def __init__(self, message: str, *, event: Any = None, handler: str = "") -> None:
        super().__init__(message)
        self.event = event
        self.handler = handler


class HandlerFailed(ArcpError):
    """A handler registered with ``on_error="stop"`` raised, and the client closed for it."""

    remedy: ClassVar[str] = (
        'Mend the handler; ``__cause__`` is what it raised. With ``on_error="skip"`` the client '
        "would go on."
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
    )
}

_JOB_ERRORS: Mapping[str, type[JobFailed]] = {
    "CANCELLED": JobCancelled,
    "TIMEOUT": JobTimedOut,
    "LEASE_EXPIRED": LeaseExpired,
    "BUDGET_EXHAUSTED": BudgetExhausted,
}


def request_error(
    code: str, message: str = "", *, retryable: bool = False, details: Any = None
) -> RequestError:
    """The error class for a refused request with that code; UnknownCode keeps the code verbatim."""
    cls = _REQUEST_ERRORS.get(code, UnknownCode)
    return cls(message, code=code, retryable=retryable, details=details)


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
