"""Events of jobs that the runtime has not told of (D12)."""

from __future__ import annotations

import gc
import logging

import pytest

from arcp_client import JobHandle
from arcp_client._client.job_table import JobTable
from arcp_client._dispatch.early_events import EarlyEvents
from arcp_client._wire.replies import Accepted
from arcp_client.events import Completed, Event, Gap
from arcp_client.models import Lease, LeaseConstraints
from arcp_client.testing import VirtualClock
from tests.unit.dispatch.kit import SESSION, Hub, log


@pytest.fixture
def table() -> JobTable:
    return JobTable(Hub().owner)


def push(table: JobTable, *events: Event) -> None:
    table.streams.accept(list(events), 0.0, max(e.size for e in events))


def accepted(job_id: str) -> Accepted:
    return Accepted(job_id=job_id, agent="a@1", lease=Lease(), constraints=LeaseConstraints())


async def test_a_job_is_known_from_its_first_event_on(table: JobTable, clock: VirtualClock) -> None:
    """D12: and its events are there when it is told of."""
    push(table, log(1), log(2))
    record = table.get("job_1")
    assert record is not None
    assert isinstance(table.handle(record), JobHandle)
    assert table.announce(accepted("job_1"), submitted=True) is record
    await clock.advance(60)
    push(table, log(3))
    iterator = table.job(record).events()
    assert [(await anext(iterator)).seq for _ in range(3)] == [1, 2, 3]


async def test_at_most_256_events_are_kept_of_each(table: JobTable, clock: VirtualClock) -> None:
    """D12: what is beyond is a Gap in front."""
    for seq in range(1, 301):
        push(table, log(seq))
    record = table.announce(accepted("job_1"), submitted=True)
    push(table, *(log(seq) for seq in range(301, 401)))
    iterator = table.job(record).events()
    gap = await anext(iterator)
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last, gap.reason) == (1, 44, "not_retained")
    assert [(await anext(iterator)).seq for _ in range(356)] == list(range(45, 401))


async def test_after_thirty_seconds_they_are_given_up_with_one_log_line(
    table: JobTable, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """D12."""
    push(table, log(1))
    await clock.advance(20)
    push(table, log(2, "job_2"))
    await clock.advance(10)
    assert table.get("job_1") is None
    assert table.get("job_2") is not None
    push(table, log(3))
    await clock.advance(60)
    lines = [line for line in caplog.messages if "job_1" in line]
    assert len(lines) == 1
    assert caplog.records[0].levelno == logging.WARNING
    record = table.announce(accepted("job_1"), submitted=True)  # better late
    push(table, log(4))
    assert (await anext(table.job(record).events())).seq == 4


async def test_more_than_64_push_out_the_oldest(
    table: JobTable, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """D12."""
    push(table, *(log(n, f"job_{n}") for n in range(1, 66)))
    assert table.get("job_1") is None
    assert table.get("job_2") is not None
    assert len(caplog.messages) == 1
    table.close(lambda: ValueError())  # type: ignore[arg-type,return-value]


async def test_one_that_somebody_follows_stays(table: JobTable, clock: VirtualClock) -> None:
    """D12: giving it up would leave them waiting for ever."""
    push(table, log(1))
    record = table.get("job_1")
    assert record is not None
    iterator = table.handle(record).events()
    await clock.advance(60)
    push(table, log(2))
    assert [(await anext(iterator)).seq for _ in range(2)] == [1, 2]


async def test_the_closed_table_has_no_timer(table: JobTable, clock: VirtualClock) -> None:
    push(table, log(1))
    table.close(lambda: ValueError())  # type: ignore[arg-type,return-value]
    jumps = clock.jumps
    await clock.advance(60)
    assert clock.jumps == jumps + 1


async def test_twenty_thousand_short_jobs_leave_nothing_behind(
    table: JobTable, clock: VirtualClock
) -> None:
    """What is tracked returns to a bounded number."""
    for n in range(20_000):
        job_id = f"job_{n}"
        if n % 2:
            table.announce(accepted(job_id), submitted=True)
        end = Completed(seq=2 * n + 2, session_id=SESSION, job_id=job_id)
        push(table, log(2 * n + 1, job_id), end)
    assert not table.open()
    assert sum(1 for _ in table.streams) == 0
    assert not table.streams._busy
    gc.collect(0)
    assert sum(table.get(f"job_{n}") is not None for n in range(20_000)) <= 256
    await clock.advance(60)
    jumps = clock.jumps
    await clock.advance(1)
    assert clock.jumps == jumps + 1


async def test_jobs_that_come_after_others_were_given_up_are_given_up_as_well(
    table: JobTable, clock: VirtualClock
) -> None:
    """D12: the time limit starts anew when the last one has passed."""
    for job_id in ("job_1", "job_2"):
        push(table, log(1, job_id))
        assert table.get(job_id) is not None
        await clock.advance(31)
        assert table.get(job_id) is None


@pytest.mark.parametrize(("later", "remembered"), [(1024, True), (1025, False)])
async def test_the_last_1024_that_were_given_up_are_remembered(
    table: JobTable, clock: VirtualClock, later: int, remembered: bool
) -> None:
    """D12: their further events are dropped. Older ones are new again: memory is bounded."""
    push(table, *(log(n, f"job_{n}") for n in range(1, 65 + later)))
    push(table, log(65 + later, "job_1"))
    assert (table.get("job_1") is None) == remembered
    table.close(lambda: ValueError())  # type: ignore[arg-type,return-value]


async def test_a_job_that_was_given_up_and_is_accepted_after_all_may_be_unknown_once_more(
    clock: VirtualClock,
) -> None:
    given_up: list[str] = []
    early = EarlyEvents(in_use=lambda job_id: False, drop=given_up.append)
    assert early.admits("job_1")
    await clock.advance(30)
    assert given_up == ["job_1"]
    assert not early.admits("job_1")
    assert not early.claim("job_1")  # it has no time limit any more
    assert early.admits("job_1")
    assert early.claim("job_1")
    early.close()


async def test_a_log_line_has_at_most_80_characters_of_the_id_of_a_job(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    early = EarlyEvents(in_use=lambda job_id: False, drop=lambda job_id: None)
    assert early.admits("j" * 81)
    await clock.advance(30)
    early.close()
    [record] = caplog.records
    assert record.getMessage().split()[3] == "j" * 80
