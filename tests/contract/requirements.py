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
R-6.1-1 | RULE | The bearer token in session.hello identifies the principal. If the token is
    missing or not valid, the answer is UNAUTHENTICATED and the runtime closes the link.
R-6.1-2 | RULE | Before authentication, the runtime processes only session.hello and
    session.resume.
R-6.2-1 | RULE | session.welcome carries runtime, resume_token, resume_window_sec,
    heartbeat_interval_sec and capabilities.
R-6.2-2 | RULE | The welcome's inventory names each agent with its versions and default.
R-6.2-3 | RULE | The features in the welcome are those that both client and runtime offer.
R-6.2-4 | MUST NOT | The runtime uses no feature outside the intersection: no pings, progress or
    chunks that were not negotiated.
R-6.2-5 | MUST NOT | A request that needs a feature outside the intersection is refused with
    INVALID_REQUEST.
R-6.3-1 | RULE | Every welcome has a new resume token. The old token stops working when the new
    one has been used.
R-6.3-2 | RULE | A resume replays every event above last_event_seq and then continues with live
    events. No event is missing or repeated.
R-6.3-3 | RULE | A session.resume resumes, and so does a session.hello with a resume block. |
    divergence=§6.3 names session.resume only; the public SDKs send the block in session.hello.
R-6.3-4 | RULE | A resume that needs events which are no longer kept is refused with
    RESUME_WINDOW_EXPIRED, never answered with a shorter replay.
R-6.3-5 | RULE | A resume with a wrong token, or by another principal, is refused and does not
    affect the session.
R-6.3-6 | RULE | A resume takes over a session whose old link is not yet known to be dead.
R-6.4-1 | SHOULD | An idle runtime sends session.ping within each heartbeat interval.
R-6.4-2 | MUST | session.ping is answered with session.pong that carries its nonce, promptly.
R-6.4-3 | MAY | After two intervals without a frame, the runtime reports HEARTBEAT_LOST and closes
    the link.
R-6.4-4 | MUST NOT | A lost heartbeat does not end a job, and the session can be resumed.
R-6.4-5 | RULE | Heartbeats have no event_seq.
R-6.5-1 | MAY | Acknowledged events are freed. A resume that would need one is refused with
    RESUME_WINDOW_EXPIRED.
R-6.5-2 | MUST NOT | An event that was not acknowledged is kept, however old, unless a bound of
    the log forces its removal.
R-6.5-3 | MAY | If a client's acknowledgements lag behind, or the client sends none although it
    negotiated them, the runtime sends a status with phase back_pressure.
R-6.5-4 | RULE | session.ack has no answer and no event_seq. An acknowledgement of a number that
    was never sent is refused.
R-6.5-5 | RULE | An acknowledgement is advisory: a resume uses its own last_event_seq.
R-6.5-6 | SHOULD | A client sends at most one acknowledgement for each event, or one every few
    hundred milliseconds. | elsewhere=tests/unit/protocol/test_order.py
R-6.6-1 | RULE | session.jobs answers session.list_jobs with request_id, jobs and next_cursor,
    filtered by status, agent and created_after.
R-6.6-2 | RULE | A client can page through all jobs with limit and cursor, and gets each job once.
R-6.6-3 | MUST NOT | A listing shows no job of a principal that the session may not observe.
R-6.6-4 | RULE | A listing does not subscribe the session to any job.
R-6.7-1 | RULE | session.close is acknowledged with session.closed.
R-6.7-2 | RULE | Closing a session does not end its jobs, and the session can be resumed within
    the window.
R-7.1-1 | RULE | job.accepted has the effective lease and constraints, the time, and the trace id.
R-7.1-2 | RULE | job.accepted has the initial budget counters if cost.budget is in the lease.
    Otherwise it has no budget.
R-7.1-3 | RULE | Without lease_constraints the lease does not expire.
R-7.2-1 | MUST | A second submit with the same key and the same parameters gets the same
    job.accepted payload, and starts no second job.
R-7.2-2 | RULE | A submit with a used key and other parameters is refused with DUPLICATE_KEY.
R-7.3-1 | RULE | A job ends exactly once, with the status success, error, cancelled or timed_out.
R-7.3-2 | RULE | BUDGET_EXHAUSTED and LEASE_EXPIRED end a job with final_status error.
R-7.4-1 | MAY | The submitting session can cancel any job that has not ended. The runtime then
    sends job.cancelled, and job.error with CANCELLED and final_status cancelled.
