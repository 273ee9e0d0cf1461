"""A session against a strict runtime, over links that break, lose, repeat and reorder."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from pydantic import SecretStr

from arcp_client._dialects import DIALECTS, recognise
from arcp_client._protocol import actions
from arcp_client._protocol.pending import Request
from arcp_client._protocol.session import Session
from arcp_client._protocol.states import TRANSITIONS, State
from arcp_client._wire import names
from arcp_client.events import Event, Gap, Progress
from tests.property.model import Job, Runtime

STEPS = {(state, to) for (state, _), to in TRANSITIONS.items()}


class Conversation(RuleBasedStateMachine):
    """What one says, the other hears when its turn comes."""

    @initialize(
        limit=st.sampled_from([1, 2, 5, 100]),
        ignores_cursor=st.booleans(),
        live_first=st.booleans(),
        control_first=st.booleans(),
        spoken=st.sampled_from(["arcp-client", "go", "java", "unknown"]),
    )
    def begin(
        self,
        limit: int,
        ignores_cursor: bool,
        live_first: bool,
        control_first: bool,
        spoken: str,
    ) -> None:
        self.session = Session(limit=limit, recognise=recognise, peer=DIALECTS[spoken])
        mixes = self.session.peer.name in ("go", "java") and not control_first
        self.runtime = Runtime(
            ignores_cursor=ignores_cursor,
            live_first=live_first,
            control_first=control_first,
            mixes_histories=mixes and limit == 100,  # a limit below it ends the wait for the rest
        )
        self.now = 0.0
        self.linked = False
        self.relinks = 0
        self.over = False
        self.events: list[Event] = []
        self.asked: list[Request] = []
        self.ended: list[Request] = []
        self.accepted: dict[str, str] = {}
        self.gone: set[str] = set()
        self.cursor: tuple[str | None, int] = (None, 0)
        self.before = State.DOWN
        self.keys = 0

    # ------------------------------------------------------------------ both sides

    def say(self, verb: Callable[..., object], *arguments: object, deliver: bool = True) -> None:
        """Call a verb, and do what the session asks for."""
        verb(*arguments)
        for effect in self.session.take():
            assert not self.over, f"{effect!r} after the end"
            if isinstance(effect, Event):
                self.events.append(effect)
            elif isinstance(effect, actions.Send):
                if self.linked:
                    self.runtime.hear(effect.data, deliver=deliver)
            elif isinstance(effect, actions.Replied | actions.Refused):
                assert effect.request not in self.ended, "a request has ended twice"
                self.ended.append(effect.request)
            elif isinstance(effect, actions.JobKnown):
                if effect.submitted:
                    self.accepted[effect.job.job_id] = effect.request.key  # type: ignore[union-attr]
            elif isinstance(effect, actions.JobGone):
                self.gone.add(effect.job_id)
            elif isinstance(effect, actions.Relink):
                self.relinks += 1
                assert self.relinks == 1, "a link is given up once"
            elif isinstance(effect, actions.Ended):
                self.over = True
        assert (self.before, self.session.state) in STEPS or self.before is self.session.state
        self.before = self.session.state

    def hear(self) -> None:
        """The next frame comes over the link."""
        data = self.runtime.wire.pop(0)
        self.say(lambda: self.events.extend(self.session.receive((data,), self.now)))

    def ask(self, request: Request) -> None:
        self.asked.append(request)
        self.say(self.session.request, request, self.now)

    @property
    def open_jobs(self) -> list[Job]:
        return [job for job in self.runtime.jobs.values() if not job.ended]

    # ------------------------------------------------------------------ links

    def up(self, *, deliver: bool = True) -> None:
        self.linked = True
        self.relinks = 0
        self.say(self.session.greet, SecretStr("t"), self.now, deliver=deliver)

    def down(self) -> None:
        self.runtime.cut()
        self.linked = False
        self.say(self.session.lost, self.now)

    @precondition(lambda self: not self.linked and not self.over)
    @rule(deliver=st.booleans())
    def a_link_comes_up(self, deliver: bool) -> None:
        self.up(deliver=deliver)

    @precondition(lambda self: self.linked)
    @rule()
    def the_link_breaks(self) -> None:
        self.down()

    @precondition(lambda self: not self.over)
    @rule()
    def the_runtime_forgets_its_sessions(self) -> None:
        if self.runtime.here is None:
            self.runtime.forget_sessions()

    @precondition(lambda self: self.linked and self.runtime.wire)
    @rule(count=st.integers(min_value=1, max_value=20))
    def frames_come(self, count: int) -> None:
        for _ in range(min(count, len(self.runtime.wire))):
            if self.runtime.wire:
                self.hear()

    @precondition(lambda self: self.linked and self.runtime.wire)
    @rule()
    def a_frame_comes_twice(self) -> None:
        if _is_event(self.runtime.wire[0]):
            self.runtime.wire.insert(0, self.runtime.wire[0])
        self.hear()

    @precondition(lambda self: self.linked and self.runtime.wire)
    @rule()
    def an_event_is_lost_on_its_way(self) -> None:
        if _is_event(self.runtime.wire[0]):
            self.runtime.wire.pop(0)

    @precondition(lambda self: self.linked and len(self.runtime.wire) > 1)
    @rule()
    def two_frames_change_places(self) -> None:
        wire = self.runtime.wire
        if _is_event(wire[0]) and _is_event(wire[1]):
            wire[0], wire[1] = wire[1], wire[0]

    @rule(seconds=st.sampled_from([0.1, 1.0, 2.5, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        for _ in range(200):
            deadline = self.session.deadline
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self.say(self.session.tick, self.now)
        else:
            raise AssertionError("the session's timer runs wild")
        self.now = end

    # ------------------------------------------------------------------ the client

    @precondition(lambda self: not self.over and len(self.runtime.jobs) < 4)
    @rule(users_key=st.booleans())
    def a_job_is_submitted(self, users_key: bool) -> None:
        self.keys += 1
        key = f"k{self.keys}"
        payload = {"agent": "a", "input": None, "idempotency_key": key}
        self.ask(
            Request(
                kind=names.SUBMIT,
                payload=payload,
                deadline=self.now + 1000,
                key=key,
                fresh=not users_key,
            )
        )

    @precondition(lambda self: not self.over and self.accepted)
    @rule(data=st.data())
    def a_job_is_cancelled(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.accepted)))
        self.ask(
            Request(
                kind=names.CANCEL,
                payload={"job_id": job_id},
                deadline=self.now + 1000,
                job_id=job_id,
            )
        )

    @precondition(lambda self: not self.over)
    @rule()
    def jobs_are_listed(self) -> None:
        self.ask(Request(kind=names.LIST_JOBS, payload={}, deadline=self.now + 1000))

    @precondition(lambda self: not self.over and self.asked)
    @rule(data=st.data())
    def a_request_is_withdrawn(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.asked))
        if request not in self.ended and request.kind == names.LIST_JOBS:
            self.say(self.session.withdraw, request)
            self.asked.remove(request)

    @precondition(lambda self: self.linked)
    @rule()
    def something_is_acknowledged(self) -> None:
        self.say(self.session.ack, self.session.received, self.now)

    # ------------------------------------------------------------------ the runtime

    @precondition(lambda self: self.open_jobs)
    @rule(data=st.data(), count=st.integers(min_value=1, max_value=6))
    def jobs_go_on(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            self.runtime.emit(data.draw(st.sampled_from(self.open_jobs), label="job"))

    @precondition(lambda self: self.open_jobs)
    @rule(data=st.data(), lost=st.sampled_from([False, False, False, True]))
    def a_job_ends(self, data: st.DataObject, lost: bool) -> None:
        self.runtime.emit(data.draw(st.sampled_from(self.open_jobs)), end=True, lost=lost)

    @precondition(lambda self: self.open_jobs)
    @rule(data=st.data())
    def the_runtime_loses_an_event(self, data: st.DataObject) -> None:
        self.runtime.emit(data.draw(st.sampled_from(self.open_jobs)), lost=True)

    # ------------------------------------------------------------------ what holds

    @invariant()
    def events_come_once_and_in_order(self) -> None:
        if not hasattr(self, "events"):
            return
        for job in self.runtime.jobs.values():
            numbers = self.delivered(job)
            assert numbers == sorted(set(numbers)), f"{job.name}: {numbers}"

    @invariant()
    def the_cursor_does_not_go_back(self) -> None:
        if not hasattr(self, "session"):
            return
        session_id, cursor = self.session.session_id, self.session.received
        if session_id == self.cursor[0]:
            assert cursor >= self.cursor[1]
        self.cursor = session_id, cursor

    def delivered(self, job: Job) -> list[int]:
        """Which of its events came, in the order in which they came."""
        return [
            event.current if isinstance(event, Progress) else job.ended
            for event in self.events
            if event.job_id == job.name and not isinstance(event, Gap)
        ]

    def said_to_be_missing(self, job: Job, number: int) -> bool:
        """Whether a gap covers it, in the numbers of a session in which it had one."""
        for gap in self.events:
            if isinstance(gap, Gap):
                session = self.runtime.sessions[gap.session_id]
                seq = session.numbers.get((job.name, number))
                if seq is not None and gap.first <= seq and (gap.last is None or seq <= gap.last):
                    return True
        return False

    def teardown(self) -> None:
        """From now on every link works. Everything is to come to its end."""
        if not hasattr(self, "session"):
            return
        if self.linked:
            self.down()  # what was lost at the very end shows on the next link only
        for _ in range(60):
            for job in self.open_jobs:
                self.runtime.emit(job, end=True)
            if self.relinks and self.linked:
                self.down()
            if not self.linked:
                self.up()
            for _ in range(2000):
                if not self.runtime.wire:
                    break
                self.hear()
            self.pass_time(3.0)
            self.runtime.nudge()
            if self.settled():
                break
        self.check_everything()
        self.say(self.session.end, None)
        assert self.over
        self.say(self.session.tick, self.now + 1000)
        self.say(self.session.lost, self.now)

    def settled(self) -> bool:
        return (
            not self.relinks
            and not self.runtime.wire
            and not list(self.session.requests)
            and all(job.job_id not in self.accepted for job in self.session.jobs)
        )

    def check_everything(self) -> None:
        assert [request for request in self.asked if request not in self.ended] == []
        for job_id in self.accepted:
            job = self.runtime.jobs[job_id]
            delivered = self.delivered(job)
            assert job.ended in delivered or job_id in self.gone, f"{job_id} has no end"
            for number in range(1, len(job.seqs) + 1):
                if number == job.ended and job_id in self.gone:
                    continue  # which is what was said in its place
                if number not in delivered:
                    assert self.said_to_be_missing(job, number), f"{job_id}.{number} is missing"
                    assert number in job.lost, f"{job_id}.{number} was there and did not come"


def _is_event(frame: bytes) -> bool:
    return "event_seq" in json.loads(frame)


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=60, stateful_step_count=60)
