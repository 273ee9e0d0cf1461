"""Frames and the time in, events and effects out: one session across all its links (§6).

A `Session` holds no socket, no loop and no clock; ``now`` is an argument, in seconds of any
monotonic clock. Call a verb, then do what `take` gives, in that order.

The states and what moves between them, as data:

====================  ==========  ==============================================
state                 on          next
====================  ==========  ==============================================
``DOWN``              greet       ``GREETING``: hello is sent, with a resume if there is one
``GREETING``          welcome     ``LIVE``
``GREETING``          lost        ``DOWN``
``LIVE``              lost        ``DOWN``: requests and jobs wait for the next link
``LIVE``              close       ``CLOSING``: the runtime is told
``CLOSING``           closed      ``ENDED``
``CLOSING``           lost        ``ENDED``
any                   end         ``ENDED``
====================  ==========  ==============================================
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Sequence_
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from pydantic import SecretStr

from .._wire import dialect
from .._wire.bodies import ChunkPayload, StatusPayload, TypedEvent
from .._wire.build import rotated_credential, terminal_event, to_event
from .._wire.codec import BadFrame, ControlFrame, EventFrame, Frame, decode, encode, fingerprint
from .._wire.dialect import DIALECTS, Dialect
from .._wire.ids import new_id, new_prefixed_id, now_text, parse_time
from .._wire.messages import (
    Ack,
    Auth,
    Bye,
    Cancel,
    Capabilities,
    Close,
    Hello,
    ListJobs,
    Ping,
    Pong,
    Subscribe,
    Unsubscribe,
)
from .._wire.replies import (
    Accepted,
    JobPage,
    Subscribed,
    read_accepted,
    read_jobs,
    read_refusal,
    read_subscribed,
    read_welcome,
    reply_to,
)
from ..errors import (
    ArcpError,
    FeatureNotNegotiated,
    HeartbeatLost,
    JobLost,
    LinkLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    ResultUnavailable,
    ResumeExpired,
    SessionClosed,
    Unauthenticated,
    job_error,
    request_error,
)
from ..events import Event, Gap
from ..models import Checkpoint, ClientInfo, SessionInfo
from . import effects
from .effects import Effect
from .jobs import KnownJob, KnownJobs
from .liveness import Liveness, Pulse
from .recovery import (
    Announce,
    Ask,
    Asking,
    Attach,
    Deliver,
    Fetch,
    GiveUp,
    Look,
    Means,
    Recovery,
    Step,
)
from .requests import Request, Requests
from .resume import Next, ResumeState
from .sequence import Copies, Hole, Sequence, TolerantSequence, Verdict

__all__ = ["Session", "State"]


class State(enum.Enum):
    """Where a session stands."""

    DOWN = "down"
    GREETING = "greeting"
    LIVE = "live"
    CLOSING = "closing"
    ENDED = "ended"


TRANSITIONS: Final[Mapping[tuple[State, str], State]] = {
    (State.DOWN, "greet"): State.GREETING,
    (State.GREETING, "welcome"): State.LIVE,
    (State.GREETING, "lost"): State.DOWN,
    (State.LIVE, "lost"): State.DOWN,
    (State.DOWN, "lost"): State.DOWN,
    (State.LIVE, "close"): State.CLOSING,
    (State.CLOSING, "closed"): State.ENDED,
    (State.CLOSING, "lost"): State.ENDED,
    (State.ENDED, "lost"): State.ENDED,
    **{(state, "end"): State.ENDED for state in State},
}

_NEEDS = {
    dialect.LIST_JOBS: dialect.LISTING,
    dialect.SUBSCRIBE: dialect.SUBSCRIPTIONS,
    dialect.PING: dialect.HEARTBEAT,
}

OWN_TIMEOUT: Final = 30.0
"""Seconds that the runtime has for an answer to what the session asks on its own account."""

_REFUSALS = frozenset(
    {
        dialect.PERMISSION_DENIED,
        dialect.JOB_NOT_FOUND,
        dialect.DUPLICATE_KEY,
        dialect.INVALID_REQUEST,
    }
)
"""Codes that, in a job.error, may answer a request about a job that goes on."""

_SUBMIT_REFUSALS = _REFUSALS | {
    dialect.AGENT_NOT_AVAILABLE,
    dialect.AGENT_VERSION_NOT_AVAILABLE,
    dialect.LEASE_SUBSET_VIOLATION,
    dialect.UNAUTHENTICATED,
}

_Held = tuple[EventFrame | ControlFrame | BadFrame, bytes]


class Session:
    """One session of a client.

    Args:
        info: who the client says it is.
        features: what to offer; only what both sides offer is used (§6.2).
        checkpoint: go on with this session.
        limit: how many events may wait behind a hole.
        spoken: the runtime's dialect, where it must not be recognised from the welcome.
    """

    def __init__(
        self,
        *,
        info: ClientInfo | None = None,
        features: tuple[str, ...] = dialect.FEATURES,
        checkpoint: Checkpoint | None = None,
        limit: int = 8192,
        spoken: Dialect | None = None,
    ) -> None:
        self.state = State.DOWN
        self.info: SessionInfo | None = None
        self.requests = Requests()
        self.jobs = KnownJobs()
        self.reserved = 0
        self.bad_frames = 0
        self.gaps = 0
        self._client = info or ClientInfo()
        self._features = features
        self._limit = limit
        self._override = spoken
        self._dialect = spoken
        self._out: list[Effect] = []
        self._resume = ResumeState()
        self._sequence: Sequence[_Held] = Sequence(limit=limit)
        self._liveness = Liveness(None, 0.0)
        self._tolerant: TolerantSequence[_Held] | None = None
        self._apart: set[str] = set()
        self._copies: Copies | None = None
        self._recovery: Recovery[tuple[ControlFrame, bytes]] = Recovery()
        self._welcomed_at: datetime | None = None
        self._gone: ArcpError | None = None
        self._gone_id: str | None = None
        self._own_id = new_prefixed_id("sess")
        self._close_at: float | None = None
        self._warned_of_repeats = False
        if checkpoint is not None:
            token = SecretStr(checkpoint.resume_token)
            self._resume = ResumeState(session_id=checkpoint.session_id, token=token)
            self._sequence = Sequence(cursor=checkpoint.mark, limit=limit)
            self.reserved = checkpoint.reserved

    # ------------------------------------------------------------------ what callers see

    def take(self) -> list[Effect]:
        """What is to be done, in order; each effect is given once."""
        out, self._out = self._out, []
        return out

    @property
    def session_id(self) -> str | None:
        """The session's id, ``None`` before the first welcome."""
        return self._resume.session_id

    @property
    def resume_token(self) -> SecretStr | None:
        """The newest resume token."""
        return self._resume.token

    @property
    def received(self) -> int:
        """Every number up to it was received (the *received* cursor)."""
        return self._sequence.cursor

    @property
    def repeated(self) -> int:
        """How many repeats were dropped."""
        return self._sequence.repeated

    @property
    def dialect(self) -> Dialect:
        """How the runtime speaks; ``unknown`` before the first welcome."""
        return self._dialect or DIALECTS["unknown"]

    @property
    def heard_at(self) -> float:
        """When the last message came."""
        return self._liveness.heard_at

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called next."""
        moments = [self.requests.deadline, self._sequence.deadline, self._close_at]
        if self.state is State.LIVE:
            moments += [self._liveness.deadline, self._recovery.deadline]
        return min((moment for moment in moments if moment is not None), default=None)

    # ------------------------------------------------------------------ the link

    def greet(self, token: SecretStr, now: float) -> None:
        """A link is open: say hello, and ask to resume if there is something to."""
        self._move("greet")
        self._liveness = Liveness(None, now)
        hello = Hello(
            client=self._client,
            auth=Auth(token=token),
            capabilities=Capabilities(features=self._features),
            resume=self._resume.block(self._sequence.cursor),
        )
        # Always with a session id: one runtime takes it from here, the others ignore it.
        session_id = self._resume.session_id or self._own_id
        self._out.append(
            effects.Send(encode(dialect.HELLO, hello.wire(), id=new_id(), session_id=session_id))
        )

    def lost(self, now: float) -> None:
        """The link is gone. What waits for an answer waits for the next link."""
        was_closing = self.state is State.CLOSING
        self._move("lost")
        self._perform(self._recovery.lost(), now)
        if self._copies is not None:
            self._copies.closed()
        for request in self.requests:
            if isinstance(request.token, Asking):
                self.requests.remove(request)  # asked anew on the next link, if still of interest
        self.requests.unsend()
        if was_closing:
            self._out.append(effects.Ended(None))

    def receive(self, data: bytes, now: float) -> Event | None:
        """One frame came.

        Gives the event that it was, if delivering that is all there is to do; else ``None``, and
        `take` has what is to be done. Nearly every frame is an event in order: this spares each
        of them a list.
        """
        self._liveness.heard_at = now
        frame = decode(data)
        if type(frame) is TypedEvent and self.state is State.LIVE and not self._out:
            seq = frame.event_seq
            if (
                seq is not None
                and self._tolerant is None
                and not self._recovery.busy
                and not self._sequence.holding
                and not (type(frame.payload) is StatusPayload and _rotates(frame.payload))
                and self._sequence.advance(seq)
            ):
                return to_event(frame, data, seq <= self.reserved)
        self._receive(frame, data, now)
        return None

    def _receive(self, frame: Frame, data: bytes, now: float) -> None:
        if isinstance(frame, ControlFrame):
            self._control(frame, data, now)
        elif self.state is State.LIVE or self.state is State.CLOSING:
            self._ordered(frame, data, now)
        elif isinstance(frame, BadFrame):
            self._out.append(effects.Report(str(frame.error), frame.error))
        # Events before the welcome belong to no session yet; the replay brings them.

    def pause(self, now: float) -> None:
        """Nobody reads the link for a while."""
        self._liveness.pause(now)

    def unpause(self, now: float) -> None:
        """The link is read again."""
        self._liveness.unpause(now)

    def tick(self, now: float) -> None:
        """Time has passed; to be called at `deadline`, may be called at any time."""
        for request, late in self.requests.expire(now):
            self._ended_without_answer(request, late, now)
        if self._close_at is not None and now >= self._close_at:
            self._close_at = None
            if self.state is State.CLOSING:
                self._control_out(dialect.CLOSE, Close().wire(), now)
        if self.state is not State.LIVE:
            return
        self._settle(now)
        self._perform(self._recovery.tick(now), now)
        pulse = self._liveness.look(now)
        if pulse is Pulse.DEAD:
            silent = now - self._liveness.heard_at
            self._relink(HeartbeatLost(f"nothing heard from the runtime for {silent:.3g} s (§6.4)"))
        elif pulse is Pulse.PING:
            self._control_out(dialect.PING, Ping(nonce=new_id(), sent_at=now_text()).wire(), now)

    # ------------------------------------------------------------------ verbs of the client

    def request(self, request: Request, now: float) -> None:
        """Ask the runtime for something; now, or as soon as there is a link (S7).

        Raises:
            LocalProtocolError: the session is over.
        """
        if self.state in (State.CLOSING, State.ENDED):
            raise LocalProtocolError(f"the session is {self.state.value}")
        self.requests.add(request)
        if self.state is State.LIVE:
            self._flush(now)

    def withdraw(self, request: Request) -> None:
        """Nobody waits for it any more; an answer will find nobody."""
        self.requests.remove(request)

    def refuse(self, request: Request, error: ArcpError, now: float) -> None:
        """It cannot be sent, now or later."""
        self._refuse(request, error, now)

    def ack(self, mark: int, now: float) -> bool:
        """Tell the runtime what was processed (§6.5); False if it does not want to know."""
        if self.state is not State.LIVE or not self.negotiated(dialect.ACKS):
            return False
        self._control_out(dialect.ACK, Ack(last_processed_seq=mark).wire(), now)
        return True

    def unsubscribe(self, job_id: str, now: float) -> None:
        """Watch a job no longer; there is no reply to it (§7.6)."""
        job = self.jobs.get(job_id)
        if job is not None and not job.mine:
            self.jobs.forget(job_id)
        if self.state is State.LIVE:
            self._control_out(dialect.UNSUBSCRIBE, Unsubscribe(job_id=job_id).wire(), now)

    def close(self, now: float, *, patience: float = 0.25) -> None:
        """End the session in the way that its runtime understands (§6.7); jobs run on.

        ``Ended`` follows, at once where no answer is to be expected.
        """
        if self.state is not State.LIVE:
            self.end(None)
            return
        form = self.dialect.close_with
        if form == "drop":  # any message would cancel the jobs
            self.end(None)
            return
        self._move("close")
        if form in ("bye", "both"):
            self._control_out(dialect.BYE, Bye().wire(), now)
        if form == "both":
            self._close_at = now + patience
        elif form == "close":
            self._control_out(dialect.CLOSE, Close().wire(), now)
        else:
            self.end(None)

    def end(self, cause: ArcpError | None) -> None:
        """It is over, here and now. Open requests end with it."""
        if self.state is State.ENDED:
            return
        self._move("end")
        self._close_at = None
        self._out.append(effects.Ended(cause))

    def negotiated(self, feature: str) -> bool:
        """Whether both sides offered a feature."""
        return self.info is not None and feature in self.info.features

    # ------------------------------------------------------------------ order

    def _ordered(
        self, frame: EventFrame | ControlFrame | BadFrame, data: bytes, now: float
    ) -> None:
        """Bring a frame into order and deliver it, and what it lets go."""
        if self._recovery.busy:
            self._recovery.seen(frame.job_id, now)
        sequence = self._sequence
        seq = frame.event_seq
        apart = bool(self._apart) and frame.job_id in self._apart and not self._stored(frame)
        if self._tolerant is not None and self._came_before(frame):
            if seq is None or apart:
                return
            frame = ControlFrame(type="")  # its number counts all the same
        if seq is None or apart:
            if sequence.after((frame, data)):
                self._deliver(frame, data)
            return
        if not sequence.advance(seq):
            verdict = sequence.offer(seq, (frame, data), now)
            if verdict is not Verdict.NEXT:
                if verdict is Verdict.REPEAT:
                    self._repeat(seq)
                else:
                    self._settle(now)
                return
        self._deliver(frame, data)
        if sequence.holding:
            for held, held_data in sequence.release():
                self._deliver(held, held_data)

    def _stored(self, frame: EventFrame | ControlFrame | BadFrame) -> bool:
        """Whether it is a stored outcome, which is numbered with the session's own events."""
        if not isinstance(frame, ControlFrame) or not self.dialect.stored_outcomes:
            return False
        return frame.session_id != self.session_id or (
            frame.job_id is not None and self._recovery.fetching(frame.job_id)
        )

    def _came_before(self, frame: EventFrame | ControlFrame | BadFrame) -> bool:
        """Whether the envelope id shows a repeat, where numbers cannot be trusted.

        Never for terminals: one runtime sends a stored one again under its old id, on request.
        """
        assert self._tolerant is not None
        if isinstance(frame, ControlFrame):
            return False
        if self._tolerant.is_repeat(frame.job_id, frame.id):
            return True
        if self._copies is None or isinstance(frame, BadFrame) or frame.job_id is None:
            return False
        content = fingerprint(frame)
        return content is not None and self._copies.came(frame.job_id, content)

    def _deliver(self, frame: EventFrame | ControlFrame | BadFrame, data: bytes) -> None:
        if isinstance(frame, EventFrame):
            if self._recovery.busy and not self._recovery.wants(
                frame.job_id, of_result=type(frame.payload) is ChunkPayload
            ):
                return
            seq = frame.event_seq
            again = seq is not None and seq <= self.reserved
            event = to_event(frame, data, again)
            if type(frame.payload) is StatusPayload and _rotates(frame.payload):
                self._rotated(frame.job_id, data)
            self._out.append(event)
        elif isinstance(frame, BadFrame):
            self._bad(frame)
        elif frame.type in dialect.TERMINALS:
            self._terminal(frame, data)

    def _terminal(self, frame: ControlFrame, data: bytes) -> None:
        seq = frame.event_seq
        event = terminal_event(frame, data, seq is not None and seq <= self.reserved)
        if event.job_id is None:
            self._report(f"a {frame.type} names no job; it was dropped")
            return
        here = frame.session_id == self.session_id
        if self._recovery.keep(event.job_id, (frame, data), here=here):
            return
        if not self.jobs.end(event.job_id):
            return
        self._recovery.ended(event.job_id)
        if self._copies is not None:
            self._copies.forget(event.job_id)
        self._out.append(event)
        for request in self.requests:
            if request.kind == dialect.CANCEL and request.job_id == event.job_id:
                self._answer(request, None, self._liveness.heard_at)

    def _bad(self, frame: BadFrame) -> None:
        """Report what could not be read; where its number could, it counts as received (S3)."""
        self.bad_frames += 1
        self._out.append(effects.Report(str(frame.error), frame.error))
        if frame.event_seq is not None:
            self._gap(frame.event_seq, frame.event_seq, "undecodable", job_id=frame.job_id)

    def _repeat(self, seq: int) -> None:
        if not self._warned_of_repeats:
            self._warned_of_repeats = True
            self._report(f"the runtime sent event {seq} again; repeats are dropped")

    def _settle(self, now: float) -> None:
        """Do what the time calls for about a hole in the sequence (S3)."""
        sequence = self._sequence
        if sequence.should_resume(now):
            wanted = sequence.cursor + 1
            self._relink(LinkLost(f"event {wanted} is missing (§8.3): asking for it again"))
            return
        for item in sequence.expire(now):
            if isinstance(item, Hole):
                self._gap(item.first, item.last, "lost")
            else:
                self._deliver(*item)

    def _gap(
        self,
        first: int,
        last: int | None,
        reason: Literal["lost", "unknown_end", "undecodable"],
        *,
        job_id: str | None = None,
    ) -> None:
        self.gaps += 1
        session_id = self.session_id or ""
        self._out.append(
            Gap(
                seq=first,
                first=first,
                last=last,
                reason=reason,
                session_id=session_id,
                job_id=job_id,
            )
        )

    def _rotated(self, job_id: str | None, data: bytes) -> None:
        rotated = rotated_credential(data)
        if rotated is not None and job_id is not None:
            name, value = rotated
            self._out.append(effects.Rotated(job_id, name, SecretStr(value)))

    # ------------------------------------------------------------------ control frames

    def _control(self, frame: ControlFrame, data: bytes, now: float) -> None:
        if self.state is State.GREETING:
            self._handshake(frame, now)
            return
        if self.state not in (State.LIVE, State.CLOSING):
            return
        if frame.type in dialect.TERMINALS:
            if frame.type == dialect.JOB_ERROR and self._refuses(frame):
                self._refused(frame, now)
                frame = ControlFrame(type="", event_seq=frame.event_seq)
            self._ordered(frame, data, now)
            return
        if frame.event_seq is not None:  # some runtimes number control frames too
            self._ordered(ControlFrame(type="", event_seq=frame.event_seq), data, now)
        handler = _HANDLERS.get(frame.type)
        if handler is not None:
            handler(self, frame, now)
        else:
            self._report(f"a message of the unknown type {frame.type[:80]!r} was ignored")

    def _handshake(self, frame: ControlFrame, now: float) -> None:
        if frame.type == dialect.WELCOME:
            self._welcome(frame, now)
        elif frame.type in dialect.LEGACY_TYPES:
            self._relink(
                RemoteProtocolError(
                    f"the peer speaks another protocol ({frame.type}) under the same version:"
                    " its family (session.open, tool.invoke) is not supported"
                )
            )
        elif frame.type in (dialect.SESSION_ERROR, dialect.JOB_ERROR):
            self._turned_away(frame)
        elif frame.type in (dialect.CLOSED, dialect.BYE):
            self._relink(SessionClosed("the runtime closed the session during the handshake"))

    def _welcome(self, frame: ControlFrame, now: float) -> None:
        welcome = read_welcome(frame, frozenset(self._features))
        if not welcome.info.id:
            self._relink(RemoteProtocolError("the welcome names no session"))
            return
        self._move("welcome")
        had_session = self._resume.possible or self._gone is not None
        ended = self._resume.session_id or self._gone_id
        resumed = self._resume.welcomed(welcome)
        self.info = welcome.info
        self._welcomed_at = parse_time(frame.payload.get("accepted_at"))
        self._dialect = self._override or welcome.dialect
        self._liveness = Liveness(welcome.info.heartbeat_interval, now)
        self._gone = None
        self._warned_of_repeats = False
        self._out.append(effects.Opened(welcome, resumed))
        cursor = self._sequence.cursor
        if resumed:
            self._go_on(now)
        else:
            if had_session:
                self._gap(cursor + 1, None, "unknown_end")
            self._start_anew()
        if had_session and not (resumed and self.dialect.jobs_survive_drop):
            self._lead_all_back(cursor, now, resumed=resumed, ended=ended)
        self._flush(now)

    def _go_on(self, now: float) -> None:
        """The numbers go on where they were."""
        if self._tolerant is None and not self.dialect.strict:  # from a checkpoint
            cursor = self._sequence.cursor
            self._sequence = self._tolerant = TolerantSequence(cursor=cursor, limit=self._limit)
        self._remember_copies()
        self._sequence.opened(now)

    def _start_anew(self) -> None:
        """A new session numbers from 1 again."""
        self.reserved = 0
        self._apart.clear()
        if self.dialect.strict:
            self._tolerant = None
            self._sequence = Sequence(limit=self._limit)
        elif self._tolerant is None:
            self._sequence = self._tolerant = TolerantSequence(limit=self._limit)
        else:
            for held in self._tolerant.rebase():
                self._deliver(*held)
            self._sequence = self._tolerant = self._tolerant.started_anew()
        self._remember_copies()

    def _remember_copies(self) -> None:
        if self.dialect.renames_copies and self._copies is None:
            self._copies = Copies()

    def _turned_away(self, frame: ControlFrame) -> None:
        """The runtime refused the hello."""
        refusal = read_refusal(frame)
        text = f"{refusal.code}: {refusal.message}" if refusal.message else refusal.code
        step = self._resume.refused(refusal, self._dialect)
        if step is Next.GIVE_UP:
            if refusal.code == dialect.UNAUTHENTICATED:
                self._relink(Unauthenticated(f"the runtime refused the token ({text})"))
            else:
                error = request_error(
                    refusal.code,
                    refusal.message,
                    retryable=refusal.retryable,
                    details=refusal.details,
                )
                self._relink(error)
            return
        cause = ResumeExpired(f"the runtime refused the resume ({text})")
        if step is Next.FRESH:
            self._gone = cause
            self._gone_id = self._resume.session_id
            self._resume.forget()
        self._relink(cause)

    # -- replies and requests of the runtime

    def _accepted(self, frame: ControlFrame, now: float) -> None:
        accepted = read_accepted(frame)
        if accepted is None:
            self._report("a job.accepted names no job; it was ignored")
            return
        child = accepted.parent_job_id is not None or accepted.delegate_id is not None
        request = self.requests.answered_by(frame)
        if child and request is not None and reply_to(frame) is None:
            request = None  # unasked for: a delegated job, not an answer to a submit
        if request is not None and isinstance(request.token, Asking):
            self._answer(request, accepted, now)
            self._flush(now)
            return
        elsewhere = bool(frame.session_id) and frame.session_id != self.session_id
        self._out.append(
            effects.JobKnown(
                accepted, mine=request is not None, request=request, elsewhere=elsewhere
            )
        )
        if self.jobs.has_ended(accepted.job_id):
            job = KnownJob(accepted.job_id)  # its end was delivered: nothing is to come of it
        else:
            job = self.jobs.learn(accepted.job_id)
        job.agent = accepted.agent
        if request is not None:
            job.mine = True
            job.home = frame.session_id or self.session_id or ""
            job.key = request.key
            job.payload = request.payload
            job.trace_id = request.trace_id
            request.job_id = accepted.job_id
            self._answer(request, accepted, now)
            if self.jobs.get(accepted.job_id) is job:
                self._lead_back_if_old(job, accepted, request, now, elsewhere=elsewhere)
        self._flush(now)

    def _subscribed(self, frame: ControlFrame, now: float) -> None:
        subscribed = read_subscribed(frame)
        request = self.requests.answered_by(frame)
        if subscribed is None or request is None:
            self._report("a job.subscribed that nobody waits for was ignored")
            return
        self._out.append(effects.JobKnown(subscribed, mine=False, request=request))
        self._answer(request, subscribed, now)
        self._flush(now)

    def _page(self, frame: ControlFrame, now: float) -> None:
        request = self.requests.answered_by(frame)
        if request is not None:
            self._answer(request, read_jobs(frame), now)
        self._flush(now)

    def _cancelled(self, frame: ControlFrame, now: float) -> None:
        request = self.requests.answered_by(frame)
        if request is not None:
            self._answer(request, None, now)
        self._flush(now)

    def _pong(self, frame: ControlFrame, now: float) -> None:
        request = self.requests.answered_by(frame)
        if request is None:
            return
        self._answer(request, now, now)
        if request.kind == dialect.CANCEL and request.job_id is not None:
            job = self.jobs.get(request.job_id)
            if job is not None:
                means = replace(self._means(job), attach=False)
                self._recovery.cancelled(job.job_id, now, means=means)
        self._flush(now)

    def _ping(self, frame: ControlFrame, now: float) -> None:
        nonce = frame.payload.get("nonce")
        pong = Pong(ping_nonce=nonce if isinstance(nonce, str) else "", received_at=now_text())
        self._control_out(dialect.PONG, pong.wire(), now)

    def _closed(self, frame: ControlFrame, now: float) -> None:
        if self.state is State.CLOSING:
            self._move("closed")
            self._close_at = None
            self._out.append(effects.Ended(None))
            return
        reason = frame.payload.get("reason") or frame.payload.get("code") or "no reason given"
        if reason == dialect.HEARTBEAT_LOST:
            self._relink(HeartbeatLost("the runtime heard nothing for two intervals (§6.4)"))
        else:
            self._relink(SessionClosed(f"the runtime closed the session ({str(reason)[:200]})"))

    def _session_error(self, frame: ControlFrame, now: float) -> None:
        if self.state is State.CLOSING and self._close_at is not None:
            self._close_at = now  # it did not understand the first form: send the other one
            self.tick(now)
            return
        self._refused(frame, now)

    def _refused(self, frame: ControlFrame, now: float) -> None:
        refusal = read_refusal(frame)
        request = self.requests.refused_by(frame)
        error = request_error(
            refusal.code, refusal.message, retryable=refusal.retryable, details=refusal.details
        )
        if request is not None:
            self._refuse(request, error, now)
        elif refusal.code == dialect.HEARTBEAT_LOST:
            self._relink(HeartbeatLost(f"the runtime reports {error}"))
        elif refusal.code == dialect.UNAUTHENTICATED:
            self._relink(Unauthenticated(f"the runtime ended the session ({error})"))
        else:
            self._report(f"the runtime reports {error}", error)
        self._flush(now)

    def _refuses(self, frame: ControlFrame) -> bool:
        """Whether a job.error answers a request instead of ending a job (several runtimes)."""
        job_id = frame.job_id or frame.payload.get("job_id")
        named = self.requests.named_by(frame)
        if not isinstance(job_id, str) or named:
            return True
        code = frame.payload.get("code")
        if self.jobs.get(job_id) is None and not self.jobs.has_ended(job_id):
            return code in _SUBMIT_REFUSALS and self.requests.submitting()
        if self.dialect.strict and frame.event_seq is not None and "final_status" in frame.payload:
            return False  # numbered, and an end: the job's own, whatever else is being asked
        return code in _REFUSALS and self.requests.about(job_id) is not None

    # ------------------------------------------------------------------ odds and ends

    def _answer(self, request: Request, value: object, now: float) -> None:
        if not self.requests.remove(request):
            return
        if isinstance(request.token, Asking):
            self._perform(self._read_answer(request.token, value, now), now)
        else:
            self._out.append(effects.Answered(request, value))
            if isinstance(value, Subscribed):
                self._watched(request, value, now)

    def _read_answer(self, asking: Asking, value: object, now: float) -> _Steps:
        job_id = asking.job_id
        if isinstance(value, Subscribed):
            self._watching(job_id)
            return self._recovery.attached(job_id, value.status, now)
        if isinstance(value, JobPage):
            status = next((job.status for job in value.jobs if job.job_id == job_id), None)
            return self._recovery.looked(job_id, status, now, cursor=value.next_cursor)
        if isinstance(value, Accepted):
            if value.job_id != job_id:
                self._cancel_unasked(value.job_id)
            return self._recovery.fetched(job_id, value.job_id, now)
        return []

    def _watched(self, request: Request, subscribed: Subscribed, now: float) -> None:
        """The application watches a job from now on."""
        job_id = subscribed.job_id
        self._watching(job_id)
        job = self.jobs.get(job_id)
        if job is None:
            return  # its history brought its end
        job.watched = True
        job.agent = subscribed.agent
        if subscribed.status in dialect.ENDED:
            history = bool(request.payload.get("history"))
            self._perform(
                self._recovery.told_ended(
                    job_id, subscribed.status, now, means=self._means(job), history=history
                ),
                now,
            )

    def _watching(self, job_id: str) -> None:
        if self._copies is not None:
            self._copies.closed(job_id)
        if not self.jobs.has_ended(job_id):
            self.jobs.learn(job_id)
        self._set_apart(job_id)

    def _refuse(self, request: Request, error: ArcpError, now: float) -> None:
        if self.requests.remove(request):
            self._ended_without_answer(request, error, now)

    def _ended_without_answer(self, request: Request, error: ArcpError, now: float) -> None:
        if self._copies is not None and request.kind == dialect.SUBSCRIBE:
            self._copies.closed(request.job_id)
        if not isinstance(request.token, Asking):
            self._out.append(effects.Refused(request, error))
            return
        if not isinstance(error, RequestError):
            error = request_error(dialect.INVALID_REQUEST, str(error))
        self._perform(self._recovery.refused(request.token, error, now), now)

    # ------------------------------------------------------------------ jobs that are led back

    def wanted(self, job_id: str, now: float) -> None:
        """Somebody waits for the outcome of a job whose end this session has seen long ago."""
        job = self.jobs.learn(job_id)
        self._perform(
            self._recovery.begin(
                job_id,
                now,
                means=self._means(job),
                history=True,
                hold=self.dialect.stored_outcomes,
                watchful=False,
                only_outcome=True,
            ),
            now,
        )

    def _lead_all_back(self, cursor: int, now: float, *, resumed: bool, ended: str | None) -> None:
        """Subscribe to every open job again, where a resume does not bring them along (S5)."""
        spoken = self.dialect
        for job in self.jobs:
            if not (job.mine or job.watched):
                continue
            # A resume brings what is held of the session's own jobs, and a history would bring
            # the same again. In a new session a history goes on from what was received, in the
            # numbers of the session that submitted the job.
            history = not (resumed and job.mine)
            known = cursor if history and not resumed and job.home == ended else None
            self._perform(
                self._recovery.begin(
                    job.job_id,
                    now,
                    means=self._means(job),
                    history=history,
                    from_seq=known,
                    lossy=resumed,  # in a new session the gap is announced for all of them
                    renew=resumed and spoken.stale_subscriptions,
                    watchful=not spoken.jobs_survive_drop,
                ),
                now,
            )

    def _lead_back_if_old(
        self, job: KnownJob, accepted: Accepted, request: Request, now: float, *, elsewhere: bool
    ) -> None:
        """An accepted job that is not new may have run, and ended, where nobody was told (S6)."""
        spoken = self.dialect
        if accepted.accepted_at is not None and self._welcomed_at is not None:
            before = accepted.accepted_at < self._welcomed_at
        else:
            before = len(request.ids) > 1
        elsewhere = elsewhere or (before and request.session_id != self.session_id)
        if elsewhere or (spoken.strict and not request.fresh):
            steps = self._recovery.begin(
                job.job_id,
                now,
                means=self._means(job),
                history=True,
                lossy=not spoken.jobs_survive_drop,
                hold=spoken.stored_outcomes,
                watchful=not spoken.jobs_survive_drop,
            )
        elif before and not spoken.jobs_survive_drop:
            steps = self._recovery.begin(
                job.job_id,
                now,
                means=self._means(job),
                history=False,
                lossy=True,
                renew=spoken.stale_subscriptions,
                hold=spoken.stored_outcomes,
            )
        else:
            steps = []
            if not request.fresh and not spoken.stored_outcomes:
                self._recovery.doubt(job.job_id, now, means=self._means(job))
        self._perform(steps, now)

    def _means(self, job: KnownJob) -> Means:
        """What this runtime can be asked about a job."""
        return Means(
            attach=self.negotiated(dialect.SUBSCRIPTIONS),
            look=self.negotiated(dialect.LISTING),
            fetch=self.dialect.stored_outcomes and job.key is not None,
        )

    def _perform(self, steps: _Steps, now: float) -> None:
        """Do what a job needs that is on its way back."""
        for step in steps:
            match step:
                case Announce(job_id):
                    self._gap(self.received + 1, None, "lost", job_id=job_id)
                    if self._tolerant is not None:
                        for held in self._tolerant.rebase():
                            self._deliver(*held)
                case Deliver((frame, data)):
                    self._terminal(frame, data)
                case GiveUp():
                    self._given_up(step)
                case _:
                    self.requests.add(self._own_request(step, now + OWN_TIMEOUT))
        if steps:
            self._flush(now)

    def _own_request(self, step: Attach | Look | Fetch, deadline: float) -> Request:
        if isinstance(step, Attach):
            return Request(
                kind=dialect.SUBSCRIBE,
                payload=Subscribe(
                    job_id=step.job_id, history=step.history, from_event_seq=step.from_seq
                ).wire(),
                deadline=deadline,
                job_id=step.job_id,
                token=Asking(Ask.ATTACH, step.job_id, renew=step.renew),
            )
        if isinstance(step, Look):
            return Request(
                kind=dialect.LIST_JOBS,
                payload=ListJobs(limit=1000, cursor=step.cursor).wire(),
                deadline=deadline,
                token=Asking(Ask.LOOK, step.job_id),
            )
        job = self.jobs.learn(step.job_id)
        return Request(
            kind=dialect.SUBMIT,
            payload=job.payload,
            deadline=deadline,
            trace_id=job.trace_id,
            key=job.key,
            token=Asking(Ask.FETCH, step.job_id),
        )

    def _given_up(self, step: GiveUp) -> None:
        """The runtime has no outcome for a job: say so, in place of an end."""
        job_id, status = step.job_id, step.status
        if not self.jobs.end(job_id):
            return
        if self._copies is not None:
            self._copies.forget(job_id)
        error: ArcpError
        if status == dialect.SUCCESS:
            text = f"job {job_id} succeeded, but its result can no longer be had ({step.why})"
            error = ResultUnavailable(text, job_id=job_id)
        elif status:
            text = f"the runtime tells no more than its status ({step.why})"
            error = job_error(_CODES.get(status, ""), text, status=status, job_id=job_id)
        else:
            text = f"job {job_id}: the runtime no longer knows it ({step.why})"
            error = JobLost(text, job_id=job_id)
        self._out.append(effects.JobGone(job_id, error, status or None))

    def _cancel_unasked(self, job_id: str) -> None:
        """The runtime has forgotten a key and started a job that nobody wants."""
        self._report(f"job {job_id} was started by mistake: its key was forgotten; cancelling it")
        payload = Cancel(job_id=job_id, reason="the outcome of an earlier job was asked for").wire()
        self._out.append(
            effects.Send(
                encode(
                    dialect.CANCEL, payload, id=new_id(), session_id=self.session_id, job_id=job_id
                )
            )
        )

    # ------------------------------------------------------------------ the way out

    def _flush(self, now: float) -> None:
        """Send the requests that may go out now."""
        if self.state is not State.LIVE:
            return
        for request in self.requests.ready(one_at_a_time=self.dialect.one_at_a_time):
            feature = _NEEDS.get(request.kind)
            if feature is not None and not self.negotiated(feature):
                self._refuse(request, FeatureNotNegotiated(_not_offered(feature)), now)
                continue
            if request.kind == dialect.SUBSCRIBE and request.job_id is not None:
                self._will_watch(request, request.job_id, now)
            self._liveness.sent(now)
            self._out.append(effects.Send(request.encode(self.session_id or ""), request))
            if request.kind == dialect.CANCEL and self.dialect.one_at_a_time:
                # There may be no answer but the job's end. The pong says that no refusal came.
                request.nonce = new_id()
                self._control_out(
                    dialect.PING, Ping(nonce=request.nonce, sent_at=now_text()).wire(), now
                )

    def _will_watch(self, request: Request, job_id: str, now: float) -> None:
        """What must be before a subscription: its history may come before its confirmation."""
        asking = request.token if isinstance(request.token, Asking) else None
        renew = asking.renew if asking is not None else bool(request.ids)
        if renew and self.dialect.stale_subscriptions:
            self._control_out(dialect.UNSUBSCRIBE, Unsubscribe(job_id=job_id).wire(), now)
        history = bool(request.payload.get("history"))
        if history and self._copies is not None:
            self._copies.opened(job_id)
        if history or asking is None:
            self._set_apart(job_id)

    def _set_apart(self, job_id: str) -> None:
        """From now on the job's events are numbered apart, in some dialects."""
        if self.dialect.watched_space == "own":
            self._apart.add(job_id)

    def _control_out(self, kind: str, payload: Mapping[str, object], now: float) -> None:
        self._liveness.sent(now)
        frame = encode(kind, payload, id=new_id(), session_id=self.session_id)
        self._out.append(effects.Send(frame))

    def _relink(self, cause: ArcpError) -> None:
        self._out.append(effects.Relink(cause))

    def _report(self, message: str, error: ArcpError | None = None) -> None:
        self._out.append(effects.Report(message, error))

    def _move(self, event: str) -> None:
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            raise LocalProtocolError(f"cannot {event} while {self.state.value}") from None


def _rotates(payload: StatusPayload) -> bool:
    return payload.body.phase == dialect.CREDENTIAL_ROTATED


def _not_offered(feature: str) -> str:
    return f"the runtime did not offer {feature!r} (§6.2)"


_Steps = Sequence_[Step[tuple[ControlFrame, bytes]]]

_CODES: Final = {
    dialect.STATUS_CANCELLED: dialect.CODE_CANCELLED,
    dialect.TIMED_OUT: dialect.TIMEOUT,
    dialect.ERROR: dialect.INTERNAL_ERROR,
}
"""Codes for jobs of which nothing is known but how they ended."""

_HANDLERS: Final[Mapping[str, Callable[[Session, ControlFrame, float], None]]] = {
    dialect.ACCEPTED: Session._accepted,
    dialect.SUBSCRIBED: Session._subscribed,
    dialect.JOBS: Session._page,
    dialect.CANCELLED: Session._cancelled,
    dialect.PONG: Session._pong,
    dialect.PING: Session._ping,
    dialect.CLOSED: Session._closed,
    dialect.BYE: Session._closed,
    dialect.SESSION_ERROR: Session._session_error,
}
"""What a live session does on each control message."""
