"""The wall clock is set back or forward while a runtime serves. Its own time is virtual."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest

from arcp_client.errors import LeaseExpired
from arcp_client.runtime import JobContext
from tests.unit.runtime.jobs.test_cancel import opened, virtual
from tests.unit.runtime.peer import seqs
from tests.unit.runtime.sessions.test_resume import resumed, started

HOUR = 3600.0


class WallClock:
    """What the modules of the runtime take for the time of day.

    Attributes:
        off: by how many seconds it is wrong.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.off = 0.0
        clock = self

        class Shifted(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Self:
                moment = datetime.now(tz) + timedelta(seconds=clock.off)
                return cls.fromtimestamp(moment.timestamp(), tz)

        patched = 0
        for name, module in list(sys.modules.items()):
            if name.startswith("arcp_client.") and getattr(module, "datetime", None) is datetime:
                monkeypatch.setattr(module, "datetime", Shifted)
                patched += name.startswith("arcp_client.runtime.")
        assert patched >= 3


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(monkeypatch)


def in_(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def test_a_lease_that_the_clock_was_set_back_under_ends_in_its_time(wall: WallClock) -> None:
    """An hour back is no hour longer."""
    refused: list[float] = []

    async def scenario(runtime: Any) -> None:
        now = asyncio.get_running_loop().time

        @runtime.agent("busy")
        async def busy(input: Any, job: JobContext) -> None:
            while True:
                try:
                    job.authorize("tool.call", "x")
                except LeaseExpired:
                    refused.append(now())
                    raise
                await asyncio.sleep(1)

        peer = await opened(runtime)
        began = now()
        constraints = {"expires_at": in_(100)}
        lease = {"tool.call": ["*"]}
        await peer.submit("busy", lease_request=lease, lease_constraints=constraints)
        wall.off = -HOUR
        last = await peer.until("job.error")
        assert last["payload"]["code"] == "LEASE_EXPIRED"
        assert 95 < refused[0] - began <= 102

    virtual(scenario)


@pytest.mark.parametrize("off", [-HOUR, HOUR])
def test_heartbeats_and_the_resume_window_do_not_look_at_it(wall: WallClock, off: float) -> None:
    """A step of an hour ends no link, and makes the window neither shorter nor longer."""

    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        stepper, job_id = await started(runtime, peer)
        wall.off = off
        for _ in range(5):
            await stepper.emit(1)
            await asyncio.sleep(25)
            await peer.ask("session.list_jobs")
        assert [(await peer.read())["event_seq"] for _ in range(5)] == [1, 2, 3, 4, 5]
        await peer.cut()
        wall.off = 0.0
        await asyncio.sleep(300)
        wall.off = off
        await asyncio.sleep(290)
        fresh = await resumed(runtime, peer, 2)
        stepper.end.set()
        assert seqs(await fresh.follow(job_id)) == [3, 4, 5, 6]
        await fresh.cut()
        wall.off = -off
        await asyncio.sleep(620)
        late = await opened(runtime, resume=fresh.block(0))
        assert late.session_id == ""

    virtual(scenario)
