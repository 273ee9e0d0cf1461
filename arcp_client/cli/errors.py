"""Maps each error of the package to an exit code and one line of advice."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from arcp_client import _digits as digits
from arcp_client import events
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.errors import (
    AgentNotFound,
    AgentVersionNotFound,
    ArcpError,
    BudgetExhausted,
    ClientClosed,
    ConnectFailed,
    DuplicateKey,
    FeatureNotNegotiated,
    InvalidAnswer,
    InvalidRequest,
    JobCancelled,
    JobEnded,
    JobFailed,
    JobLost,
    JobNotFound,
    JobTimedOut,
    LeaseExpired,
    LeaseSubsetViolation,
    LinkError,
    PermissionDenied,
    ProtocolError,
    QuestionAnswered,
    QuestionClosed,
    QuestionNotFound,
    RequestError,
    RequestTimeout,
    ResultIncomplete,
    ResultUnavailable,
    ResumeExpired,
    SessionError,
    StorageError,
    TranscriptError,
    Unauthenticated,
)

__all__ = ["command_error", "error_exit", "loses_events", "taken_text"]


@dataclass(frozen=True, slots=True)
class _Rule:
    errors: tuple[type[ArcpError], ...]
    code: Exit
    remedy: str = ""


_WIDER = "submit it again: repeat your --lease options, and add what the message names"

# The first match counts, so subclasses precede their bases.
_RULES = (
    _Rule(
        (Unauthenticated,),
        Exit.AUTHENTICATION,
        "set ARCP_TOKEN, name a --token-file, or `arcp-client login`",
    ),
    _Rule((PermissionDenied,), Exit.AUTHENTICATION, "use the token that submitted the job"),
    _Rule((AgentNotFound, AgentVersionNotFound), Exit.NOT_FOUND, "`arcp-client ping` lists agents"),
    _Rule((JobNotFound,), Exit.NOT_FOUND, "`arcp-client jobs` lists the jobs that you may see"),
    _Rule(
        (BudgetExhausted,),
        Exit.LEASE,
        "submit it again: repeat your other --lease options, with a larger cost.budget,"
        " such as --lease cost.budget=USD:5",
    ),
    _Rule(
        (LeaseExpired,),
        Exit.LEASE,
        "submit it again from Python, with a later expires_at; `run` has no option for it",
    ),
    _Rule((LeaseSubsetViolation,), Exit.LEASE, _WIDER),
    _Rule((JobTimedOut,), Exit.TIMED_OUT, "give it more time with --max-runtime"),
    _Rule((JobCancelled,), Exit.FAILED),
    _Rule((JobFailed,), Exit.FAILED),
    _Rule(
        (JobLost,),
        Exit.GAP,
        "the outcome is unknown; check the job's effects before you submit it again",
    ),
    _Rule((ResultIncomplete,), Exit.GAP, "the job succeeded; submit it again for its result"),
    _Rule((ResultUnavailable,), Exit.GAP, "check the job's effects before you submit it again"),
    _Rule((ResumeExpired,), Exit.GAP, "`arcp-client watch JOB` follows the job again"),
    _Rule((RequestTimeout,), Exit.TIMED_OUT, "the runtime is slow or stuck; try again"),
    _Rule((InvalidRequest,), Exit.USAGE),
    _Rule((DuplicateKey,), Exit.USAGE, "choose another --key, or give the same input as before"),
    _Rule((StorageError,), Exit.USAGE, "is there space on the disk of this file?"),
    _Rule((TranscriptError,), Exit.USAGE, "`arcp-client record` writes transcripts"),
    _Rule((FeatureNotNegotiated,), Exit.FAILED, "this runtime does not offer it"),
    _Rule((InvalidAnswer,), Exit.USAGE, "`arcp-client inbox` shows what may be answered"),
    _Rule((QuestionNotFound,), Exit.NOT_FOUND, "`arcp-client inbox` lists the open questions"),
    _Rule((QuestionAnswered, QuestionClosed), Exit.FAILED, "the agent does not wait any more"),
    _Rule((JobEnded,), Exit.FAILED, "submit a new job"),
    _Rule((RequestError,), Exit.FAILED),
    _Rule((ConnectFailed,), Exit.CONNECTION, "is a runtime running there? see --url and ARCP_URL"),
    _Rule((LinkError,), Exit.CONNECTION, "try again"),
    _Rule((ProtocolError,), Exit.CONNECTION),  # another try fails alike; the message says why
    _Rule((ClientClosed, SessionError), Exit.CONNECTION, "try again"),
)
_OTHERWISE = _Rule((), Exit.FAILED)


def error_exit(error: type[ArcpError]) -> tuple[Exit, str]:
    """Return exit code and advice for an error class."""
    rule = next((rule for rule in _RULES if issubclass(error, rule.errors)), _OTHERWISE)
    return rule.code, rule.remedy


def command_error(error: ArcpError) -> CommandError:
    """Convert an error of the package to a command error."""
    code, remedy = error_exit(type(error))
    if isinstance(error.__cause__, ssl.SSLError):  # a server is there, and the error says more
        remedy = ""
    if isinstance(error, JobFailed):
        refine = _BY_CODE.get(error.code)
        if refine is not None and code is Exit.FAILED:
            code, remedy = refine
        if error.retryable and not remedy:
            remedy = "the runtime reports that a retry may succeed"
        ended = next(_ENDED[cls] for cls in type(error).__mro__ if cls in _ENDED)
        happened = f"the job {ended(error)}"
        return CommandError(code, happened, remedy, help_url=error.help_url)
    happened = taken_text(error) if isinstance(error, QuestionAnswered) else str(error)
    return CommandError(code, happened, remedy, help_url=error.help_url)


def taken_text(error: QuestionAnswered) -> str:
    """Whose answer was taken earlier, when, and its value, as far as the runtime says so."""
    text = error.message or str(error)
    if error.client:
        text += f", with {error.client}"
    if isinstance(error.details, dict) and "value" in error.details:
        text += f": {digits.dumps(error.value):.200}"
    return text


_BY_CODE = {
    "PERMISSION_DENIED": (Exit.LEASE, f"the job's lease does not cover it; {_WIDER}"),
    "LEASE_SUBSET_VIOLATION": (Exit.LEASE, _WIDER),
}


def _named(word: str) -> Callable[[JobFailed], str]:
    return lambda error: f"{word}: {error}"


_ENDED: dict[type[JobFailed], Callable[[JobFailed], str]] = {
    JobFailed: _named("failed"),
    JobCancelled: _named("was cancelled"),
    JobTimedOut: _named("timed out"),
    LeaseExpired: _named("exceeded its lease"),
    BudgetExhausted: _named("exhausted its budget"),
}


def loses_events(gap: events.Gap) -> bool:
    """Whether a gap means that events are lost or may be lost."""
    return gap.reason in ("lost", "unknown_end")
