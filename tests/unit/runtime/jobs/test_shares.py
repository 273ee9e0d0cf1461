"""What principals share, they share fairly."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.runtime import JobContext, Limits, Observation, SqliteEventLog
from arcp_client.runtime._jobs.idempotency import IdempotencyKeys
from arcp_client.runtime._jobs.shares import Shares, TurnQueue
from tests.unit.runtime.jobs.test_idempotency import TOKENS, counting

PRINCIPALS = st.sampled_from("abcd")


@given(st.lists(st.tuples(st.booleans(), PRINCIPALS), max_size=80))
def test_the_largest_share_is_known_after_any_steps(steps: list[tuple[bool, str]]) -> None:
    shares, model = Shares(), Counter[str]()
    for more, principal in steps:
        if more:
            shares.add(principal)
            model[principal] += 1
        elif model[principal]:
            shares.remove(principal)
            model[principal] -= 1
        model = +model
        assert len(shares) == len(model)
        if model:
            assert model[shares.largest()] == max(model.values())


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("push"), PRINCIPALS),
            st.just(("pop", "")),
            st.tuples(st.just("discard"), PRINCIPALS),
        ),
        max_size=80,
    )
)
def test_r4_a_queue_takes_turns_and_keeps_each_ones_order(steps: list[tuple[str, str]]) -> None:
    queue: TurnQueue[tuple[str, int]] = TurnQueue()
    model: dict[str, list[tuple[str, int]]] = {}
    passed: dict[str, Counter[str]] = {}  # who waits: how often others were served meanwhile
    for number, (what, principal) in enumerate(steps):
        if what == "push":
            queue.push(principal, (principal, number))
            model.setdefault(principal, []).append((principal, number))
            passed.setdefault(principal, Counter())
        elif what == "discard":
            entry = model.get(principal, [(principal, -1)])[0]
            queue.discard(principal, entry)
            if principal in model:
                model[principal].pop(0)
        elif any(model.values()):
            served = queue.pop()
            name = served[0]
            assert served == model[name].pop(0)
            for waits in model:
                if waits != name:
                    passed[waits][name] += 1
                    assert passed[waits][name] <= 2, "others were served twice meanwhile"
            passed[name] = Counter()
        model = {each: entries for each, entries in model.items() if entries}
        passed = {each: counts for each, counts in passed.items() if each in model}
        assert bool(queue) is bool(model)


# ------------------------------------------------------------------------- in a runtime


async def test_r4_principals_take_turns_for_a_slot(make: Any, open_peer: Any) -> None:
    runtime = make(auth=TOKENS, limits=Limits(max_concurrent_jobs=1))
    order: list[str] = []
    go = asyncio.Event()

    @runtime.agent("work")
    async def work(input: Any, job: JobContext) -> None:
        order.append(input)
        await go.wait()

    alice = await open_peer(runtime, token="t-alice")
    bob = await open_peer(runtime, token="t-bob")
    jobs = [(await alice.submit("work", f"a{n}"))["payload"]["job_id"] for n in range(20)]
    mine = [(await bob.submit("work", f"b{n}"))["payload"]["job_id"] for n in range(3)]
    cancelled = (await bob.submit("work", "cancelled"))["payload"]["job_id"]
    await bob.ask("job.cancel", {"job_id": cancelled})
    go.set()
    await bob.follow(mine[-1])
    assert order[:7] == ["a0", "a1", "b0", "a2", "b1", "a3", "b2"]
    await alice.follow(jobs[-1])
    assert [each for each in order if each[0] == "a"] == [f"a{n}" for n in range(20)]
    assert "cancelled" not in order


@pytest.mark.parametrize("durable", [False, True])
async def test_r4_keys_of_one_principal_do_not_push_out_those_of_another(
    make: Any, open_peer: Any, tmp_path: Any, durable: bool
) -> None:
    log = {"event_log": SqliteEventLog(tmp_path / "db")} if durable else {}
    runtime = make(auth=TOKENS, limits=Limits(idempotency_keys=100), **log)
    runs = counting(runtime)
    bob = await open_peer(runtime, token="t-bob")
    alice = await open_peer(runtime, token="t-alice")
    first = await bob.submit("count", "bob", idempotency_key="k")
    for number in range(110):
        await alice.submit("count", number, idempotency_key=f"k{number}")
    again = await bob.submit("count", "bob", idempotency_key="k")
    assert again["payload"]["job_id"] == first["payload"]["job_id"]
    await alice.submit("count", 0, idempotency_key="k0")  # the oldest of hers was forgotten
    await alice.run("count", "last")
    assert runs.count("bob") == 1
    assert runs.count(0) == 2
    assert runs.count(109) == 1


@pytest.mark.parametrize("limits", [{"retained_jobs": 20}, {"retained_bytes": 20_000}], ids=str)
async def test_r4_ended_jobs_of_one_principal_do_not_push_out_those_of_another(
    make: Any, open_peer: Any, limits: dict[str, int]
) -> None:
    runtime = make(auth=TOKENS, limits=Limits(**limits))

    @runtime.agent("say")
    async def say(input: Any, job: JobContext) -> None:
        await job.log("x" * 800)

    bob = await open_peer(runtime, token="t-bob")
    alice = await open_peer(runtime, token="t-alice")
    mine, _ = await bob.run("say")
    jobs = [(await alice.run("say"))[0] for _ in range(40)]
    watcher = await open_peer(runtime, token="t-bob")
    assert (await watcher.ask("job.subscribe", {"job_id": mine, "history": True}))[
        "type"
    ] == "job.subscribed"
    gone = await alice.ask("job.subscribe", {"job_id": jobs[0], "history": True})
    assert gone["payload"]["code"] == "JOB_NOT_FOUND"
    kept = await alice.ask("job.subscribe", {"job_id": jobs[-1], "history": True})
    assert kept["type"] == "job.subscribed"


def listed(answer: Any) -> list[str]:
    return [job["job_id"] for job in answer["payload"]["jobs"]]


async def test_a_listing_does_not_look_at_jobs_of_others(make: Any, open_peer: Any) -> None:
    asked: list[Observation] = []

    def policy(observation: Observation) -> bool:
        asked.append(observation)
        return observation.observer == "bob"

    for widened in (None, policy):
        runtime = make(auth=TOKENS, policy=widened)
        counting(runtime)
        alice = await open_peer(runtime, token="t-alice")
        bob = await open_peer(runtime, token="t-bob")
        theirs = [(await alice.run("count", n))[0] for n in range(3)]
        mine = (await bob.run("count"))[0]
        assert listed(await alice.ask("session.list_jobs")) == theirs
        expected = [mine] if widened is None else [*theirs, mine]
        assert listed(await bob.ask("session.list_jobs")) == expected


async def test_a_key_whose_submit_is_being_accepted_is_not_forgotten() -> None:
    """A repeat that waits for the acceptance would wait for ever."""
    keys = IdempotencyKeys(window=10.0, count=1)
    pending = keys.begin("alice", "k", b"p")
    for number in range(3):
        assert keys.find("alice", f"k{number}", b"p") is None
        keys.begin("alice", f"k{number}", b"p")
        keys.settle("alice", f"k{number}", {"job_id": str(number)})
    assert keys.find("alice", "k", b"p") is pending
    keys.settle("alice", "k", {"job_id": "j"})
    assert await pending.wait() == {"job_id": "j"}
    keys.drop("alice", "nothing", ValueError())
    keys.settle("alice", "nothing", {})
