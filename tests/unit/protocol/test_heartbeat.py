"""S12: pings on an idle link, dead after two silent intervals, and no false alarm (§6.4)."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from arcp_client._protocol.heartbeat import DOUBTS, SHORTEST, Heartbeat, Pulse

QUIET, PING, DEAD = Pulse.QUIET, Pulse.PING, Pulse.DEAD


def run(link: Heartbeat, until: float, *, answers: bool = False, start: float = 0.0) -> list[tuple]:
    """Look whenever the link wants to be looked at; gives what came of it."""
    pulses = []
    now = start
    while link.deadline is not None and link.deadline <= until:
        assert link.deadline >= now
        now = link.deadline
        pulse = link.look(now)
        if pulse is not QUIET:
            pulses.append((now, pulse))
        if pulse is DEAD:
            break
        if pulse is PING and answers:
            link.heard_at = now
    return pulses


def test_s12_an_idle_link_is_pinged_once_and_dead_after_two_silent_intervals() -> None:
    assert run(Heartbeat(10.0, 0.0), 100.0) == [(10.0, PING), (20.0, DEAD)]


def test_s12_pongs_alone_keep_a_link_alive() -> None:
    pulses = run(Heartbeat(10.0, 0.0), 200.0, answers=True)
    assert [pulse for _, pulse in pulses] == [PING] * 20


def test_s12_a_chatty_peer_does_not_starve_the_pings_that_it_waits_for() -> None:
    link = Heartbeat(10.0, 0.0)
    pings = 0
    for second in range(1, 100):
        link.heard_at = float(second)
        pings += link.look(float(second)) is PING
    assert pings == 9


def test_s12_own_traffic_takes_the_place_of_a_ping_but_silence_is_still_asked_about() -> None:
    link = Heartbeat(10.0, 0.0)
    link.heard_at = 9.0
    link.sent_at = 9.0
    assert link.look(10.0) is QUIET
    assert link.deadline == 19.0


def test_s12_one_question_an_interval_of_silence_is_enough() -> None:
    link = Heartbeat(10.0, 0.0)
    assert link.look(10.0) is PING
    link.sent_at = 12.0
    assert link.look(19.0) is QUIET
    assert link.deadline == 20.0


def test_s12_an_answer_at_the_reading_of_its_ping_is_one() -> None:
    """A coarse clock, and own traffic in between that takes the place of pings by silence."""
    link = Heartbeat(10.0, 0.0)
    for minute in range(1, 20):
        asked = 10.0 * minute
        assert link.look(asked) is PING
        link.heard_at = asked  # its answer
        link.sent_at = asked + 9.0  # an acknowledgement
        assert link.deadline == asked + 10.0


@pytest.mark.parametrize("granularity", [0.0, 0.5, 1.0, 5.0, 10.0])
@pytest.mark.parametrize("chatter", [0.5, 3.0, 9.0, 11.0])
def test_s12_answered_pings_keep_a_link_alive_on_any_clock(
    granularity: float, chatter: float
) -> None:
    """This side says something every so often; the peer only answers pings, at once."""
    link, says = Heartbeat(10.0, 0.0), chatter
    for step in range(1, 3000):
        time = step * 0.5
        now = time if not granularity else time - time % granularity
        if time >= says:
            says += chatter
            link.sent_at = now
        pulse = link.look(now)
        assert pulse is not DEAD
        if pulse is PING:
            link.heard_at = now


@pytest.mark.parametrize("interval", [0.2, 1e9])
def test_s12_intervals_are_kept_as_they_are(interval: float) -> None:
    assert run(Heartbeat(interval, 0.0), 3 * interval) == [(interval, PING), (2 * interval, DEAD)]


def test_s12_an_interval_next_to_nothing_does_not_become_a_busy_loop() -> None:
    pulses = run(Heartbeat(1e-9, 0.0), 1.0, answers=True)
    assert len(pulses) <= 1.0 / SHORTEST + 1


def test_s12_without_a_heartbeat_nothing_is_asked_and_nothing_is_dead() -> None:
    link = Heartbeat(None, 0.0)
    assert link.deadline is None
    assert link.look(1e9) is QUIET


def test_s12_silence_of_a_paused_reader_proves_nothing_but_pings_go_on() -> None:
    link = Heartbeat(10.0, 0.0)
    link.pause(5.0)
    link.pause(6.0)
    pulses = [link.look(float(t)) for t in range(6, 60)]
    assert DEAD not in pulses
    assert pulses.count(PING) == 5
    link.unpause(60.0)
    assert link.heard_at == 55.0
    assert run(link, 200.0, start=60.0)[-1] == (75.0, DEAD)


def test_s12_unpausing_what_was_not_paused_changes_nothing() -> None:
    link = Heartbeat(10.0, 0.0)
    link.unpause(5.0)
    assert link.heard_at == 0.0


def test_s12_after_the_machine_slept_the_peer_is_asked_before_it_is_called_dead() -> None:
    link = Heartbeat(10.0, 0.0)
    link.heard_at = 5.0
    link.look(5.0)
    assert link.look(605.0) is PING
    assert link.deadline == 615.0
    link.heard_at = 606.0
    assert link.look(615.0) is not DEAD


def test_s12_a_peer_that_stays_silent_after_the_sleep_is_dead() -> None:
    link = Heartbeat(10.0, 0.0)
    assert link.look(600.0) is PING
    assert run(link, 700.0, start=600.0) == [(610.0, DEAD)]


def test_s12_nothing_is_carried_into_the_next_link() -> None:
    first = Heartbeat(10.0, 0.0)
    run(first, 100.0)
    assert run(Heartbeat(10.0, 100.0), 300.0, answers=True, start=100.0)[0] == (110.0, PING)


def test_s12_what_arrived_while_the_loop_was_blocked_counts_before_a_link_is_called_dead() -> None:
    link = Heartbeat(10.0, 0.0)
    assert link.look(10.0) is PING
    # The loop is blocked from here to 20.0, while the pong arrives.
    for _ in range(DOUBTS):
        assert link.look(20.0) is QUIET
        assert link.deadline is not None
        assert link.deadline <= 20.0  # the next look comes in the next iteration of the loop
    link.heard_at = 20.0  # the reader
    assert link.look(20.0) is PING
    assert run(link, 100.0, start=20.0) == [(30.0, PING), (40.0, DEAD)]


@pytest.mark.parametrize("iterations", [0, 1, 5, 8])
async def test_s12_a_blocked_loop_reads_what_has_arrived_before_its_link_counts_as_dead(
    iterations: int,
) -> None:
    """A frame may pass several tasks on its way to the reader, for example those of a server."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        link = Heartbeat(0.02, loop.time())
        over: asyncio.Future[bool] = loop.create_future()

        async def read() -> None:
            reader, writer = await asyncio.open_connection(sock=ours)
            await reader.read(1)
            for _ in range(iterations):
                await asyncio.sleep(0)
            link.heard_at = loop.time()
            writer.close()
            if not over.done():
                over.set_result(True)

        def look() -> None:
            if over.done():
                return
            if link.look(loop.time()) is DEAD:
                over.set_result(False)
                return
            assert link.deadline is not None
            loop.call_at(link.deadline, look)

        def block() -> None:
            look()
            theirs.send(b"x")
            time.sleep(0.025)  # longer than the rest of two intervals, shorter than 1.5 of them

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        loop.call_at(loop.time() + 0.02, block)
        assert await over
        await reading
