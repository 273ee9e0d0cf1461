"""Connects the parts of a runtime, opens its event log, and shuts the runtime down."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from arcp_client._log_fields import log_fields
from arcp_client._security import WrongTokens
from arcp_client._tasks import TaskOwner, is_elsewhere, start
from arcp_client._telemetry import RuntimeFigures, RuntimeTelemetry
from arcp_client._wire import names
from arcp_client.errors import ConnectFailed, LocalProtocolError, StorageError
from arcp_client.runtime._agents.authorizer import Authorizer
from arcp_client.runtime._agents.registry import AgentRegistry, agent_elsewhere
from arcp_client.runtime._connection import frames
from arcp_client.runtime._connection.authentication import Gate
from arcp_client.runtime._connection.connection import Connection
from arcp_client.runtime._connection.dialogue_requests import DialogueRequests
from arcp_client.runtime._connection.handshake import Identity, ServerHandshake
from arcp_client.runtime._connection.links import Links
from arcp_client.runtime._connection.replies import Replies
from arcp_client.runtime._connection.requests import RequestHandler, subscription_broken
from arcp_client.runtime._dialogue.book import QuestionBook
from arcp_client.runtime._dialogue.elsewhere import Elsewhere
from arcp_client.runtime._dialogue.inbox import Mailroom
from arcp_client.runtime._dialogue.shared_book import SharedQuestionBook
from arcp_client.runtime._jobs.admission import Admission, Delegation
from arcp_client.runtime._jobs.compat import SPECIFICATION, Compat
from arcp_client.runtime._jobs.idempotency import IdempotencyKeys
from arcp_client.runtime._jobs.job import PENDING, RUNNING, ServerJob
from arcp_client.runtime._jobs.mirrors import Mirrors
from arcp_client.runtime._jobs.outcomes import LEASE_PAST, PARENT_ENDED, SHUT_DOWN
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._jobs.restore import restore
from arcp_client.runtime._leases.credentials import Provisioner, Vault
from arcp_client.runtime._leases.grant import Budget
from arcp_client.runtime._log.dialogue import AnswersOffered, MessagesOffered, QuestionsMoved
from arcp_client.runtime._log.directory import (
    CallsLeft,
    CancelRequested,
    Directory,
    JobDelegated,
    JobMoved,
    ReplicaGone,
    Replicated,
    Resync,
    SessionTaken,
)
from arcp_client.runtime._log.entries import QuestionState, Watch
from arcp_client.runtime._log.event_log import EventLog
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._log.local_directory import LocalDirectory
from arcp_client.runtime._replica import Replica, bounds_of
from arcp_client.runtime._sessions.registry import SessionRegistry
from arcp_client.runtime._webhooks.endpoint import Webhook
from arcp_client.runtime._webhooks.notices import WebhookNotices
from arcp_client.runtime.context import JobContext
from arcp_client.runtime.limits import Limits, Policy
from arcp_client.runtime.probes import Counts

__all__ = ["Core"]

_log = logging.getLogger("arcp_client.runtime")

_LAST_WRITES = 5.0
_LAST_CALLS = 2.0


class Core:
    """Holds the parts of a `Runtime`.

    Args:
        identity: the runtime's description in the welcome.
        gate: authenticates clients.
        event_log: stores events for resumes.
        limits: all limits.
        policy: lets principals observe the jobs of others.
        steering: lets sessions send messages to jobs that they did not submit.
        provisioner: issues credentials.
        compat: adapts payloads to the SDKs that connect.
        telemetry: traces jobs and counts events.
        webhooks: URLs that are called for events.
    """

    def __init__(
        self,
        identity: Identity,
        gate: Gate,
        event_log: EventLog,
        limits: Limits,
        policy: Policy | None,
        steering: Policy | None,
        provisioner: Provisioner | None,
        compat: Compat = SPECIFICATION,
        telemetry: RuntimeTelemetry | None = None,
        webhooks: Sequence[Webhook] = (),
    ) -> None:
        self._telemetry = telemetry
        self.limits = limits
        self.agents = AgentRegistry()
        self.tasks = TaskOwner(f"runtime {identity.name}")
        self.wrong_tokens = WrongTokens()
        self.closed = False
        self._home: asyncio.AbstractEventLoop | None = None
        self._identity = identity
        self._event_log = event_log
        self._directory: Directory = (
            event_log.directory() if isinstance(event_log, Replicated) else LocalDirectory()
        )
        self._opening = asyncio.Lock()
        self._opened = not event_log.durable
        self._damaged: StorageError | None = None
        self._closing: asyncio.Task[None] | None = None  # kept until it has ended
        self._journal = Journal(event_log, self.tasks, limits.journal_bytes)
        journal = self._journal if event_log.durable else None
        self._webhooks = WebhookNotices(
            webhooks,
            limits.webhook_calls,
            self._journal,
            self.tasks,
            durable=event_log.durable,
        )
        self._keys = IdempotencyKeys(
            limits.idempotency_window, limits.idempotency_keys, journal, limits.idempotency_bytes
        )
        self.vault = None if provisioner is None else Vault(provisioner, self.tasks, self._journal)
        self.jobs = JobRegistry(
            limits,
            TaskOwner(f"runtime {identity.name} jobs"),
            policy=policy,
            steering=steering,
            journal=journal,
            context=self._context,
            compat=compat,
            before_end=self._end_credentials if self.vault is not None else None,
            telemetry=telemetry,
            vacant=self._directory.vacant,
            noticed=self._webhooks.noticed if webhooks else None,
        )
        self.admission = Admission(
            self.agents.resolve,
            agent_elsewhere,
            self.jobs,
            limits,
            self._keys,
            self.vault,
            self._directory,
            compat,
        )
        self.sessions = SessionRegistry(
            limits,
            event_log,
            window=identity.resume_window,
            on_gone=self.jobs.released,
            journal=journal,
        )
        shared = self._directory.dialogue
        self.questions: QuestionBook = (
            QuestionBook(self.jobs, self.sessions, limits, self._journal, durable=event_log.durable)
            if shared is None
            else SharedQuestionBook(
                self.jobs, self.sessions, limits, self._journal, shared, self.tasks
            )
        )
        self.mailroom = Mailroom(limits, self._journal, shared, self.tasks)
        self._elsewhere = (
            None if shared is None else Elsewhere(shared, self.jobs, limits, self.tasks)
        )
        self._replica = Replica(
            bounds_of(limits, identity.resume_window),
            self.agents,
            self.jobs,
            self.admission,
            self.sessions,
            self._webhooks,
            self._journal,
            self._fenced,
        )
        self._mirrors = Mirrors(self._directory.jobs, self.jobs, self.tasks, subscription_broken)
        replies = Replies(self._journal.then)
        self._requests = RequestHandler(
            self.jobs,
            self.admission,
            self._mirrors,
            self._directory,
            DialogueRequests(
                self.jobs,
                self._mirrors,
                self.questions,
                self.mailroom,
                self._elsewhere,
                replies,
                self.tasks,
            ),
            limits,
            replies,
            self.tasks,
        )
        handshake = ServerHandshake(
            identity,
            gate,
            self.sessions,
            self.wrong_tokens,
            self.tasks,
            shared=self._directory.sessions,
            follow=self._mirrors.take_over,
            inventory=lambda: self._directory.inventory(self.agents.inventory()),
            features=self._features,
            stored=self._journal.flushed,
            resumed=None if telemetry is None else telemetry.resumed,
        )
        self.links = Links(
            handshake,
            self._requests,
            self.sessions,
            limits,
            identity.heartbeat_interval,
            self._journal.flushed,
            self.tasks,
        )

    def _features(self, connection: Connection) -> frozenset[str]:
        offered = set(names.OFFERED) - self._directory.withheld
        if self._identity.heartbeat_interval is None:
            offered.discard(names.HEARTBEAT)
        if self.vault is None or not self._event_log.durable or not connection.arrival.secure:
            # Credentials require a private link and a revocation that survives a restart (§9.8).
            offered.discard(names.CREDENTIALS)
        return frozenset(offered)

    # ----------------------------------------------------------------------- opening

    async def begin(self) -> None:
        """Open the event log on the first call.

        Raises:
            ConnectFailed: the runtime was closed.
            LocalProtocolError: the runtime belongs to another event loop.
        """
        self._check_loop()
        if self.closed:
            raise ConnectFailed(f"the runtime {self._identity.name} was closed", permanent=True)
        if not self._opened:
            async with self._opening:
                await self._open()

    def _check_loop(self) -> None:
        """Bind the runtime to the first event loop that uses it, while that loop is open."""
        if self._home is None or self._home.is_closed():
            self._home = asyncio.get_running_loop()
            if self._telemetry is not None:
                self._telemetry.opened(self._figures)
        elif is_elsewhere(self._home):
            raise LocalProtocolError(
                f"runtime {self._identity.name} belongs to another event loop: use it there (from"
                " another thread, with asyncio.run_coroutine_threadsafe, or over a WebSocket)"
            )

    async def _open(self) -> None:
        if self._opened:
            return
        if self._damaged is not None:
            raise copy.copy(self._damaged)
        stored = await self._event_log.open()
        try:
            restore(
                stored,
                self.sessions,
                self.jobs,
                self._keys,
                subscription_broken,
                self._restore_dialogue,
            )
        except Exception as error:  # an entry is malformed: reported as an error of the log
            self.sessions.close()
            self.jobs.close()
            self.questions.close()
            await self._event_log.close()
            log = self._event_log
            self._damaged = StorageError(
                f"the entries of {log!r} cannot be restored: the log is damaged",
                path=os.fspath(getattr(log, "path", "")),
                permanent=True,
            )
            raise self._damaged from error
        await self._directory.join(self._replica)
        self._webhooks.restore(stored.calls)
        self._opened = True
        self.tasks.spawn(self._follow(), name="changes")
        for left in stored.credentials:
            if self.vault is not None:
                self.vault.revoke_later(left.job_id, [left.credential_id])
            else:
                _log.error(
                    "job %s left a credential; no provisioner can revoke it",
                    left.job_id,
                    extra=log_fields(job=left.job_id),
                )

    # ---------------------------------------------------------------------- replicas

    def _fenced(self) -> None:
        """Drop all sessions and jobs, because this replica's lease was past."""
        _log.error("%s: its lease was past; its sessions and jobs are dropped", self._identity.name)
        self.links.dismiss(LEASE_PAST.message)
        for session_id in self.sessions.ids():
            self.sessions.lose(session_id)
        self.jobs.discard_all(LEASE_PAST)
        self.questions.drop()
        self.mailroom.drop()
        self._webhooks.drop()
        self._journal.drop()

    async def _follow(self) -> None:
        """Apply the changes of other replicas."""
        mirrors = self._mirrors
        async for change in self._directory.changes():
            match change:
                case JobMoved(job_id=job_id):
                    mirrors.wake(job_id)
                    if self._elsewhere is not None:
                        self._elsewhere.wake(job_id)
                case CancelRequested(job_id=job_id, reason=reason):
                    job = self.jobs.get(job_id)
                    if job is not None and not job.ended:
                        self._requests.cancelled(job, reason)
                case SessionTaken(session_id=session_id):
                    self.sessions.lose(session_id)
                case JobDelegated(watch=watch):
                    self.tasks.spawn(self._announce(watch), name="announce")
                case QuestionsMoved() as questions:
                    self.questions.changed(questions)
                case AnswersOffered(answers=answers):
                    self.questions.offered(answers)
                case MessagesOffered(messages=messages):
                    self.mailroom.offered(messages, self.jobs)
                case CallsLeft(calls=calls):
                    self._webhooks.restore(calls)
                case ReplicaGone() | Resync():
                    mirrors.wake_all()
                    self.questions.changed(QuestionsMoved(None))

    async def _announce(self, watch: Watch) -> None:
        """Announce a job that was delegated on another replica, and deliver its events."""
        session, mirrors = self.sessions.get(watch.session_id), self._mirrors
        if session is None or watch.job_id in session.feeds or watch.job_id in session.jobs:
            return
        job = await mirrors.retried(session, watch.job_id, partial(mirrors.find, watch.job_id))
        if job is not None and watch.job_id not in session.jobs:
            session.jobs.add(job.id)
            session.control(frames.acceptance(job.accepted, session.id, None))
            await mirrors.keep_following(session, watch)

    def _restore_dialogue(self, questions: Sequence[QuestionState]) -> None:
        self.questions.restore(questions)
        for job in self.jobs.open():
            self.mailroom.restore(job)

    # -------------------------------------------------------------------------- jobs

    def _context(self, job: ServerJob, holder: Callable[[Budget], ServerJob | None]) -> JobContext:
        return JobContext(
            job,
            self.limits,
            Authorizer(job, holder),
            self._delegate,
            self.questions.ask,
            self.mailroom.inbox,
        )

    async def _delegate(self, parent: ServerJob, wish: Delegation) -> ServerJob:
        """Accept a child, announce it in the parent's session and start it.

        While the event log cannot be written, this waits. An agent that is interrupted meanwhile
        does not know of its child, which then ends.
        """
        await self._journal.recovered()
        return await self.tasks.complete(
            self._delegated(parent, wish),
            name="delegate",
            late=lambda child: self.jobs.runner.stop(child, PARENT_ENDED),
        )

    async def _delegated(self, parent: ServerJob, wish: Delegation) -> ServerJob:
        child = await self.admission.delegate(parent, wish)
        if parent.ended or parent.stopping is not None:
            self.jobs.runner.stop(child, PARENT_ENDED)
            raise LocalProtocolError("the delegating job has ended")
        parent.emit(
            "delegate",
            {
                "child_job_id": child.id,
                "delegate_id": child.delegate_id,
                "agent": child.agent,
                "lease": child.grant.wire(),
            },
        )
        acceptance = child.accepted

        def announce() -> None:
            if child.owner is not None:
                child.owner.control(frames.acceptance(acceptance, child.owner.id, None))
            elif self.sessions.get(child.owner_id) is not None:  # it had moved, and has come back
                watch = Watch(child.owner_id, child.id, 0)
                self.tasks.spawn(self._announce(watch), name="announce")
            self.jobs.runner.admit(child)

        self._journal.then(announce)
        return child

    async def _end_credentials(self, job: ServerJob) -> None:
        assert self.vault is not None
        await self.vault.revoke(job.id, list(job.credentials))

    def _figures(self) -> RuntimeFigures:
        """The counts for telemetry."""
        jobs = Counter(job.status for job in self.jobs.open())
        sessions = self.sessions
        return RuntimeFigures(
            sent=sessions.sent,
            unsent=sessions.unsent,
            waiting=sessions.behind,
            connections=len(self.links.connections),
            sessions=len(sessions),
            resumes=sessions.resumes,
            pending=jobs[PENDING],
            running=jobs[RUNNING],
        )

    # ------------------------------------------------------------------------ closing

    @property
    def state(self) -> str:
        """The state for the runtime's repr: "new", "closed", or "open" and the number of jobs."""
        if self.closed:
            return "closed"
        jobs = len(self.jobs.open())
        return "new" if self._home is None else f"open, {jobs} job{'' if jobs == 1 else 's'}"

    @property
    def holds_something(self) -> bool:
        """Whether the runtime must be closed: it has open jobs, or a durable event log."""
        if self.closed or self._home is None or self._home.is_closed():
            return False
        if self._event_log.durable and self._opened:
            return True
        return bool(self.jobs.open() or self._webhooks.waiting)

    def abandon(self) -> None:
        """Close a runtime that is no longer referenced. May be called from any thread."""
        if self._home is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._home.call_soon_threadsafe(self._abandon)

    def _abandon(self) -> None:
        if not self.closed:
            self._closing = start(self.close(0.0), name=f"runtime {self._identity.name}:close")

    def counts(self) -> Counts:
        """Return the present state, for probes."""
        jobs = self.jobs.open()
        running = sum(job.status == RUNNING for job in jobs)
        return Counts(
            ready=self._opened and not self.closed and self._directory.ready,
            connections=len(self.links.connections),
            sessions=len(self.sessions),
            pending=len(jobs) - running,
            running=running,
            retained=len(self.jobs) - len(jobs),
            mirrored=len(self.jobs.mirrors),
            written=self._journal.written,
            waiting=self._journal.waiting,
            failing=self._journal.failing,
            calls_waiting=self._webhooks.waiting,
            calls_made=self._webhooks.made,
            calls_dropped=self._webhooks.dropped,
        )

    async def close(self, timeout: float) -> None:
        """Refuse new jobs, end the running ones, send their terminals, close all links."""
        self._check_loop()
        self.closed = self.jobs.closing = True
        if self._opened and timeout > 0 and await self._directory.drain(timeout=timeout):
            self.links.dismiss("this replica of the runtime is shut down; connect again")
            await self._replica.hand_over(self._directory, timeout=timeout)
        await self.jobs.runner.end_all(self.jobs.open, SHUT_DOWN, timeout)
        await self._journal.drain(_LAST_WRITES)
        await self._webhooks.close(_LAST_CALLS)
        await self.links.finish()
        self.sessions.close()
        self.jobs.close()
        self.questions.close()
        await self.links.ended()
        await self._journal.drain(_LAST_WRITES)
        await self._directory.leave(timeout=_LAST_WRITES)
        await self.tasks.close()
        await self._event_log.close()
        if self._telemetry is not None:
            self._telemetry.closed()
