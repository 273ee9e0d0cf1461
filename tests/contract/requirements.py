"""What the specification asks of a runtime, sentence by sentence; each line has a test.

``docs/reference/conformance.md`` is generated from this list by
``scripts/generate_conformance.py``; ``test_manifest.py`` fails for a line without a test and for a
test without a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

__all__ = ["REQUIREMENTS", "Requirement", "by_id", "requirement"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Requirement:
    """One sentence of the specification.

    Attributes:
        id: ``R-<section>-<number>``.
        level: MUST, SHOULD or MAY, with NOT; RULE where the text says so without these words.
        behaviour: what the runtime does.
        divergence: where it does something else than the text, and why.
        elsewhere: the tests of a sentence that binds a client; those here bind the runtime.
        free: who is bound by a sentence that no test of this package can hold to account.
    """

    id: str
    level: str
    behaviour: str
    divergence: str = ""
    elsewhere: str = ""
    free: str = ""

    @property
    def section(self) -> str:
        """The section's number."""
        return self.id.split("-")[1]


def _lines() -> list[Requirement]:
    found = []
    for line in _TABLE.strip().replace("\n    ", " ").splitlines():
        id, level, behaviour, *notes = (part.strip() for part in line.split("|"))
        known = dict(note.split("=", 1) for note in notes)
        found.append(Requirement(id, level, behaviour, **known))
    return found


