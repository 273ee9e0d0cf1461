"""The logs of sessions and jobs in memory: what is counted up comes down again."""

from __future__ import annotations

from arcp_client._wire.stamp import Record
from arcp_client.runtime._log.replay_buffers import JobHistory, SessionLog


def record(size: int) -> Record:
    return Record(b"id", b"job.event", b"", b"", 0.0, None, "job", 0, size)


def test_a_history_holds_as_many_events_after_its_bound_was_passed_as_before() -> None:
    history = JobHistory(max_events=100, max_bytes=100)
    for seq in range(1, 31):
        history.append(seq, record(10))
        assert history.bytes == 10 * min(seq, 10)
        assert history.end - history.floor == min(seq, 10)


def test_a_session_log_holds_as_many_events_after_its_bound_was_passed_as_before() -> None:
    log = SessionLog(max_events=100, max_bytes=100)
    for seq in range(1, 31):
        log.append(record(10))
        assert len(log) == min(seq, 10)
        assert log.bytes_after(0) == 10 * min(seq, 10)
    log.free(25, 100)
    for _ in range(20):
        log.append(record(10))
    assert len(log) == 10
    log.restore(100)
    for n in range(1, 21):
        log.append(record(10))
        assert len(log) == min(n, 10)


def test_one_event_over_the_bound_is_kept_alone_and_what_follows_is_counted_anew() -> None:
    history = JobHistory(max_events=100, max_bytes=100)
    history.append(1, record(500))
    assert (history.floor, history.end) == (0, 1)
    for seq in range(2, 12):
        history.append(seq, record(10))
    assert (history.floor, history.end, history.bytes) == (1, 11, 100)


def test_a_restored_history_starts_behind_the_last_hole_in_what_was_stored() -> None:
    history = JobHistory(max_events=100, max_bytes=100)
    for index in (3, 4, 10, 11, 12):  # a session still needed the first two
        history.restore(index, index + 1, record(10))
    assert (history.floor, history.end, history.bytes) == (10, 13, 30)
    assert [seq for seq, _ in history] == [11, 12, 13]
