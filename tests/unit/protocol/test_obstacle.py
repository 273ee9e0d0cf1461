"""Links that end at one place: which places are passed, and when there is no use in it (S18)."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client._protocol import actions
from arcp_client._protocol.obstacle import STEPS, Conclusion, Obstacle
from arcp_client._wire import names
from arcp_client.errors import LinkLost, ResultUnavailable
from tests.dialects import ALL
from tests.unit.protocol.kit import JOB, Strict, gaps, live

TOO_LARGE = LinkLost("the runtime sent a frame over this side's limit", close_code=1009)


def refused(table: Strict) -> dict[str, Any]:
    """The link ends for a frame that was refused; the next hello."""
    table.session.lost(table.now, TOO_LARGE)
    table.do()
    table.sent.clear()
    return table.connect()


def test_s18_one_link_proves_nothing() -> None:
    obstacle = Obstacle()
    assert [obstacle.met("s", cursor) for cursor in (1, 2, 3)] == [Conclusion.FIRST] * 3
    assert obstacle.met("other", 3) is Conclusion.FIRST
    assert obstacle.met("other", 3) is Conclusion.SAME_PLACE


def test_s18_places_in_a_row_are_passed_so_many_times() -> None:
    obstacle, cursor, findings = Obstacle(), 5, []
    while Conclusion.NO_WAY not in findings:
        obstacle.met("s", cursor)
        findings.append(obstacle.met("s", cursor))
        cursor += 1
        obstacle.passed("s", cursor)
    behind = [Conclusion.BEHIND_PASSED] * (STEPS - 1)
    assert findings == [Conclusion.SAME_PLACE, *behind, Conclusion.NO_WAY]


def test_s18_what_is_received_in_between_counts_from_the_beginning() -> None:
    obstacle = Obstacle()
    for cursor in range(0, 200, 2):
        obstacle.met("s", cursor)
        assert obstacle.met("s", cursor) is Conclusion.SAME_PLACE
        obstacle.passed("s", cursor + 1)


@pytest.mark.parametrize("spoken", ALL)
def test_s18_the_second_link_that_ends_at_a_cursor_is_followed_by_a_gap(spoken: str) -> None:
    table = live(spoken=spoken)
    table.replay(1, 3)
    assert refused(table)["payload"]["resume"]["last_event_seq"] == 3
    assert gaps(table) == []
    reports = table.of(actions.Report)
    assert any("limit" in report.message for report in reports)  # at once
    before = len(gaps(table))
    assert refused(table)["payload"]["resume"]["last_event_seq"] == 4
    assert (4, 4, "undecodable") in gaps(table)[before:]
    table.event(5, JOB, 5, id="five")
    assert table.numbers[-1] == 5


def test_s18_links_that_end_otherwise_pass_nothing() -> None:
    table = live()
    table.replay(1, 3)
    for _ in range(10):
        table.resumed(3)
    assert gaps(table) == []


def test_s18_a_link_in_between_that_ends_otherwise_does_not_hide_the_place() -> None:
    table = live()
    table.replay(1, 3)
    refused(table)
    table.resumed(3)
    refused(table)
    assert gaps(table) == [(4, 4, "undecodable")]


def test_s18_what_waits_behind_the_place_is_delivered() -> None:
    table = live()
    table.replay(1, 3)
    refused(table)
    table.event(5, JOB, 5)
    table.event(6, JOB, 6)
    refused(table)
    assert table.numbers == [1, 2, 3, "gap", 5, 6]


def test_s18_the_jobs_of_the_place_are_checked_on_the_next_link() -> None:
    table = live()
    table.replay(1, 3)
    refused(table)
    refused(table)
    looks = {names.SUBSCRIBE, names.LIST_JOBS}
    assert not {frame["type"] for frame in table.sent} & looks  # the replay comes first
    table.alive(0.1)
    assert {frame["type"] for frame in table.sent} & looks


def test_s18_no_end_of_such_places_is_the_end_of_the_session() -> None:
    table = Strict()
    for _ in range(2 * (STEPS + 2)):
        table.session.lost(table.now, TOO_LARGE)
        table.do()
        if table.of(actions.Ended):
            break
        table.sent.clear()
        table.connect()
    (ended,) = table.of(actions.Ended)
    assert ended.cause is TOO_LARGE
    assert len(gaps(table)) == STEPS


def test_s18_where_the_answers_to_plans_end_links_their_jobs_have_no_outcome() -> None:
    table = live()
    table.replay(1, 3)
    table.cut()
    table.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.connect(session_id="sess_2")
    for _ in range(3):
        assert table.said(names.SUBSCRIBE)["payload"]["job_id"] == JOB
        assert table.of(actions.JobGone) == []
        refused(table)
        table.alive(0.1)  # the replay has ended
    refused(table)
    (gone,) = table.of(actions.JobGone)
    assert isinstance(gone.error, ResultUnavailable)
    assert gone.job_id == JOB


def test_s18_a_frame_that_ends_a_link_before_its_welcome_is_reported_and_passes_nothing() -> None:
    table = live()
    table.replay(1, 3)
    for _ in range(4):
        table.cut()
        table.hello()
        table.session.lost(table.now, TOO_LARGE)
        table.do()
    assert gaps(table) == []
    assert len(table.of(actions.Report)) == 4
