"""How long a session without a link is kept (§6.3). Time is virtual; the window is 600 s."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.runtime.jobs.test_cancel import opened, virtual
from tests.unit.runtime.peer import seqs
from tests.unit.runtime.sessions.test_resume import resumed, started


def test_a_session_whose_job_runs_at_the_end_of_the_window_is_kept_for_another_one() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        stepper, job_id = await started(runtime, peer)
        await peer.cut()
        await asyncio.sleep(1100)  # the job runs at 600 s
        stepper.end.set()
        await asyncio.sleep(90)  # the job has ended, and the second window has not
        fresh = await resumed(runtime, peer, 0)
        assert seqs(await fresh.follow(job_id)) == [1]

    virtual(scenario)


def test_a_session_whose_jobs_have_ended_is_dropped_at_the_end_of_the_window() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        stepper, _ = await started(runtime, peer)
        await peer.cut()
        await asyncio.sleep(1100)
        stepper.end.set()
        await asyncio.sleep(110)  # 1,200 s are over: the second window has ended
        late = await opened(runtime, resume=peer.block(0))
        assert late.session_id == ""  # refused

    virtual(scenario)


def test_each_loss_of_the_link_begins_a_window_of_its_own() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        await peer.cut()
        await asyncio.sleep(500)
        peer = await opened(runtime, resume=peer.block(0))
        await peer.cut()
        await asyncio.sleep(550)  # the first window would have ended at 600 s
        peer = await opened(runtime, resume=peer.block(0))
        assert peer.session_id
        await peer.cut()
        await asyncio.sleep(650)
        late = await opened(runtime, resume=peer.block(0))
        assert late.session_id == ""

    virtual(scenario)


def test_a_session_that_is_left_after_the_runtime_has_closed_starts_no_timer() -> None:
    """So does a session that was taken over when the runtime closed."""

    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        sessions = runtime._core.sessions
        session = sessions.get(peer.session_id)
        await runtime.close()
        sessions.left(session)
        assert session.expiry is None

    virtual(scenario)
