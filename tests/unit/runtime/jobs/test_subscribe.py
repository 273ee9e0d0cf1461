"""Observers: the same events in another session's numbers (§7.6)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from arcp_client._wire.names import HISTORY_LAST
from arcp_client.errors import LinkLost
from arcp_client.runtime import JobContext, Limits, Observation
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.peer import Frame, seqs
from tests.unit.runtime.sessions.test_resume import Stepper, resumed, started

TOKENS = {"t-alice": "alice", "t-bob": "bob"}


def ids(frames: list[Frame]) -> list[str]:
    return [f["id"] for f in frames]


async def test_an_observer_gets_history_and_live_events_in_its_own_numbers(
    runtime: Any, open_peer: Any
) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)

    @runtime.agent("other")
    async def other(input: Any, job: JobContext) -> None:
        await job.log("mine")

    await observer.run("other")  # two numbers of its own
    await stepper.emit(3)
    subscribed = await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    payload = subscribed["payload"]
    assert subscribed["type"] == "job.subscribed"
    assert payload["replayed"] is True
    assert payload["subscribed_from"] == 3
    assert payload["current_status"] == "running"
    assert payload["agent"] == "stepper"
    assert payload["lease"]
    await stepper.emit(2)
    stepper.end.set()
    seen, own = await observer.follow(job_id), await owner.follow(job_id)
    assert seqs(own) == list(range(1, 7))
    assert seqs(seen) == list(range(3, 9))
    assert ids(seen) == ids(own)
    assert {f["session_id"] for f in seen} == {observer.session_id}
    assert [f["payload"] for f in seen] == [f["payload"] for f in own]


async def test_nothing_is_left_of_a_subscription_after_the_terminal(
    runtime: Any, open_peer: Any
) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await observer.ask("job.subscribe", {"job_id": job_id})
    stepper.end.set()
    await observer.follow(job_id)
    job = runtime._core.jobs.get(job_id)
    assert job.feeds == {}
    for connection in runtime._core.links.connections:
        assert connection.session.feeds == {}
        assert connection.session.jobs == set()


async def test_a_subscription_names_the_last_past_event_that_it_delivers(
    runtime: Any, open_peer: Any
) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await stepper.emit(3)
    told = [await owner.read() for _ in range(3)]
    request = {"job_id": job_id, "history": True}
    answer = await observer.ask("job.subscribe", request)
    assert answer["payload"][HISTORY_LAST] == told[-1]["id"]
    assert ids([await observer.read() for _ in range(3)]) == ids(told)
    stepper.end.set()
    await observer.follow(job_id)


async def test_a_subscription_without_past_events_says_so(runtime: Any, open_peer: Any) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    answer = await observer.ask("job.subscribe", {"job_id": job_id})
    assert answer["payload"][HISTORY_LAST] == ""
    again = await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert HISTORY_LAST not in again["payload"], "the session receives all events already"
    own = await owner.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert HISTORY_LAST not in own["payload"]
    stepper.end.set()


async def test_a_history_before_a_subscription_ends_where_the_subscription_began(
    runtime: Any, open_peer: Any
) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await stepper.emit(2)
    told = [await owner.read() for _ in range(2)]
    await observer.ask("job.subscribe", {"job_id": job_id})
    await stepper.emit(1)
    await observer.read()
    answer = await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert answer["payload"][HISTORY_LAST] == told[-1]["id"]
    stepper.end.set()


async def test_the_last_past_event_is_one_that_the_session_receives(
    runtime: Any, open_peer: Any
) -> None:
    owner = await open_peer(runtime)
    observer = await open_peer(runtime, features=["subscribe"])

    @runtime.agent("ends-with-progress")
    async def agent(input: Any, job: JobContext) -> None:
        await job.log("the last one for those without progress")
        await job.progress(1)
        await asyncio.Event().wait()

    job_id = (await owner.submit("ends-with-progress"))["payload"]["job_id"]
    told = [await owner.read() for _ in range(2)]
    answer = await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert answer["payload"][HISTORY_LAST] == told[0]["id"]


async def test_without_history_only_what_follows(runtime: Any, open_peer: Any) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await stepper.emit(3)
    subscribed = await observer.ask("job.subscribe", {"job_id": job_id})
    assert subscribed["payload"]["replayed"] is False
    await stepper.emit(1)
    stepper.end.set()
    assert seqs(await observer.follow(job_id)) == [1, 2]


@pytest.mark.parametrize(("start", "count"), [(0, 6), (3, 3), (6, 0), (99, 0)])
async def test_from_event_seq_counts_in_the_submitting_session_and_is_exclusive(
    runtime: Any, open_peer: Any, start: int, count: int
) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await stepper.emit(5)
    stepper.end.set()
    whole = await owner.follow(job_id)
    request = {"job_id": job_id, "history": True, "from_event_seq": start}
    answer = await observer.ask("job.subscribe", request)
    assert answer["payload"]["replayed"] is (count > 0)
    assert answer["payload"]["current_status"] == "success"
    frames = [await observer.read() for _ in range(count)]
    assert ids(frames) == ids(whole)[6 - count :]
    assert await observer.send("session.ping", {"nonce": "n"})
    assert (await observer.read())["type"] == "session.pong"


@pytest.mark.usefixtures("untraced")
async def test_the_border_of_history_and_live_has_neither_hole_nor_repeat(
    runtime: Any, open_peer: Any
) -> None:
    owner = await open_peer(runtime)

    @runtime.agent("busy")
    async def busy(input: Any, job: JobContext) -> None:
        for n in range(3000):
            await job.log(str(n))

    job_id = (await owner.submit("busy"))["payload"]["job_id"]
    observers = []

    async def watch() -> None:
        observer = await open_peer(runtime)
        observers.append(observer)
        await observer.ask("job.subscribe", {"job_id": job_id, "history": True})

    async def read_all(peer: Any) -> list[Frame]:
        frames: list[Frame] = await peer.follow(job_id)
        return frames

    reading = asyncio.create_task(read_all(owner))
    watching = []
    for _ in range(50):
        await watch()
        watching.append(asyncio.create_task(read_all(observers[-1])))
    whole = ids(await reading)
    told = 1  # that the owner acknowledged nothing
    assert len(whole) == 3001 + told
    for task in watching:
        frames = await task
        assert ids(frames) == whole
        assert seqs(frames) == list(range(1, 3002 + told))


async def test_the_submitting_session_gets_no_second_copy(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    stepper, job_id = await started(runtime, peer)
    await stepper.emit(2)
    for history in (False, True):
        answer = await peer.ask("job.subscribe", {"job_id": job_id, "history": history})
        assert answer["type"] == "job.subscribed"
        assert answer["payload"]["replayed"] is False
    await stepper.emit(1)
    stepper.end.set()
    frames = await peer.follow(job_id)
    assert seqs(frames) == [1, 2, 3, 4]
    assert len(set(ids(frames))) == 4
    answer = await peer.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert answer["payload"]["replayed"] is False
    assert answer["payload"]["current_status"] == "success"


async def test_subscribing_twice_gives_one_copy_and_later_history_only_what_is_missing(
    runtime: Any, open_peer: Any
) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await stepper.emit(3)
    await observer.ask("job.subscribe", {"job_id": job_id})
    await observer.ask("job.subscribe", {"job_id": job_id})
    await stepper.emit(1)
    assert seqs([await observer.read()]) == [1]
    answer = await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert answer["payload"]["replayed"] is True
    stepper.end.set()
    frames = await observer.follow(job_id)
    whole = await owner.follow(job_id)
    assert ids(frames) == [*ids(whole)[:3], ids(whole)[-1]]
    assert seqs(frames) == [2, 3, 4, 5]


async def test_unsubscribing_ends_the_copies_and_nothing_else(runtime: Any, open_peer: Any) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await observer.ask("job.subscribe", {"job_id": job_id})
    await stepper.emit(1)
    await observer.read()
    await observer.send("job.unsubscribe", {"job_id": job_id})
    await observer.send("job.unsubscribe", {"job_id": "job_unknown"})
    await observer.ask("session.list_jobs")
    await owner.send("job.unsubscribe", {"job_id": job_id})  # its own stream stays
    await stepper.emit(1)
    stepper.end.set()
    assert seqs(await owner.follow(job_id)) == [1, 2, 3]
    assert observer.held == []
    await observer.send("session.ping", {"nonce": "n"})
    assert (await observer.read())["type"] == "session.pong"


async def test_an_observer_goes_on_while_the_owner_is_away_and_resumes_itself(
    runtime: Any, open_peer: Any
) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    await owner.cut()
    await stepper.emit(2)
    first = [await observer.read(), await observer.read()]
    await observer.cut()
    await stepper.emit(3000)  # more than is copied ahead for somebody who is away
    fresh = await resumed(runtime, observer, 1)
    stepper.end.set()
    frames = await fresh.follow(job_id)
    assert frames[0] == first[1]
    assert seqs(frames) == list(range(2, 3004))
    back = await resumed(runtime, owner, 0)
    assert ids(await back.follow(job_id)) == [first[0]["id"], *ids(frames)]
    await fresh.close()
    await back.close()


async def test_an_observer_that_falls_out_of_the_history_is_told(
    make: MakeRuntime, open_peer: Any
) -> None:
    runtime = make(limits=Limits(history_events=100, lag_delay=0.0))
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await observer.ask("job.subscribe", {"job_id": job_id})
    await owner.cut()
    await stepper.emit(5000)  # the observer reads nothing
    numbers = []
    while True:
        frame = await observer.read()
        if frame["type"] == "session.error":
            break
        numbers += seqs([frame])
    assert frame["payload"]["job_id"] == job_id
    assert numbers == list(range(1, len(numbers) + 1))
    again = await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert again["payload"]["replayed"] is True


async def test_other_principals_are_denied_unless_the_policy_opens_it(
    make: MakeRuntime, open_peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="arcp_client.runtime")
    asked: list[Observation] = []

    def policy(wish: Observation) -> bool:
        asked.append(wish)
        return wish.agent == "stepper"

    for rule, opens in ((None, False), (policy, True)):
        runtime = make(auth=TOKENS, policy=rule)
        alice = await open_peer(runtime, token="t-alice")
        bob = await open_peer(runtime, token="t-bob")
        stepper, job_id = await started(runtime, alice)
        answer = await bob.ask("job.subscribe", {"job_id": job_id, "history": True})
        listed = await bob.ask("session.list_jobs")
        assert len(listed["payload"]["jobs"]) == (1 if opens else 0)
        if opens:
            assert answer["type"] == "job.subscribed"
            cancel = await bob.ask("job.cancel", {"job_id": job_id})
            assert cancel["payload"]["code"] == "PERMISSION_DENIED"
        else:
            assert answer["payload"]["code"] == "PERMISSION_DENIED"
            assert answer["payload"]["job_id"] == job_id
        stepper.end.set()
    assert asked[0].observer == "bob"
    assert asked[0].owner == "alice"
    assert f"bob asks to observe job {job_id} of alice: allowed" in caplog.text
    assert "of alice: denied" in caplog.text


async def test_a_broken_policy_opens_nothing(make: MakeRuntime, open_peer: Any) -> None:
    def policy(wish: Observation) -> bool:
        raise RuntimeError

    runtime = make(auth=TOKENS, policy=policy)
    alice = await open_peer(runtime, token="t-alice")
    bob = await open_peer(runtime, token="t-bob")
    stepper, job_id = await started(runtime, alice)
    answer = await bob.ask("job.subscribe", {"job_id": job_id})
    assert answer["payload"]["code"] == "PERMISSION_DENIED"
    stepper.end.set()


async def test_an_unknown_job_is_not_found(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    answer = await peer.ask("job.subscribe", {"job_id": "job_x"})
    assert answer["type"] == "session.error"
    assert answer["payload"]["code"] == "JOB_NOT_FOUND"


async def test_ended_jobs_are_kept_in_number_and_bytes(make: MakeRuntime, open_peer: Any) -> None:
    runtime = make(limits=Limits(retained_jobs=3))
    stepper = Stepper(runtime)
    stepper.end.set()
    peer = await open_peer(runtime)
    jobs = [(await peer.run("stepper"))[0] for _ in range(5)]
    listed = await peer.ask("session.list_jobs")
    assert [j["job_id"] for j in listed["payload"]["jobs"]] == jobs[2:]
    answer = await peer.ask("job.subscribe", {"job_id": jobs[0]})
    assert answer["payload"]["code"] == "JOB_NOT_FOUND"


async def test_a_pong_stands_behind_what_was_emitted_before_its_ping(
    runtime: Any, open_peer: Any
) -> None:
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    await observer.ask("job.subscribe", {"job_id": job_id})
    await stepper.emit(700)  # more than a link takes in at once
    await observer.send("job.unsubscribe", {"job_id": job_id})
    await observer.send("session.ping", {"nonce": "n"})
    told = []
    while (frame := await observer.read())["type"] != "session.pong":
        told.append(frame)
    assert frame["payload"]["ping_nonce"] == "n"
    await stepper.emit(1)
    await observer.send("session.ping", {"nonce": "m"})
    assert (await observer.read())["type"] == "session.pong", "nothing comes behind it"
    assert seqs(told) == list(range(1, 701))
    stepper.end.set()


@pytest.mark.parametrize("count", [1000, 3000])
async def test_a_pong_stands_behind_the_history_that_was_asked_for_before_its_ping(
    runtime: Any, open_peer: Any, count: int
) -> None:
    """A history beyond the room of a session is numbered while the client reads it."""
    owner, observer = await open_peer(runtime), await open_peer(runtime)
    stepper, job_id = await started(runtime, owner)
    reading = asyncio.create_task(_read_for_ever(owner))
    await stepper.emit(count)
    await observer.send("job.subscribe", {"job_id": job_id, "history": True})
    for nonce in ("n", "m"):
        await observer.send("session.ping", {"nonce": nonce})
    told, pongs = [], []
    while len(pongs) < 2:
        frame = await observer.read()
        if frame["type"] == "session.pong":
            pongs.append((frame["payload"]["ping_nonce"], len(told)))
        elif frame["type"] == "job.event":
            told.append(frame)
    assert [nonce for nonce, _ in pongs] == ["n", "m"]
    assert all(at == len(told) for _, at in pongs)
    assert len(told) >= count  # and a few that say that the agent waits for its client
    stepper.end.set()
    await owner.transport.close()
    await reading


async def _read_for_ever(peer: Any) -> None:
    with contextlib.suppress(LinkLost):
        while True:
            await peer.read()
