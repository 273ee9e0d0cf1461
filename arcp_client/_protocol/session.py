"""The state machine of one session over all its links (§6), without socket, event loop or clock.

The caller, ``_link``, moves the frames: after each call of a method of `Session`, it carries out
the actions that `Session.take` returns, in order. ``now`` is an argument, in seconds of any
monotonic clock. `states` has the table of the states.

The path of a frame::

    frame ─▶ decode ─▶ peer ─┬─▶ receiver ◀─▶ reassembly
                             │      ├─▶ events and gaps ─────────────────────┐
                             │      └─▶ recovery ─▶ plan runner ─▶ requests ─┼─▶ actions
                             └─▶ exchange ─▶ correlation ─▶ pending requests ┘

In the picture, *peer* is not the runtime. It is the adapter for the dialect of the runtime. A
*plan* is a series of requests by which recovery gets the outcome of a job. Recovery starts when
events are missing, and after a lost link. If the runtime cannot resume the session, it opens
another one in its place. The `Session` object then continues in that one, with the jobs that it
has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

from pydantic import SecretStr

from arcp_client._protocol import actions
from arcp_client._protocol.actions import Action, ActionQueue, EventRun, Send
from arcp_client._protocol.barriers import Barriers
from arcp_client._protocol.exchange import Exchange, error_of
from arcp_client._protocol.handshake import Handshake, Recognise
from arcp_client._protocol.jobs import Jobs
from arcp_client._protocol.negotiated import Negotiated
from arcp_client._protocol.obstacle import Conclusion, Obstacle
from arcp_client._protocol.peer import Peer, Received, View
from arcp_client._protocol.pending import PendingRequests, Request
from arcp_client._protocol.plan_runner import PlanRunner
from arcp_client._protocol.receiver import Receiver
from arcp_client._protocol.recovery import Recovery
from arcp_client._protocol.silence import SILENCE, Silence
from arcp_client._protocol.states import State, following
from arcp_client._wire import names
from arcp_client._wire.codec import BadFrame, ControlFrame, Frame, decode
from arcp_client._wire.messages import Unsubscribe
from arcp_client._wire.replies import Welcome, read_refusal
from arcp_client.errors import (
    ArcpError,
    HeartbeatLost,
    LocalProtocolError,
    RemoteProtocolError,
    SessionClosed,
    Unauthenticated,
)
from arcp_client.models import Checkpoint, ClientInfo, SessionInfo

__all__ = ["CONFIRMS_WITHIN", "Session", "State"]

LIVE = State.LIVE  # frequently used, and a member of an enum is slow to look up
CONFIRMS_WITHIN = 5.0
"""Seconds that the runtime has to confirm the end of a session."""


def _specification(payload: Mapping[str, object], envelope_id: str) -> type[Peer]:
    """Treat every runtime as one that follows the specification."""
    return Peer


class Session:
    """One session of a client, and those that replace it if the runtime cannot resume it.

    Guarantees, for any input: each event is emitted in order and once, or a `Gap` replaces it.
    Every request ends before `Ended`. No action follows `Ended`.

    Args:
        info: the name and version of the client.
        features: the features that this client offers. Those that both sides offer are used (§6.2).
        checkpoint: the stored state of a session to resume.
        limit: how many frames may wait while an earlier one is missing.
        recognise: finds the `Peer` class of the runtime from its welcome.
        peer: the `Peer` class; ``None`` to find it with ``recognise``.
        silence: seconds without events after a lost link, until a job is reported as silent.

    Attributes:
        state: the state of the session.
        requests: the pending requests.
        jobs: the jobs of the session.
        peer: the adapter for the dialect of the runtime.
        view: the part of the session that the peer may use.
    """

    def __init__(
        self,
        *,
        info: ClientInfo | None = None,
        features: tuple[str, ...] = names.FEATURES,
        checkpoint: Checkpoint | None = None,
        limit: int = 8192,
        recognise: Recognise = _specification,
        peer: type[Peer] | None = None,
        silence: float = SILENCE,
    ) -> None:
        self.state = State.DOWN
        self.requests = PendingRequests()
        self.jobs = Jobs()
        self._negotiated = negotiated = Negotiated()
        self._out = out = ActionQueue(negotiated)
        self._actions = out.actions
        self._barriers = Barriers(out)
        self.view = view = View(
            negotiated,
            out,
            self.jobs,
            self.requests,
            self._barriers,
            self._cancel_read,
        )
        self.peer = (peer or Peer)(view)
        self._handshake = Handshake(
            info or ClientInfo(),
            features,
            recognise=recognise,
            checkpoint=checkpoint,
            spoken=peer,
        )
        self._receiver = receiver = Receiver(
            negotiated, out, self.jobs, self.peer, limit=limit, checkpoint=checkpoint
        )
        view.receiver = receiver
        receiver.ended = job_ended = self._job_ended
        self._runner = runner = PlanRunner(view, receiver, job_ended, self._unsubscribe_job)
        self._recovery = Recovery(view, runner)
        self._exchange = Exchange(view, receiver, runner, self._recovery)
        receiver.seen = runner.seen
        receiver.holds = runner.holds
        self._silence = Silence(silence, runs=self._runs)
        self._stepped = False  # a frame was skipped, and no replay has ended since
        self._replaying = False
        self._closes_at: float | None = None
        if checkpoint is not None:
            negotiated.session_id = checkpoint.session_id
            for job in checkpoint.jobs:
                self.jobs.resume(job, origin=checkpoint.session_id)
                receiver.dedup.restore(self.jobs.learn(job.job_id), job.seen)
            for ended in checkpoint.ended:
                self.jobs.end(ended.job_id)

    @cached_property
    def _obstacle(self) -> Obstacle:  # made for the first refused frame
        return Obstacle()

    # Functions that are made for each session would take three times the memory.

    def _cancel_read(self, request: Request, now: float) -> None:
        self._exchange.cancel_read(request, now)

    def _unsubscribe_job(self, job_id: str, now: float) -> None:
        self._exchange.unsubscribe(job_id, now)

    def _runs(self, job_id: str) -> bool:
        return self.jobs.get(job_id) is not None

    # -- questions

    def take(self) -> list[Action]:
        """Return the actions to carry out, in order. Each is returned once."""
        return self._out.take()

    @property
    def info(self) -> SessionInfo | None:
        """The terms of the last welcome, ``None`` before the first."""
        return self._negotiated.info

    @property
    def session_id(self) -> str | None:
        """The last session's id, ``None`` before the first welcome."""
        return self._negotiated.session_id or None

    @property
    def resume_token(self) -> SecretStr | None:
        """The newest resume token, ``None`` if there is no session to resume."""
        return self._handshake.token

    @property
    def received(self) -> int:
        """Every number up to this one was received and delivered."""
        return self._receiver.cursor

    def remembers(self, job_id: str) -> bool:
        """Whether events of a job may come again, and only their envelope ids identify them."""
        job = self.jobs.table.get(job_id)
        return self.peer.recognises_by_id or (job is not None and job.delivered is not None)

    @property
    def reserved(self) -> int:
        """The highest number of an event that may be redelivered: see `Event.redelivered`."""
        return self._receiver.reserved

    @property
    def repeated(self) -> int:
        """The number of dropped repeats."""
        return self._receiver.repeated

    @property
    def gaps(self) -> int:
        """The number of delivered gaps."""
        return self._receiver.gaps

    @property
    def silent(self) -> tuple[str, ...]:
        """The jobs that were reported as silent and have sent no event since."""
        return self._silence.silent

    @property
    def may_lose_events(self) -> bool:
        """Whether events that jobs emit while the link is down may be lost."""
        return self.peer.may_lose_events

    @property
    def heard_at(self) -> float:
        """The time of the last message."""
        return self._out.heartbeat.heard_at

    @property
    def deadline(self) -> float | None:
        """The time at which `tick` must be called next."""
        moments = [self.requests.deadline, self._closes_at]
        if self.state is LIVE:
            moments += [self._runner.deadline, self.peer.deadline, self._silence.deadline]
            if not self._out.relinking:
                moments += [self._receiver.deadline, self._out.heartbeat.deadline]
        return min([moment for moment in moments if moment is not None], default=None)

    def ackable(self, mark: int) -> int:
        """The highest number that may be acknowledged when all up to ``mark`` are processed."""
        return self.peer.ackable(mark)

    def reorder_block_end(self, number: int) -> int:
        """The last number of the block of reordered events that contains this number."""
        return self.peer.reorder_block_end(number)

    def negotiated(self, feature: str) -> bool:
        """Whether both sides offered a feature."""
        return self._negotiated.offers(feature)

    # -- the link

    def greet(self, token: SecretStr, now: float, *, lines: bool = False) -> None:
        """Send the hello on a new link. It asks to resume if a session exists.

        Args:
            token: the bearer token.
            now: the time.
            lines: the link sends each frame as a line; some runtimes read only short lines.
        """
        self._move("greet")
        self._negotiated.lines = lines
        self._out.linked(now)
        self._out.frame(self._handshake.hello(token, self._receiver.cursor), now)

    def lost(self, now: float, refusal: ArcpError | None = None) -> None:
        """Handle the end of the link. Requests and jobs wait for the next link.

        Args:
            now: the time.
            refusal: the reason, if the link ended because this client or a proxy refused a frame.
        """
        before = self.state
        self._move("lost")
        if before is State.ENDED:
            return
        self._handshake.left(now)
        if before is LIVE and self.peer.may_fall_silent:
            self._silence.lost((job.job_id for job in self.jobs if job.wanted), now)
        self._release(now)
        self._barriers.lost()
        self._runner.link_lost(now)
        self.peer.link_lost()
        self._exchange.link_lost()
        if before is State.CLOSING:
            self._over(None)
        elif refusal is not None:
            self._refused_frame(refusal, live=before is LIVE, now=now)

    def _refused_frame(self, refusal: ArcpError, *, live: bool, now: float) -> None:
        """Skip the refused frame, once it has ended several links (rule S18); see `obstacle`."""
        self._out.report(f"a frame ended the link: {refusal}", refusal)
        if not live:
            return
        session_id = self._negotiated.session_id
        finding = self._obstacle.met(session_id, self._receiver.cursor)
        if finding is Conclusion.NO_WAY:
            self.end(refusal)
        elif finding is not Conclusion.FIRST:
            # Plans begin behind the replay: then it is the answers to them that end links.
            behind = finding is Conclusion.BEHIND_PASSED
            if not (behind and self._recovery.unfetchable(refusal, now)):
                self._receiver.step_over(now)
                self._stepped = True
            self._obstacle.passed(session_id, self._receiver.cursor)

    def unreadable(self, error: RemoteProtocolError, now: float) -> None:
        """Handle a frame that the transport dropped without ending the link."""
        if error.event_seq is None or self.state is not LIVE:
            self._out.report(str(error), error)
            return
        frame = BadFrame(error=error, event_seq=error.event_seq, job_id=error.job_id)
        self._receiver.take(frame, b"", now)
        self._settle(now)

    def frame_seen(self, now: float) -> None:
        """Note that a frame arrived that is passed to `receive` later."""
        self._out.heartbeat.heard_at = now

    def pause(self, now: float) -> None:
        """Note that the reader is paused: silence is not counted."""
        self._out.heartbeat.pause(now)

    def unpause(self, now: float) -> None:
        """Note that the reader continues."""
        self._out.heartbeat.unpause(now)

    # -- frames

    def receive(self, frames: Sequence[bytes], now: float, start: int = 0) -> EventRun:
        """Take in frames up to the first one that needs more than the delivery of its event.

        Args:
            frames: encoded frames, in order.
            now: the time of their arrival.
            start: the position of the first one to take in.

        Returns:
            The events to deliver. If a frame after theirs was taken in, too, `EventRun.more` is
            true, `take` has the actions for that frame, and the caller calls again for the rest.
        """
        self._out.heartbeat.heard_at = now
        if self.state is LIVE and not self._actions:
            run, received = self._receiver.deliver_run(frames, now, start)
            if received is None:
                return run
        elif start < len(frames):
            run, received = EventRun(), Received(decode(frames[start]), frames[start])
            run.more = True
        else:
            return EventRun()
        frame, data = received
        if self.state is LIVE or self.state is State.CLOSING:
            if self.peer.transparent:
                self._receive(frame, data, now)
            else:
                for received in self.peer.incoming(frame, data, now):
                    self._receive(received.frame, received.data, now)
            self._settle(now)
        elif self.state is State.GREETING:
            self._greeted(frame, now)
        return run

    def _receive(self, frame: Frame, data: bytes, now: float) -> None:
        if self._silence.watching and (not isinstance(frame, ControlFrame) or not frame.type):
            self._silence.seen(frame.job_id, now)
        if not isinstance(frame, ControlFrame):
            self._receiver.take(frame, data, now)
        elif frame.type == names.JOB_ERROR and self._exchange.refuses(frame):
            self._number(frame, now)
            self._refused(frame, now)
        elif frame.type in names.TERMINALS or not frame.type:
            self._receiver.take(frame, data, now)
        else:
            self._number(frame, now)
            if frame.type == names.PONG:
                self._receiver.ponged()
            reader = self._READERS.get(frame.type)
            if reader is not None:
                reader(self, frame, now)
            elif not self._exchange.read(frame, now):
                kind = frame.type[:80]
                self._out.report(f"a message of the unknown type {kind!r} was ignored")

    def _number(self, frame: ControlFrame, now: float) -> None:
        """Count the number of a frame that is no event; some runtimes number such frames."""
        if frame.event_seq is not None:
            self._receiver.take(ControlFrame(type="", event_seq=frame.event_seq), b"", now)

    def _release(self, now: float) -> None:
        """Take in the frames that the peer has held."""
        self._receiver.take_all(self.peer.release(), now)

    def _settle(self, now: float) -> None:
        """Do what received frames, or the passing of time, have made necessary."""
        if self.state is not LIVE:
            return
        if not self._out.relinking:
            self._receiver.settle(now, resumable=self._handshake.resumable)
        doubtful = [] if self._replaying else self._receiver.take_doubtful()
        if doubtful:
            self._recovery.check(self.peer, doubtful, now)
        self._exchange.flush(now)

    def _job_ended(self, job_id: str, now: float) -> None:
        """Note that a job has ended: by its terminal message, or because it was given up."""
        job = self.jobs.state(job_id)
        self._runner.job_ended(job)
        self.peer.job_ended(job)
        self._exchange.job_ended(job_id, now)

    def in_turn(self, frame: ControlFrame) -> bool:
        """Whether a message must stay behind the events that came before it."""
        if frame.type == names.JOB_ERROR:
            return not self._exchange.refuses(frame)
        if frame.type == names.PONG:
            return self._barriers.awaits(frame.payload.get("ping_nonce"))
        return frame.type in names.TERMINALS

    # -- time

    def tick(self, now: float) -> None:
        """Handle timers. To be called at `deadline`; may be called at any time."""
        self._exchange.expire(now)
        if self._closes_at is not None and now >= self._closes_at:
            self.end(None)
        if self.state is not LIVE:
            return
        self._receiver.take_all(self.peer.tick(now), now)
        self._runner.tick(now)
        for job_id in self._silence.due(now):
            self._out.report(
                f"job {job_id} has sent no event for {self._silence.bound:g} s since a link was"
                " lost, and the runtime does not report its end: it may send no more events",
                job_id=job_id,
            )
        self._settle(now)
        self._out.beat(now)

    # -- requests

    def request(self, request: Request, now: float) -> None:
        """Send a request, now or as soon as a link is live (rule S7).

        Raises:
            LocalProtocolError: the session is over.
        """
        if self.state in (State.CLOSING, State.ENDED):
            raise LocalProtocolError(f"the session is {self.state.value}")
        job_id = request.job_id if request.kind == names.SUBSCRIBE else None
        if job_id and request.payload.get("history") and self.jobs.has_ended(job_id):
            self._tell_again(job_id, now)
        self.requests.add(request)
        self._exchange.flush(now)

    def _tell_again(self, job_id: str, now: float) -> None:
        """Prepare to receive the events of an ended job again, as new events."""
        if self._receiver.dedup.may_come(job_id):
            # A history that is on its way already is not the beginning of the new one.
            self._exchange.unsubscribe(job_id, now)
        self._receiver.forget(job_id)
        self.jobs.reopen(job_id)

    def withdraw(self, request: Request) -> None:
        """Note that the caller of a request no longer waits; its answer is ignored."""
        self.requests.withdraw(request)

    def refuse(self, request: Request, error: ArcpError, now: float) -> None:
        """Fail a request that cannot be sent."""
        self._exchange.refuse(request, error, now)
        self._exchange.flush(now)

    def request_outcome(self, job_id: str, now: float) -> None:
        """Get the outcome of a job that ended earlier in this session."""
        if self.state is not State.ENDED:
            self._recovery.outcome_wanted(self.peer, job_id, now)
            self._exchange.flush(now)

    def ack(self, mark: int, now: float) -> Send | None:
        """Return the frame that acknowledges the processed events (§6.5), to be sent at once.

        ``None`` if acks are not negotiated, or if the runtime would delete events that other
        clients may still request.
        """
        if self.state is not LIVE or not self.peer.accepts_acks:
            return None
        return self._out.ack(mark, now) if self._negotiated.offers(names.ACKS) else None

    def unsubscribe(self, job_id: str, now: float) -> None:
        """Stop watching a job (§7.6). The runtime does not reply."""
        job = self.jobs.get(job_id)
        follow_up = job is not None and job.subscribed and not job.submitted and not job.announced
        if job is not None and not job.submitted:
            self._receiver.forget(job_id)
            self.jobs.forget(job_id)
            self._runner.job_ended(job)
            self.peer.job_ended(job)
        if follow_up:
            self._exchange.unsubscribe(job_id, now)
        elif self.state is LIVE:
            self._out.control(names.UNSUBSCRIBE, Unsubscribe(job_id=job_id).wire(), now)

    # -- the end

    def close(self, now: float) -> None:
        """End the session with the message that its runtime understands (§6.7). Jobs continue.

        `Ended` follows, at once if no answer is expected. Idempotent.
        """
        if self.state is State.CLOSING:
            return
        message = self.peer.goodbye() if self.state is LIVE else None
        if message is None:
            self.end(None)
            return
        self._release(now)
        self._move("close")
        self._closes_at = now + CONFIRMS_WITHIN
        self._out.control(message.type, message.wire(), now)
        if not self.peer.confirms_goodbye:
            self.end(None)

    def end(self, cause: ArcpError | None) -> None:
        """End the session and its pending requests at once."""
        if self.state is not State.ENDED:
            self._release(self._out.heartbeat.heard_at)
            self._move("end")
            self._over(cause)

    def _over(self, cause: ArcpError | None) -> None:
        self._negotiated.live = False
        self._closes_at = None
        self._exchange.close(cause)
        self._out.emit(actions.Ended(cause))

    # -- the handshake, and errors of the session

    def _greeted(self, frame: Frame, now: float) -> None:
        """Handle a frame before the welcome. Events are dropped; the replay brings them."""
        if isinstance(frame, BadFrame):
            self._out.report(str(frame.error), frame.error)
        elif isinstance(frame, ControlFrame) and not self._out.relinking:
            answer = self._handshake.read(frame, self.peer)
            if isinstance(answer, Welcome):
                self._welcomed(answer, frame, now)
            elif answer is not None:
                self._out.relink(answer)

    def _welcomed(self, welcome: Welcome, frame: ControlFrame, now: float) -> None:
        """Start the session. Emit the new token first, in `Opened`, for a checkpoint (rule S5)."""
        self._move("welcome")
        before, had_session = self._negotiated.session_id, self._handshake.had_session
        resumed = self._handshake.welcomed(welcome)
        self._out.emit(actions.Opened(welcome, resumed))
        if had_session and not resumed:
            cursor = self._receiver.cursor
            offered = names.SUBSCRIPTIONS in welcome.info.features
            self._receiver.abandon(histories=offered)
            for job in self.jobs:
                if job.origin_session == before and job.resume_after is None:
                    job.resume_after = cursor
        kind = self._handshake.spoken
        if kind is not None and type(self.peer) is not kind:
            self.peer = kind(self.view)
        self._negotiated.agree(welcome, frame)
        self._out.linked(now, welcome.info.heartbeat_interval)
        self._silence.linked(now)
        if not resumed:
            self._exchange.restarted()
        self._receiver.opened(self.peer, now, resumed=resumed)
        self.peer.opened(now, resumed=resumed)
        self._replaying = self._stepped and self.negotiated(names.HEARTBEAT)
        if self._replaying:
            self._barriers.set(self._replayed, now)
        self._exchange.send_unsubscribes(now)
        if had_session:
            self._recovery.opened(self.peer, now, resumed=resumed)
        self._settle(now)

    def _replayed(self, now: float) -> None:
        """Note the end of the replay after a skipped frame."""
        self._replaying = self._stepped = False

    def _pinged(self, frame: ControlFrame, now: float) -> None:
        self._out.pong(frame, now)

    def _questions_changed(self, frame: ControlFrame, now: float) -> None:
        self._out.emit(actions.QuestionsChanged())

    def _closed(self, frame: ControlFrame, now: float) -> None:
        if self.state is State.CLOSING:
            self._move("closed")
            self._over(None)
            return
        reason = frame.payload.get("reason") or frame.payload.get("code") or "no reason given"
        if reason == names.HEARTBEAT_LOST:
            self._out.relink(HeartbeatLost("the runtime heard nothing for two intervals (§6.4)"))
        else:
            self._out.relink(SessionClosed(f"the runtime closed the session ({str(reason)[:200]})"))

    def _refused(self, frame: ControlFrame, now: float) -> None:
        """Handle an error of a request, of the resume, or of the session."""
        if self._exchange.refused(frame, now, named=True):
            return
        cause = self._handshake.refused_late(frame, asked=self.requests.asked())
        code = read_refusal(frame).code
        if cause is not None:
            self._out.relink(cause)
        elif code == names.HEARTBEAT_LOST:
            self._out.relink(HeartbeatLost(f"the runtime reports {error_of(frame)}"))
        elif code == names.UNAUTHENTICATED and frame.type == names.SESSION_ERROR:
            self._out.relink(Unauthenticated(f"the runtime ended the session ({error_of(frame)})"))
        elif not self._exchange.refused(frame, now):
            error = error_of(frame)
            self._out.report(f"the runtime reports {error}", error)

    def _move(self, event: str) -> None:
        self.state = following(self.state, event)
        self._negotiated.live = self._negotiated.live and self.state is LIVE

    _READERS: Final[Mapping[str, Callable[[Session, ControlFrame, float], None]]] = {
        names.PING: _pinged,
        names.CLOSED: _closed,
        names.BYE: _closed,
        names.SESSION_ERROR: _refused,
        names.QUESTIONS_CHANGED: _questions_changed,
    }
