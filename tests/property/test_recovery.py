"""Jobs against a runtime of every dialect, over links that are cut at every step of a recovery.

Whatever happens, each job's events come once each and in order, what is missing stands under a
`Gap`, and once the faults stop the job comes to its outcome or to a typed error (S13).
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arcp_client._dialects import DIALECTS
from arcp_client.errors import ArcpError
from tests.property.peers import ALL, Job, Play
from tests.property.seeds import explore


class Recovery(RuleBasedStateMachine):
    """One client and one runtime; a subclass says of which dialect."""

    spoken: str

    @initialize(
        without=st.sampled_from(["", "", "", "", "subscribe", "list_jobs", "heartbeat"]),
        watches=st.booleans(),
    )
    def begin(self, without: str, watches: bool) -> None:
        features = tuple(feature for feature in ALL if feature != without)
        self.play = Play(self.spoken, features=features)
        self.play.up()
        # One runtime numbers each subscription from 1, in the log of the session, where numbers
        # that collide are dropped. So its resumes hold events of watched jobs in pieces.
        self.alone = watches and self.spoken == "python"
        if not self.alone:
            self.play.submit()
            self.play.flow()

    @property
    def running(self) -> list[Job]:
        jobs = self.play.peer.jobs.values()
        return [job for job in jobs if not job.end and not job.gone]

    # -- links

    @precondition(lambda self: self.play.linked)
    @rule(unnoticed=st.booleans())
    def the_link_is_cut(self, unnoticed: bool) -> None:
        self.play.cut(unnoticed=unnoticed)

    @precondition(lambda self: not self.play.linked)
    @rule(forgotten=st.sampled_from([False, False, True]))
    def a_link_comes_up(self, forgotten: bool) -> None:
        if forgotten:
            self.play.peer.forget_sessions()
        self.play.connect()

    @precondition(lambda self: self.play.linked)
    @rule()
    def what_is_asked_for_is_done(self) -> None:
        if self.play.relink:
            self.play.cut()
            self.play.connect()

    @rule(forgotten=st.sampled_from([False, False, True]))
    def a_session_is_live_again(self, forgotten: bool) -> None:
        if forgotten and not self.play.linked:
            self.play.peer.forget_sessions()
        self.play.up()

    @rule(
        forgotten=st.booleans(),
        ends=st.booleans(),
        frames=st.integers(0, 8),
        seconds=st.sampled_from([0.0, 0.0, 2.5, 31.0]),
        data=st.data(),
    )
    def a_recovery_is_cut(
        self, forgotten: bool, ends: bool, frames: int, seconds: float, data: st.DataObject
    ) -> None:
        """A session begins or is resumed, a job may go on meanwhile, and the link is cut soon."""
        if self.play.linked:
            self.play.cut()
        if self.running:
            self.play.peer.emit(self.drawn(data), end=ends)
        if forgotten:
            self.play.peer.forget_sessions()
        self.play.welcomed()
        self.play.move(frames)
        self.play.wait(seconds)
        self.play.cut()

    @precondition(lambda self: self.play.linked and self.play.peer.inbox)
    @rule(count=st.integers(1, 6))
    def the_runtime_reads(self, count: int) -> None:
        for _ in range(count):
            if self.play.peer.inbox:
                self.play.read()

    @precondition(lambda self: self.play.linked and self.play.peer.wire)
    @rule(count=st.integers(1, 12))
    def the_client_reads(self, count: int) -> None:
        for _ in range(count):
            if self.play.peer.wire:
                self.play.hear()

    @precondition(lambda self: self.play.linked)
    @rule()
    def everything_arrives(self) -> None:
        self.play.flow()

    @rule(seconds=st.sampled_from([0.1, 1.0, 2.5, 16.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.play.wait(seconds)

    @precondition(lambda self: self.play.linked)
    @rule()
    def a_request_is_swallowed(self) -> None:
        self.play.peer.swallow = 1

    @precondition(lambda self: self.play.linked)
    @rule(count=st.integers(1, 6))
    def subscriptions_are_refused_for_now(self, count: int) -> None:
        self.play.peer.busy = count

    # -- jobs

    @precondition(lambda self: self.play.asked < 3 and not self.alone)
    @rule()
    def a_job_is_submitted(self) -> None:
        self.play.submit()

    @precondition(lambda self: self.play.asked < (0 if self.spoken == "python" else 4) + self.alone)
    @rule(history=st.booleans(), before=st.integers(0, 3))
    def another_clients_job_is_watched(self, history: bool, before: int) -> None:
        job = self.play.peer.foreign()
        for _ in range(before):
            self.play.peer.emit(job)
        # One runtime puts no times on its events, so what is past cannot be told from what was
        # missed: a watch from now on is told its past once a link was lost.
        self.play.watch(job.name, history=history or self.spoken == "ruby")

    @precondition(lambda self: self.running)
    @rule(data=st.data(), count=st.integers(1, 4))
    def jobs_go_on(self, data: st.DataObject, count: int) -> None:
        job = self.drawn(data)
        for _ in range(count):
            if not job.gone:
                self.play.peer.emit(job)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def a_job_ends(self, data: st.DataObject) -> None:
        self.play.peer.emit(self.drawn(data), end=True)

    def drawn(self, data: st.DataObject) -> Job:
        names = [job.name for job in self.running]
        return self.play.peer.jobs[data.draw(st.sampled_from(names), label="job")]

    # -- what holds

    @invariant()
    def events_come_once_and_in_order(self) -> None:
        if hasattr(self, "play"):
            self._told(self.play.check)

    def teardown(self) -> None:
        if hasattr(self, "play"):
            self._told(self.play.finish)

    def _told(self, check: object) -> None:
        assert callable(check)
        try:
            check()
            assert all(isinstance(error, ArcpError) for error in self.play.gone.values())
        except AssertionError as failure:
            failure.add_note(self.play.report())
            raise


@pytest.mark.parametrize("spoken", DIALECTS)
def test_s13_every_job_comes_to_its_end_and_no_event_twice(spoken: str) -> None:
    machine = type(f"Recovery_{spoken}", (Recovery,), {"spoken": spoken})
    name = "test_s13_every_job_comes_to_its_end_and_no_event_twice"
    explore(machine, f"tests/property/test_recovery.py::{name}[{spoken}]", quick=25)