_TABLE = """
R-4-1 | MUST | A session runs over WebSocket and over stdio, and inside one process.
R-5-1 | MUST | Unknown top-level fields of an envelope are ignored.
R-5-2 | RULE | Every frame is one JSON object with arcp, id, type and payload; ids are unique.
R-6.1-1 | RULE | The bearer token in session.hello names the principal; without a valid one the
    answer is UNAUTHENTICATED and the link ends.
R-6.1-2 | RULE | Nothing but session.hello or session.resume is acted on before authentication.
R-6.2-1 | RULE | session.welcome carries runtime, resume_token, resume_window_sec,
    heartbeat_interval_sec and capabilities.
R-6.2-2 | RULE | The welcome's inventory names each agent with its versions and default.
R-6.2-3 | RULE | The features of the welcome are those that both sides listed.
R-6.2-4 | MUST NOT | The runtime uses no feature outside the intersection: no pings, progress or
    chunks that were not negotiated.
R-6.2-5 | MUST NOT | A request that needs a feature outside the intersection is refused with
    INVALID_REQUEST.
R-6.3-1 | RULE | The resume token is another one after every welcome, and the one before stops
    working once the new one was used.
R-6.3-2 | RULE | A resume replays every event above last_event_seq, then goes on live, without a
    hole or a repetition.
R-6.3-3 | RULE | session.resume and a hello with a resume block both resume.
    | divergence=§6.3 names session.resume only; the public SDKs send the block in
    session.hello.
R-6.3-4 | RULE | A resume whose events are no longer held is RESUME_WINDOW_EXPIRED, never a
    shorter replay.
R-6.3-5 | RULE | A wrong token, or another principal, resumes nothing and spoils nothing.
R-6.3-6 | RULE | A resume takes the session over from a link that is not yet known to be dead.
R-6.4-1 | SHOULD | An idle runtime sends session.ping within each heartbeat interval.
R-6.4-2 | MUST | session.ping is answered with session.pong that carries its nonce, promptly.
R-6.4-3 | MAY | After two silent intervals the runtime reports HEARTBEAT_LOST and closes the
    link.
R-6.4-4 | MUST NOT | A lost heartbeat ends no job; the session can be resumed.
R-6.4-5 | RULE | Heartbeats have no event_seq and use up none.
R-6.5-1 | MAY | What was acknowledged is freed: a resume from below it is RESUME_WINDOW_EXPIRED.
R-6.5-2 | MUST NOT | What was not acknowledged is not freed, however old, unless a bound of the
    log forces it.
R-6.5-3 | MAY | A client that lags behind its acknowledgements, or sends none although it
    negotiated them, is told by a status with phase back_pressure.
R-6.5-4 | RULE | session.ack has no answer and uses up no event_seq; a number that was never
    sent is refused.
R-6.5-5 | RULE | An acknowledgement is advisory: a resume goes by its own last_event_seq.
R-6.5-6 | SHOULD | A client acknowledges at most every event or every few hundred milliseconds.
    |
    elsewhere=tests/unit/protocol/test_order.py
R-6.6-1 | RULE | session.jobs answers session.list_jobs with request_id, jobs and next_cursor,
    filtered by status, agent and created_after.
R-6.6-2 | RULE | limit and cursor page through all jobs, each once.
R-6.6-3 | MUST NOT | A listing shows no job of a principal that the session may not observe.
R-6.6-4 | RULE | A listing subscribes to nothing.
R-6.7-1 | RULE | session.close is acknowledged with session.closed.
R-6.7-2 | RULE | A close ends no job, and the session can be resumed within the window.
R-7.1-1 | RULE | job.accepted echoes the effective lease and constraints, with the time and the
    trace.
R-7.1-2 | RULE | job.accepted has the initial counters if cost.budget is in the lease, else no
    budget.
R-7.1-3 | RULE | Without lease_constraints the lease does not expire.
R-7.2-1 | MUST | The same key with the same parameters gives the same job.accepted payload, and
    one job.
R-7.2-2 | RULE | The same key with other parameters is DUPLICATE_KEY.
R-7.3-1 | RULE | A job ends once, as success, error, cancelled or timed_out.
R-7.3-2 | RULE | BUDGET_EXHAUSTED and LEASE_EXPIRED end a job with final_status error.
R-7.4-1 | MAY | The submitting session cancels any job that has not ended: job.cancelled, then
    job.error with CANCELLED and final_status cancelled.
R-7.4-2 | RULE | A job that waits for a slot is cancelled like one that runs.
R-7.4-3 | RULE | Another session may not cancel it: PERMISSION_DENIED.
    | divergence=A later session of the same principal that repeats the submit with its
    idempotency key may: it has the acceptance (§7.2).
R-7.5-1 | RULE | A bare name means the default version that the welcome shows.
R-7.5-2 | RULE | name@version means that version; if it is not there,
    AGENT_VERSION_NOT_AVAILABLE.
R-7.5-3 | RULE | A reference that does not follow the grammar is INVALID_REQUEST.
R-7.5-4 | RULE | The resolved version is in job.accepted and in listings.
R-7.5-5 | MUST NOT | A running job keeps its version when another becomes the default.
R-7.6-1 | MAY | A job of another session can be attached to: job.subscribed describes it, then
    its events arrive.
R-7.6-2 | MAY | A job of the same session can be subscribed to; its events are not doubled.
    | divergence=The session gets every event of its own jobs already, so replayed is false and
    nothing is sent twice.
R-7.6-3 | RULE | history replays what is above from_event_seq, then goes on live, without a hole
    or a repetition.
R-7.6-4 | RULE | Without history only later events arrive.
R-7.6-5 | RULE | Events of a subscribed job use the subscriber's own event_seq space.
R-7.6-6 | MUST | A principal that may not observe the job gets PERMISSION_DENIED.
R-7.6-7 | RULE | The submitting principal may always observe, also a job that has ended.
R-7.6-8 | MAY | job.unsubscribe ends the events.
R-7.6-9 | RULE | A subscription gives no authority to cancel.
R-7.6-10 | RULE | The observer is told the lease, the constraints and the present counters.
R-7.7-1 | SHOULD | Dashboards subscribe, command lines resume.
    | free=applications choose; the client offers watch() and resumes by itself.
R-8.1-1 | RULE | An event has type, session_id, job_id, event_seq and a payload of kind, ts and
    body.
R-8.2-1 | RULE | The ten kinds have the bodies of the table; other kinds pass through.
R-8.2-2 | MUST | progress.current is a non-negative number.
R-8.2-3 | SHOULD | progress.current is at most total.
    | divergence=Passed on as the agent said: totals are estimates, and the protocol does not
    act on progress.
R-8.3-1 | RULE | Sequence numbers are the session's own, strictly monotonic and gap-free, with
    any number of jobs at once.
R-8.3-2 | RULE | They go on so across reconnects.
R-8.3-3 | SHOULD | A client that receives a gap resumes.
    |
    elsewhere=tests/unit/protocol/test_gaps.py
R-8.4-1 | MUST | The chunks of a result come in the order of chunk_seq, from 0, under one
    result_id.
R-8.4-2 | SHOULD | Text is utf8, bytes are base64.
R-8.4-3 | RULE | more is true but for the last chunk.
R-8.4-4 | MUST | A job that streamed ends with a job.result that carries result_id and
    result_size.
R-8.4-5 | MUST NOT | A job does not mix an inline result with chunks.
R-9.1-1 | MUST | An operation that no grant of the effective lease covers is refused.
R-9.2-1 | RULE | Patterns are globs of their namespace: paths, URLs, tool and agent names; **
    respects path boundaries.
R-9.2-2 | RULE | A lease that does not follow the grammar is INVALID_REQUEST.
R-9.3-1 | MUST | The lease is evaluated before the operation is dispatched; a refusal is
    PERMISSION_DENIED.
R-9.4-1 | MUST | A delegated lease is a subset of the delegating one, else
    LEASE_SUBSET_VIOLATION.
    | divergence=Equal leases pass: the text says "strict subset", its rules and examples bound
    the child and do not make it smaller.
R-9.4-2 | MUST NOT | A child's budget does not exceed what the parent has left in any currency.
R-9.4-3 | MUST NOT | A child's lease does not outlive its parent's; it may end earlier.
R-9.4-4 | RULE | A child without expires_at inherits the parent's.
R-9.5-1 | MUST | expires_at is UTC and in the future; anything else is INVALID_REQUEST.
R-9.5-2 | MUST | expires_at is evaluated on every operation; from then on it fails with
    LEASE_EXPIRED, as a tool_result.
R-9.5-3 | MUST | A job that goes on after its lease expired ends with LEASE_EXPIRED and
    final_status error.
R-9.5-4 | MAY | A job that does nothing when its lease expires is ended as well.
R-9.5-5 | MUST | To extend authority a client cancels and resubmits.
    | free=there is no message to renew a lease with; an unknown type is INVALID_REQUEST
    (R-12-2).
R-9.6-1 | RULE | Each currency of cost.budget is a counter of its own, starting at its amount.
R-9.6-2 | MUST | A cost metric in a budgeted currency decrements its counter by its value,
    exactly.
R-9.6-3 | RULE | A negative cost is rejected and decrements nothing.
R-9.6-4 | MUST | All counters are checked before any operation; if one is at zero or below, it
    fails with BUDGET_EXHAUSTED.
R-9.6-5 | SHOULD | The agent gets the refusal as a tool_result and may go on.
R-9.6-6 | MAY | cost.budget.remaining follows the metric that caused it.
R-9.7-1 | RULE | model.use is a glob over model names; a model that none matches is
    PERMISSION_DENIED.
R-9.8-1 | RULE | Credentials are offered only where they can be revoked and kept secret: a
    durable log, and TLS, stdio or the same process.
R-9.8-2 | RULE | Credentials come with the acceptance and are dead when the terminal arrives.
R-9.8-3 | RULE | A rotated value reaches the submitting session; an observer gets the event
    without it.
R-10-1 | MAY | A delegation emits delegate, and the child's acceptance and events reach the
    submitting session with parent_job_id.
R-10-2 | MUST NOT | A delegation beyond the parent's remaining budget or expiry is refused.
R-11-1 | RULE | The trace_id of a submit is on every frame of its job.
    | divergence=The 32 hexadecimal digits go out, from a bare trace id or a whole traceparent;
    the text shows both.
R-11-2 | MUST | The trace is forwarded to tools, as JobContext.trace_id, and to sub-agents.
R-12-1 | RULE | Every error carries code, message and retryable, and the request_id of what it
    answers.
R-12-2 | RULE | A malformed frame is INVALID_REQUEST and the session lives on.
R-12-3 | RULE | An unknown agent is AGENT_NOT_AVAILABLE, an unknown job JOB_NOT_FOUND.
R-12-4 | MUST | LEASE_EXPIRED and BUDGET_EXHAUSTED are not retryable.
R-12-5 | RULE | An agent's crash is INTERNAL_ERROR, retryable, without its text.
R-12-6 | RULE | A job beyond max_runtime_sec ends with TIMEOUT and final_status timed_out.
R-14-1 | MUST | By default only the submitting principal observes a job; a policy has to be
    given to widen that.
R-14-2 | MUST NOT | Observing gives no authority to cancel, also where the policy allows to
    observe.
R-14-3 | MUST | expires_at is evaluated against a monotonic clock, and the wall clock in case
    the machine slept.
R-14-4 | SHOULD | An expired job gets a bounded grace of 1 s, and the expiry is logged.
R-14-5 | SHOULD | The size of a chunk and of a whole streamed result are capped; beyond it the
    job ends with INTERNAL_ERROR.
R-14-6 | SHOULD | The sessions of a principal are capped.
R-14-7 | SHOULD | Sustained zero-throughput sessions may be disconnected.
    | divergence=A session that answers heartbeats stays, up to the cap of its principal; beyond
    it those without a connection make room.
R-14-8 | SHOULD | Every job.subscribe is logged with the observer, the job, its principal and
    the decision.
R-14-9 | MUST | Strong budgets are also enforced at the tool server or gateway.
    | free=deployments; a Provisioner is where they hook in.
"""

REQUIREMENTS: tuple[Requirement, ...] = tuple(_lines())

by_id: dict[str, Requirement] = {each.id: each for each in REQUIREMENTS}

_ID = re.compile(r"R-\d+(\.\d+)*-\d+")
assert len(by_id) == len(REQUIREMENTS), "an id stands twice"
assert all(_ID.fullmatch(each.id) for each in REQUIREMENTS)


def requirement(*ids: str) -> Callable[[F], F]:
    """Say which requirements a test holds the runtime to.

    Raises:
        LookupError: there is no such requirement.
    """
    for id in ids:
        if id not in by_id:
            raise LookupError(f"{id} is not in tests/contract/requirements.py")
    return pytest.mark.requirement(*ids)