R-7.4-2 | RULE | A job that waits for a slot is cancelled like a running job.
R-7.4-3 | RULE | A cancel from another session is refused with PERMISSION_DENIED. | divergence=A
    later session of the same principal may cancel the job if it has repeated the submit with the
    idempotency key, because it then has the acceptance (§7.2).
R-7.5-1 | RULE | An agent's name without a version means the default version, which the welcome
    shows.
R-7.5-2 | RULE | name@version means that version. If the version does not exist, the answer is
    AGENT_VERSION_NOT_AVAILABLE.
R-7.5-3 | RULE | A reference that does not follow the grammar is refused with INVALID_REQUEST.
R-7.5-4 | RULE | job.accepted and listings have the resolved version.
R-7.5-5 | MUST NOT | A running job keeps its version when the default version changes.
R-7.6-1 | MAY | A session can subscribe to a job of another session. job.subscribed describes the
    job, then its events arrive.
R-7.6-2 | MAY | A session can subscribe to one of its own jobs. Its events do not arrive twice. |
    divergence=The session already gets every event of its own jobs, so replayed is false and
    nothing is sent again.
R-7.6-3 | RULE | A subscription with history replays the events above from_event_seq and then
    continues with live events. No event is missing or repeated.
R-7.6-4 | RULE | A subscription without history gets only later events.
R-7.6-5 | RULE | Events of a subscribed job are numbered by the event_seq of the subscribing
    session.
R-7.6-6 | MUST | A principal that may not observe the job gets PERMISSION_DENIED.
R-7.6-7 | RULE | The submitting principal may always observe the job, even when the job has ended.
R-7.6-8 | MAY | After job.unsubscribe, the session gets no more events of the job.
R-7.6-9 | RULE | A subscription does not allow the session to cancel the job.
R-7.6-10 | RULE | job.subscribed has the lease, the constraints and the present budget counters.
R-7.7-1 | SHOULD | Dashboards subscribe to jobs, command lines resume sessions. |
    free=applications choose; the client offers watch() and resumes by itself.
R-8.1-1 | RULE | An event has type, session_id, job_id, event_seq and a payload of kind, ts and
    body.
R-8.2-1 | RULE | The ten kinds of events have the bodies that the table of §8.2 defines. The
    runtime passes on other kinds unchanged.
R-8.2-2 | MUST | progress.current is a non-negative number.
R-8.2-3 | SHOULD | progress.current is at most total. | divergence=The runtime passes on the
    numbers of the agent: totals are estimates, and the protocol does not act on progress.
R-8.3-1 | RULE | Each session has its own sequence numbers, strictly monotonic and without gaps,
    with any number of concurrent jobs.
R-8.3-2 | RULE | The numbers continue across reconnects.
R-8.3-3 | SHOULD | A client that detects a gap resumes. |
    elsewhere=tests/unit/protocol/test_gaps.py
R-8.4-1 | MUST | The chunks of a result have one result_id, and come in the order of chunk_seq,
    from 0.
R-8.4-2 | SHOULD | Text is sent as utf8, bytes as base64.
R-8.4-3 | RULE | more is true in every chunk but the last.
R-8.4-4 | MUST | A job with a streamed result ends with a job.result that has result_id and
    result_size.
R-8.4-5 | MUST NOT | A job does not send both an inline result and chunks.
R-9.1-1 | MUST | An operation that no grant of the effective lease covers is refused.
R-9.2-1 | RULE | Patterns are globs with the meaning of their namespace: paths, URLs, or names of
    tools and agents. ** respects path boundaries.
R-9.2-2 | RULE | A lease that does not follow the grammar is refused with INVALID_REQUEST.
R-9.3-1 | MUST | The lease is evaluated before the operation is dispatched. The refusal is
    PERMISSION_DENIED.
R-9.4-1 | MUST | A delegated lease is a subset of the delegating job's lease. Otherwise the answer
    is LEASE_SUBSET_VIOLATION. | divergence=An equal lease is accepted: the text says "strict
    subset", but its rules and examples only require that the child's lease is not larger.
R-9.4-2 | MUST NOT | A child's budget does not exceed the parent's remaining budget in any
    currency.
