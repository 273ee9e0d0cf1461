"""Frames and the time in, events and effects out: one session across all its links (§6).

A `Session` holds no socket, no loop and no clock; ``now`` is an argument, in seconds of any
monotonic clock. Call a verb, then do what `take` gives, in that order. Where a session can stand,
and what moves it, is the table in ``states``.

Its parts, each with a state of its own::

    frame ─▶ decode ─▶ Session ─┬─▶ Handshake      what to present, what was refused
                                ├─▶ Ordering       order, repeats, gaps, what is an event
                                ├─▶ Answers        whose answer is it
                                ├─▶ Returns        jobs on their way back to their outcome
                                └─▶ Outbox         what is to be done; pings and silence
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import SecretStr

from arcp_client._protocol import effects
from arcp_client._protocol.answers import Answers, error_of
from arcp_client._protocol.delivery import Delivery, Terminal
from arcp_client._protocol.effects import Effect
from arcp_client._protocol.farewell import Farewell
from arcp_client._protocol.handshake import Handshake
from arcp_client._protocol.jobs import KnownJobs
from arcp_client._protocol.leaving import Leaving
from arcp_client._protocol.obstacle import Finding, Obstacle
from arcp_client._protocol.ordering import Ordering
from arcp_client._protocol.outbox import Outbox
from arcp_client._protocol.recovery import Recovery
from arcp_client._protocol.requests import Request, Requests
from arcp_client._protocol.returns import Returns
from arcp_client._protocol.silence import SILENCE, Silence
from arcp_client._protocol.states import State, following
from arcp_client._protocol.terms import Terms
from arcp_client._wire import dialect
from arcp_client._wire.codec import BadFrame, ControlFrame, Frame, decode_control, decode_event
from arcp_client._wire.dialect import DIALECTS, Dialect
from arcp_client._wire.messages import Ack, Unsubscribe
from arcp_client._wire.replies import Welcome, read_refusal
from arcp_client.errors import (
    ArcpError,
    HeartbeatLost,
    LocalProtocolError,
    RemoteProtocolError,
    SessionClosed,
    Unauthenticated,
)
from arcp_client.events import Event
from arcp_client.models import Checkpoint, ClientInfo, SessionInfo

__all__ = ["Session", "State"]


class Session:
    """One session of a client.

    Guarantees, whatever the runtime sends: events come out in order and once each, or as a `Gap`;
    every request ends, at the latest just before `Ended`, after which nothing comes out.

    Args:
        info: who the client says it is.
        features: what to offer; only what both sides offer is used (§6.2).
        checkpoint: go on with this session.
        limit: how many events may wait behind a hole.
        spoken: the runtime's dialect, where it must not be recognised from the welcome.
        silence: seconds after which a job is reported of which nothing comes since a link was lost.

    Attributes:
        state: where it stands.
        requests: those that wait for an answer.
        jobs: the jobs that it knows and that have not ended.
    """

    def __init__(
        self,
        *,
        info: ClientInfo | None = None,
        features: tuple[str, ...] = dialect.FEATURES,
        checkpoint: Checkpoint | None = None,
        limit: int = 8192,
        spoken: Dialect | None = None,
        silence: float = SILENCE,
    ) -> None:
        self.state = State.DOWN
        self.requests = Requests()
        self.jobs = KnownJobs()
        self._terms = terms = Terms(dialect=spoken or DIALECTS["unknown"])
        self._out = out = Outbox(terms)
        self._effects = out.effects
        self._recovery = recovery = Recovery[Terminal]()
        self._handshake = Handshake(
            info or ClientInfo(), features, checkpoint=checkpoint, spoken=spoken
        )
        self._delivery = Delivery(terms, out, self.jobs, recovery, checkpoint=checkpoint)
        self._leaving = leaving = Leaving()
        self._order = Ordering(
            terms, out, self._delivery, self.jobs, recovery, leaving, limit=limit
        )
        self._returns = Returns(
            terms, out, self.jobs, self.requests, recovery, self._order, self._delivery
        )
        self._answers = Answers(
            terms, out, self.jobs, self.requests, self._order, self._returns, leaving
        )
        self._farewell = Farewell(out)
        self._obstacle = Obstacle()
        self._silence = Silence(silence, runs=lambda job_id: self.jobs.get(job_id) is not None)
        self._stepped = False  # over a frame, and no replay has come to its end since
        self._replaying = False
        self._readers: Mapping[str, Callable[[ControlFrame, float], None]] = {
            **self._answers.readers,
            dialect.PING: out.pong,
            dialect.CLOSED: self._closed,
            dialect.BYE: self._closed,
            dialect.SESSION_ERROR: self._session_error,
        }
        if checkpoint is not None:
            self._order.begin(checkpoint.mark)
            terms.session_id = checkpoint.session_id
            for job in checkpoint.jobs:
                self.jobs.resume(job, home=checkpoint.session_id)
                self._delivery.repeats.restore(job.job_id, job.seen)
            for ended in checkpoint.ended:
                self.jobs.end(ended.job_id)

    def take(self) -> list[Effect]:
        """What is to be done, in order; each effect is given once."""
        return self._out.take()

    @property
    def info(self) -> SessionInfo | None:
        """What the last welcome agreed on, ``None`` before the first."""
        return self._terms.info

    @property
    def session_id(self) -> str | None:
        """The last session's id, ``None`` before the first welcome."""
        return self._terms.session_id or None

    @property
    def resume_token(self) -> SecretStr | None:
        """The newest resume token, ``None`` if there is no session to go on with."""
        return self._handshake.token

    @property
    def received(self) -> int:
        """Every number up to it was received and delivered, as far as numbers count."""
        return self._order.received

    def told(self, mark: int) -> int:
        """How far the runtime may be told that everything was processed, if this is the mark.

        A history that was put in order has other numbers there: it counts once all of it does.
        """
        return self._order.told(mark)

    def whole(self, number: int) -> int:
        """The last number of the history that was put in order around this one, else this one."""
        return self._order.whole(number)

    def remembers(self, job_id: str) -> bool:
        """Whether events of a job may come again, known by nothing but their envelope ids."""
        return self._delivery.repeats.remembers(job_id)

    @property
    def reserved(self) -> int:
        """Events up to this number may have been seen before a restart: they are redelivered."""
        return self._delivery.reserved

    @property
    def repeated(self) -> int:
        """How many repeats were dropped."""
        return self._order.repeated

    @property
    def gaps(self) -> int:
        """How many gaps were delivered."""
        return self._delivery.gaps

    @property
    def silent(self) -> tuple[str, ...]:
        """The jobs that were reported to be silent, and still are."""
        return self._silence.silent

    @property
    def dialect(self) -> Dialect:
        """How the runtime speaks; ``unknown`` before the first welcome."""
        return self._terms.dialect

    @property
    def heard_at(self) -> float:
        """When the last message came."""
        return self._out.liveness.heard_at

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called next."""
        moments = [self.requests.deadline, self._farewell.deadline]
        if self.state is State.LIVE:
            moments += [self._returns.deadline, self._silence.deadline]
            if not self._out.relinking:
                moments += [self._order.deadline, self._out.liveness.deadline]
        return min((moment for moment in moments if moment is not None), default=None)

    def greet(self, token: SecretStr, now: float, *, lines: bool = False) -> None:
        """A link is open: say hello, and ask to resume if there is something to.

        Args:
            token: the bearer token.
            now: the time.
            lines: frames go over this link as lines, of which some runtimes read only short ones.
        """
        self._move("greet")
        self._terms.lines = lines
        self._out.linked(now)
        self._out.frame(self._handshake.hello(token, self._order.cursor), now)

    def lost(self, now: float, refusal: ArcpError | None = None) -> None:
        """The link is gone. What waits for an answer waits for the next link.

        Args:
            now: the time.
            refusal: why it ended, if for a frame of the runtime that this side, or something in
                between, did not take.
        """
        before = self.state
        self._move("lost")
        if before is State.ENDED:
            return
        self._handshake.left(now)
        self._note_silence(before, now)
        self._order.lost()
        self._leaving.lost()
        self._follow_ends(now)
        self._returns.lost(now)
        self.requests.unsend()
        if before is State.CLOSING:
            self._over(None)
        elif refusal is not None:
            self._refused_frame(refusal, live=before is State.LIVE, now=now)

    def _note_silence(self, before: State, now: float) -> None:
        """Jobs of which this runtime may say no more after the link."""
        spoken = self.dialect
        if before is State.LIVE and (spoken.deaf_after_resume or not spoken.jobs_survive_drop):
            self._silence.lost((job.job_id for job in self.jobs if job.ours), now)

    def _refused_frame(self, refusal: ArcpError, *, live: bool, now: float) -> None:
        """Every replay begins with the same frame: step over it once that is clear (S18)."""
        self._out.report(f"a frame ended the link: {refusal}", refusal)
        if not live:
            return
        session_id = self._terms.session_id
        finding = self._obstacle.met(session_id, self._order.cursor)
        if finding is Finding.NO_WAY:
            self.end(refusal)
        elif finding is not Finding.FIRST:
            # Jobs are led back only after the replay: then it is their answers that end links.
            behind = finding is Finding.BEHIND_PASSED
            if not (behind and self._returns.unfetchable(refusal)):
                self._order.step_over(now)
                self._stepped = True
            self._follow_ends(now)
            self._obstacle.passed(session_id, self._order.cursor)

    def unreadable(self, error: RemoteProtocolError, now: float) -> None:
        """The transport dropped a frame, and the link lives on."""
        if error.event_seq is None or self.state is not State.LIVE:
            self._out.report(str(error), error)
            return
        frame = BadFrame(error=error, event_seq=error.event_seq, job_id=error.job_id)
        self._order.take(frame, b"", now)
        self._settle(now)

    def receive(self, data: bytes, now: float) -> Event | None:
        """One frame came.

        Gives the event that it was, if delivering that is all there is to do, as nearly always;
        else ``None``, and `take` has what is to be done.
        """
        self._out.liveness.heard_at = now
        frame: Frame
        try:
            frame = decode_event(data)
        except (ValueError, RecursionError):
            frame = decode_control(data)
        else:
            if self.state is State.LIVE and not self._effects:
                event = self._order.next(frame, data)
                if event is not None:
                    return event
        if self.state is State.LIVE or self.state is State.CLOSING:
            self._receive(frame, data, now)
        elif self.state is State.GREETING:
            self._greeted(frame, now)
        return None

    def _receive(self, frame: Frame, data: bytes, now: float) -> None:
        if self._silence.watching and not isinstance(frame, ControlFrame):
            self._silence.seen(frame.job_id, now)
        if not isinstance(frame, ControlFrame):
            self._order.take(frame, data, now)
        elif frame.type not in dialect.TERMINALS:
            self._control(frame, now)
        elif frame.type == dialect.JOB_ERROR and self._answers.refuses(frame):
            self._order.number(frame.event_seq, now)
            self._refused(frame, now)
        else:
            self._returns.ending(frame)
            self._order.take(frame, data, now)
        self._settle(now)

    def _control(self, frame: ControlFrame, now: float) -> None:
        self._order.number(frame.event_seq, now)
        if frame.type == dialect.PONG:
            self._order.ponged()
            if self._replaying:
                self._replaying = self._stepped = False
        reader = self._readers.get(frame.type)
        if reader is None:
            self._out.report(f"a message of the unknown type {frame.type[:80]!r} was ignored")
        else:
            reader(frame, now)

    def _settle(self, now: float) -> None:
        """What follows from what came, or from the time."""
        self._follow_ends(now)
        if self.state is not State.LIVE:
            return
        if not self._out.relinking:
            self._order.settle(now, resumable=self._handshake.resumable)
            self._follow_ends(now)
        doubtful = {} if self._replaying else self._delivery.take_doubtful()
        if doubtful:
            self._returns.check(doubtful, now)
        self._answers.flush(now)

    def _follow_ends(self, now: float) -> None:
        for job_id in self._delivery.take_ended():
            self._answers.job_ended(job_id, now)
            self._returns.ended(job_id)
            self._order.over(job_id)

    def heard(self, now: float) -> None:
        """A frame came that is given to `receive` later."""
        self._out.liveness.heard_at = now

    def in_turn(self, frame: ControlFrame) -> bool:
        """Whether a message must not overtake the events that came before it."""
        if frame.type == dialect.JOB_ERROR:
            return not self._answers.refuses(frame)
        if frame.type == dialect.PONG and self._leaving.awaits(frame.payload.get("ping_nonce")):
            return True
        return frame.type in dialect.TERMINALS or self._order.ends_history(frame)

    def pause(self, now: float) -> None:
        """Nobody reads the link for a while."""
        self._out.liveness.pause(now)

    def unpause(self, now: float) -> None:
        """The link is read again."""
        self._out.liveness.unpause(now)

    def tick(self, now: float) -> None:
        """Time has passed; to be called at `deadline`, may be called at any time."""
        self._answers.expire(now)
        if self._farewell.tick(now):
            self.end(None)
        if self.state is not State.LIVE:
            return
        self._returns.tick(now)
        for job_id in self._silence.due(now):
            self._out.report(
                f"nothing has come of job {job_id} for {self._silence.bound:g} s since a link was"
                " lost, and the runtime does not say that it has ended: it may send no more of it"
            )
        self._settle(now)
        self._out.pulse(now)

    def request(self, request: Request, now: float) -> None:
        """Ask the runtime for something; now, or as soon as there is a link (S7).

        Raises:
            LocalProtocolError: the session is over.
        """
        if self.state in (State.CLOSING, State.ENDED):
            raise LocalProtocolError(f"the session is {self.state.value}")
        job_id = request.job_id if request.kind == dialect.SUBSCRIBE else None
        if job_id and request.payload.get("history") and self.jobs.has_ended(job_id):
            self._tell_again(job_id, now)
        self.requests.add(request)
        self._answers.flush(now)

    def _tell_again(self, job_id: str, now: float) -> None:
        """All of a job that has ended is to be told once more, and counts as new."""
        if self._delivery.repeats.may_come(job_id):
            self._leaving.add(job_id)  # what is on its way already is not the beginning of it
            if self.state is State.LIVE:
                self._answers.leave(now)
        self._delivery.forget(job_id)
        self.jobs.again(job_id)

    def withdraw(self, request: Request) -> None:
        """Nobody waits for it any more; an answer will find nobody."""
        self.requests.withdraw(request)

    def refuse(self, request: Request, error: ArcpError, now: float) -> None:
        """It cannot be sent, now or later."""
        self._answers.refuse(request, error, now)
        self._answers.flush(now)

    def wanted(self, job_id: str, now: float) -> None:
        """Somebody waits for the outcome of a job whose end this session has seen long ago."""
        if self.state is not State.ENDED:
            self._returns.wanted(job_id, now)
            self._answers.flush(now)

    def ack(self, mark: int, now: float) -> bool:
        """Tell the runtime what was processed (§6.5).

        False where that is not negotiated, or where it would destroy the histories of watchers.
        """
        if self.state is not State.LIVE or not self.negotiated(dialect.ACKS):
            return False
        if self.dialect.acks_free_histories:
            return False
        self._out.control(dialect.ACK, Ack(last_processed_seq=mark).wire(), now)
        return True

    def unsubscribe(self, job_id: str, now: float) -> None:
        """Watch a job no longer; there is no reply to it (§7.6)."""
        job = self.jobs.get(job_id)
        known = job is not None and job.watched and not job.mine and not job.heard
        if job is not None and not job.mine:
            self.jobs.forget(job_id)
            self._delivery.forget(job_id)
            self._order.over(job_id)
            self._recovery.ended(job_id)
        if known:
            self._leaving.add(job_id)
        if self.state is State.LIVE:
            if known:
                self._answers.leave(now)
            else:
                self._out.control(dialect.UNSUBSCRIBE, Unsubscribe(job_id=job_id).wire(), now)

    def close(self, now: float, *, patience: float = 0.25) -> None:
        """End the session in the way that its runtime understands (§6.7); jobs run on.

        ``Ended`` follows, at once where no answer is to be expected. Idempotent.
        """
        if self.state is State.CLOSING:
            return
        if self.state is not State.LIVE or self._farewell.silent(self.dialect):
            self.end(None)
            return
        self._order.let_go()
        self._follow_ends(now)
        self._move("close")
        if not self._farewell.say(self.dialect, now, patience=patience):
            self.end(None)

    def end(self, cause: ArcpError | None) -> None:
        """It is over, here and now. Open requests end with it."""
        if self.state is not State.ENDED:
            self._order.let_go()
            self._move("end")
            self._over(cause)

    def _over(self, cause: ArcpError | None) -> None:
        self._terms.live = False
        self._farewell.over()
        self._answers.close(cause)
        self._out.emit(effects.Ended(cause))

    def negotiated(self, feature: str) -> bool:
        """Whether both sides offered a feature."""
        return self._terms.offer(feature)

    def _greeted(self, frame: Frame, now: float) -> None:
        """A frame before the welcome. Events belong to no session yet; the replay brings them."""
        if isinstance(frame, BadFrame):
            self._out.report(str(frame.error), frame.error)
        elif isinstance(frame, ControlFrame) and not self._out.relinking:
            answer = self._handshake.read(frame)
            if isinstance(answer, Welcome):
                self._welcomed(answer, frame, now)
            elif answer is not None:
                self._out.relink(answer)

    def _welcomed(self, welcome: Welcome, frame: ControlFrame, now: float) -> None:
        """The session is live: first of all the new token goes out, for a checkpoint (S5)."""
        self._move("welcome")
        before, had_session = self._terms.session_id, self._handshake.had_session
        resumed = self._handshake.welcomed(welcome)
        self._out.emit(effects.Opened(welcome, resumed))
        cursor, ends = self._order.cursor, {}
        if had_session and not resumed:
            offered = dialect.SUBSCRIPTIONS in welcome.info.features
            ends = self._order.abandoned(histories=offered)
        self._terms.agree(welcome, self._handshake.spoken, frame)
        self._out.linked(now, welcome.info.heartbeat_interval)
        self._silence.linked(now)
        if not resumed:
            self._leaving.clear()
        self._order.opened(now, resumed=resumed)
        self._replaying = self._stepped and self.negotiated(dialect.HEARTBEAT)
        if self._replaying:
            self._out.ping(now)
        self._answers.leave(now)
        if had_session:
            self._returns.opened(cursor, now, resumed=resumed, ended=before, ends=ends)
        self._settle(now)

    def _closed(self, frame: ControlFrame, now: float) -> None:
        if self.state is State.CLOSING:
            self._move("closed")
            self._over(None)
            return
        reason = frame.payload.get("reason") or frame.payload.get("code") or "no reason given"
        if reason == dialect.HEARTBEAT_LOST:
            self._out.relink(HeartbeatLost("the runtime heard nothing for two intervals (§6.4)"))
        else:
            self._out.relink(SessionClosed(f"the runtime closed the session ({str(reason)[:200]})"))

    def _session_error(self, frame: ControlFrame, now: float) -> None:
        if not self._farewell.refused(now):
            self._refused(frame, now)

    def _refused(self, frame: ControlFrame, now: float) -> None:
        """An error that ends no job: of a request, of the resume, or of the session."""
        if self._answers.refused(frame, now, named=True):
            return
        cause = self._handshake.refused_late(frame, asked=self.requests.asked())
        code = read_refusal(frame).code
        if cause is not None:
            self._out.relink(cause)
        elif code == dialect.HEARTBEAT_LOST:
            self._out.relink(HeartbeatLost(f"the runtime reports {error_of(frame)}"))
        elif code == dialect.UNAUTHENTICATED and frame.type == dialect.SESSION_ERROR:
            self._out.relink(Unauthenticated(f"the runtime ended the session ({error_of(frame)})"))
        elif not self._answers.refused(frame, now):
            error = error_of(frame)
            self._out.report(f"the runtime reports {error}", error)

    def _move(self, event: str) -> None:
        self.state = following(self.state, event)
        self._terms.live = self._terms.live and self.state is State.LIVE
