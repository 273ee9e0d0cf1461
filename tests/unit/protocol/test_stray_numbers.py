"""One odd number neither deafens a session nor costs an event that comes (S17)."""

from __future__ import annotations

import pytest

from arcp_client._protocol import actions
from arcp_client._protocol.reassembly import AGREEING, SETTLE
from arcp_client._wire import names
from arcp_client.errors import RemoteProtocolError
from arcp_client.models import Checkpoint, OpenJob
from tests.unit.protocol.kit import JOB, Strict, gaps, live

STRICT = ["arcp-client", "go", "java", "unknown"]
TOLERANT = ["python", "typescript", "csharp", "ruby"]
STRAYS = [2 + 8192 + 1, 10**6, 2**31, 2**53 + 1, 2**63 - 1]


def progress(seq: int, table: Strict, number: int | None = None) -> None:
    table.event(seq, JOB, seq if number is None else number, id=f"event-{seq}-{number}")


@pytest.mark.parametrize("spoken", STRICT)
@pytest.mark.parametrize("stray", [90, 1000, 2 + 8192])
def test_s17_late_events_of_a_hole_that_was_given_up_are_delivered(spoken: str, stray: int) -> None:
    table = live(spoken=spoken)
    progress(1, table)
    progress(2, table)
    progress(stray, table, 50)
    table.alive(2 * SETTLE)
    if table.causes:
        table.resumed(2)
    table.alive(10 * SETTLE)
    assert gaps(table) == [(3, stray - 1, "lost")]
    for seq in range(3, 9):
        progress(seq, table)
        progress(seq, table)
    assert table.numbers == [1, 2, "gap", 50, 3, 4, 5, 6, 7, 8]
    assert table.session.received == stray
    assert table.session.repeated == 6


@pytest.mark.parametrize("spoken", [*STRICT, *TOLERANT])
@pytest.mark.parametrize("stray", STRAYS)
def test_s17_a_number_that_is_too_far_ahead_is_an_undecodable_frame(
    spoken: str, stray: int
) -> None:
    table = live(spoken=spoken)
    progress(1, table)
    progress(2, table)
    progress(stray, table, 50)
    assert gaps(table) == [(stray, stray, "undecodable")]
    (report,) = [report for report in table.of(actions.Report) if report.error is not None]
    assert isinstance(report.error, RemoteProtocolError)
    assert str(stray) in str(report.error)
    table.alive(4 * SETTLE)
    assert table.causes == []
    for seq in range(3, 9):
        progress(seq, table)
    assert table.numbers == [1, 2, "gap", 3, 4, 5, 6, 7, 8]
    assert table.session.received == 8


@pytest.mark.parametrize("stray", [2**64, 10**30])
def test_s17_what_is_no_number_of_64_bits_is_none(stray: int) -> None:
    """The frame has no place in order: it is reported."""
    table = live()
    progress(1, table)
    progress(stray, table, 50)
    progress(2, table)
    assert table.numbers == [1, 2]
    assert [report.error is not None for report in table.of(actions.Report)] == [True]
    assert table.session.received == 2


@pytest.mark.parametrize("spoken", [*STRICT, *TOLERANT])
def test_s17_the_end_of_a_job_with_such_a_number_is_looked_for(spoken: str) -> None:
    """The frame is not taken; but its job is checked, as after every gap (S4)."""
    table = live(spoken=spoken)
    progress(1, table)
    table.result(2**63 - 1, JOB)
    assert table.numbers == [1, "gap"]
    asked = {frame["type"] for frame in table.sent}
    assert asked & {names.SUBSCRIBE, names.LIST_JOBS, names.SUBMIT}


@pytest.mark.parametrize("spoken", STRICT)
def test_s17_numbers_that_agree_are_believed(spoken: str) -> None:
    """A runtime that lost more than one frame may lead: its numbers go on from there."""
    table = live(spoken=spoken)
    progress(1, table)
    for seq in range(60_000, 60_000 + AGREEING + 5):
        progress(seq, table, 50)
    refused = [gap for gap in gaps(table) if gap[2] == "undecodable"]
    assert len(refused) == AGREEING - 1
    table.alive(2 * SETTLE)
    if table.causes:
        table.resumed(1)
    table.alive(10 * SETTLE)
    assert gaps(table)[-1] == (2, 60_000 + AGREEING - 2, "lost")
    assert table.session.received == 60_000 + AGREEING + 4


def test_s17_a_numbered_frame_that_is_no_event_costs_no_gap() -> None:
    table = live()
    progress(1, table)
    table.hear({"type": names.PONG, "event_seq": 2**62, "payload": {"ping_nonce": "x"}})
    progress(2, table)
    assert table.numbers == [1, 2]
    assert table.session.received == 2


def test_s17_what_an_earlier_life_processed_is_not_late() -> None:
    """Ranges of a checkpoint lie in a hole, and come after it was given up: not handled twice."""
    job = OpenJob(JOB, "a", "key", "hash")
    checkpoint = Checkpoint(
        session_id="sess_1",
        resume_token="rst",
        mark=2,
        processed=((5, 6),),
        reserved=8,
        jobs=(job,),
    )
    table = Strict(connect=False, checkpoint=checkpoint)
    table.connect()
    progress(8, table)
    table.alive(2 * SETTLE)
    if table.causes:
        table.resumed(2)
    table.alive(10 * SETTLE)
    for seq in range(3, 10):
        progress(seq, table)
    assert table.numbers == ["gap", 8, 3, 4, 7, 9]