R-9.4-3 | MUST NOT | A child's lease does not outlive its parent's; it may end earlier.
R-9.4-4 | RULE | A child without expires_at inherits the expires_at of its parent.
R-9.5-1 | MUST | expires_at is a UTC time in the future. Any other value is refused with
    INVALID_REQUEST.
R-9.5-2 | MUST | expires_at is evaluated at every operation. After that time, operations fail with
    LEASE_EXPIRED, which the agent gets as a tool_result.
R-9.5-3 | MUST | A job that continues after its lease has expired ends with LEASE_EXPIRED and
    final_status error.
R-9.5-4 | MAY | A job that does nothing when its lease expires ends as well.
R-9.5-5 | MUST | To get more authority, a client cancels the job and submits it again. |
    free=there is no message to renew a lease with; an unknown type is INVALID_REQUEST (R-12-2).
R-9.6-1 | RULE | Each currency of cost.budget has a counter, which starts at its amount.
R-9.6-2 | MUST | A cost metric in a currency of the budget decrements that counter by exactly its
    value.
R-9.6-3 | RULE | A negative cost is rejected and does not change a counter.
R-9.6-4 | MUST | All counters are checked before any operation. If one of them is zero or
    negative, the operation fails with BUDGET_EXHAUSTED.
R-9.6-5 | SHOULD | The agent gets the refusal as a tool_result and may continue.
R-9.6-6 | MAY | A cost.budget.remaining metric follows the cost metric that changed the counter.
R-9.7-1 | RULE | model.use has globs of model names. A model that matches none of them is refused
    with PERMISSION_DENIED.
R-9.8-1 | RULE | Credentials are issued only if they can be revoked and kept secret: with a
    durable log, and over TLS, over stdio or in the same process.
R-9.8-2 | RULE | Credentials come with the acceptance, and are revoked before the terminal message
    arrives.
R-9.8-3 | RULE | The submitting session gets a rotated value. An observer gets the event without
    the value.
R-10-1 | MAY | A delegation emits delegate. The acceptance and the events of the child reach the
    submitting session, with parent_job_id.
R-10-2 | MUST NOT | A delegation that exceeds the parent's remaining budget or expiry is refused.
R-11-1 | RULE | Every frame of a job has the trace_id of its submit. | divergence=The runtime
    sends the 32 hexadecimal digits, whether the submit has a bare trace id or a whole
    traceparent; the text shows both forms.
R-11-2 | MUST | The trace is forwarded to tools, as JobContext.trace_id, and to sub-agents.
R-12-1 | RULE | Every error has code, message and retryable, and the request_id of the request
    that it answers.
R-12-2 | RULE | A malformed frame is answered with INVALID_REQUEST, and the session continues.
R-12-3 | RULE | A request for an unknown agent is refused with AGENT_NOT_AVAILABLE, a request for
    an unknown job with JOB_NOT_FOUND.
R-12-4 | MUST | LEASE_EXPIRED and BUDGET_EXHAUSTED are not retryable.
R-12-5 | RULE | An agent that crashes ends its job with INTERNAL_ERROR, retryable, without the
    text of the exception.
R-12-6 | RULE | A job that exceeds max_runtime_sec ends with TIMEOUT and final_status timed_out.
R-14-1 | MUST | By default only the submitting principal may observe a job. Only a policy can
    allow others.
R-14-2 | MUST NOT | The right to observe a job does not include the right to cancel it, even where
    a policy grants the right to observe.
R-14-3 | MUST | expires_at is evaluated with a monotonic clock, and also with the wall clock in
    case the machine slept.
R-14-4 | SHOULD | A job whose lease has expired gets a grace of 1 s, and the expiry is logged.
R-14-5 | SHOULD | The size of a chunk and the size of a whole streamed result are limited. Beyond
    a limit, the job ends with INTERNAL_ERROR.
R-14-6 | SHOULD | The number of sessions of a principal is limited.
R-14-7 | SHOULD | Sessions that send nothing for a long time may be disconnected. | divergence=The
    runtime keeps a session that answers heartbeats, up to the limit of its principal. Beyond the
    limit, sessions without a connection make room.
R-14-8 | SHOULD | Every job.subscribe is logged with the observer, the job, the job's principal
    and the decision.
R-14-9 | MUST | Strong budgets are also enforced at the tool server or gateway. |
    free=deployments; a Provisioner is where they hook in.
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
