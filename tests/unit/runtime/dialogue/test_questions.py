"""Questions of agents on the wire: the rules of the page "Extensions of the protocol"."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator

from arcp_client._wire import names
from arcp_client._wire.ids import parse_time, time_text
from arcp_client.errors import LocalProtocolError, QuestionExpired
from arcp_client.runtime import JobContext, Limits, MemoryEventLog, Runtime, SqliteEventLog
from arcp_client.testing import VirtualClock
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.peer import Frame, Peer, bodies, seqs

TOKENS = {"t-alice": "alice", "t-bob": "bob", "t-carol": "carol"}
PLAIN = names.FEATURES


def asks(runtime: Runtime, **options: Any) -> list[Any]:
    """Register an agent that asks once; what it got."""
    got: list[Any] = []

    @runtime.agent("asks")
    async def run(input: Any, job: JobContext) -> Any:
        answer = await job.ask("Deploy?", **{**options, **(input or {})})
        got.append(answer)
        return answer if isinstance(answer, str | int | bool | None) else str(answer)

    return got


async def asked(peer: Peer, input: Any = None, **submit: Any) -> tuple[str, Frame]:
    """Submit the agent that asks; the job's id, and the body of its question."""
    accepted = await peer.submit("asks", input, **submit)
    frame = await peer.until("job.event", kind=names.QUESTION)
    return accepted["payload"]["job_id"], frame["payload"]["body"]


async def answer(peer: Peer, job_id: str, question: Frame, value: Any, **more: Any) -> Frame:
    return await peer.ask(
        names.ANSWER,
        {"job_id": job_id, "question_id": question["question_id"], "value": value, **more},
    )


async def test_x4_a_question_and_its_answer_are_numbered_events(
    runtime: Any, open_peer: Any
) -> None:
    got = asks(runtime, options=["yes", ("no", "Not now")], default="no", timeout=60)
    peer = await open_peer(runtime)
    job_id, question = await asked(peer)
    assert question["text"] == "Deploy?"
    assert question["options"] == [{"value": "yes"}, {"value": "no", "label": "Not now"}]
    assert question["schema"] == {"enum": ["yes", "no"]}
    assert (question["to"], question["has_default"], question["default"]) == ([], True, "no")
    assert question["lease_paused"] is False
    left = parse_time(question["expires_at"])
    assert left is not None
    assert timedelta(seconds=50) < left - datetime.now(UTC) <= timedelta(seconds=60)

    taken = await answer(peer, job_id, question, "yes")
    assert taken["type"] == names.ANSWER_TAKEN
    assert taken["payload"]["value"] == "yes"
    assert (taken["payload"]["by"], taken["payload"]["client"]) == ("anonymous", "peer 1")
    frames = await peer.follow(job_id)
    assert seqs(frames) == [2, 3]
    (answered,) = bodies(frames, names.ANSWERED)
    assert answered == {
        name: taken["payload"][name] for name in ("question_id", "value", "by", "client", "at")
    }
    assert got == ["yes"]


async def test_x5_of_many_answers_one_is_taken_and_all_others_learn_of_it(
    runtime: Any, open_peer: Any
) -> None:
    got = asks(runtime)
    peers = [await open_peer(runtime) for _ in range(5)]
    job_id, question = await asked(peers[0])
    replies = await asyncio.gather(
        *(answer(peer, job_id, question, f"from {n}") for n, peer in enumerate(peers))
    )
    taken = [reply for reply in replies if reply["type"] == names.ANSWER_TAKEN]
    late = [reply["payload"] for reply in replies if reply["type"] == "session.error"]
    assert (len(taken), len(late)) == (1, 4)
    winner = taken[0]["payload"]["value"]
    assert {each["code"] for each in late} == {"QUESTION_ANSWERED"}
    assert {each["details"]["value"] for each in late} == {winner}
    assert {each["details"]["by"] for each in late} == {"anonymous"}
    assert not any(each["retryable"] for each in late)
    await peers[0].follow(job_id)
    assert got == [winner]


async def test_x9_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    runtime: Any, open_peer: Any
) -> None:
    class Plan(BaseModel):
        approve: bool
        budget: int = 0

        @field_validator("budget")
        @classmethod
        def _even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return value

    got = asks(runtime, schema=Plan)
    peer = await open_peer(runtime)
    job_id, question = await asked(peer)
    for wrong, path in (
        ("yes", "$"),
        ({}, "$.approve"),
        ({"approve": "maybe"}, "$.approve"),
        ({"approve": True, "budget": 3}, "$.budget"),  # only the agent's own check knows
    ):
        refused = await answer(peer, job_id, question, wrong)
        assert refused["payload"]["code"] == "INVALID_ANSWER"
        assert refused["payload"]["details"] == {"path": path}
    await answer(peer, job_id, question, {"approve": True, "budget": 4})
    await peer.follow(job_id)
    assert got == [Plan(approve=True, budget=4)]


async def test_x10_an_answer_under_the_same_key_is_confirmed_again(
    runtime: Any, open_peer: Any
) -> None:
    asks(runtime)
    peer, other = await open_peer(runtime), await open_peer(runtime)
    job_id, question = await asked(peer)
    first = await answer(peer, job_id, question, {"a": 1}, idempotency_key="k")
    assert first["payload"]["code"] == "INVALID_ANSWER"  # a refused answer does not use the key
    first = await answer(peer, job_id, question, "yes", idempotency_key="k")
    again = await answer(other, job_id, question, "yes", idempotency_key="k")
    assert again["type"] == names.ANSWER_TAKEN
    different = {"request_id"}
    assert {k: v for k, v in again["payload"].items() if k not in different} == {
        k: v for k, v in first["payload"].items() if k not in different
    }
    changed = await answer(peer, job_id, question, "no", idempotency_key="k")
    assert changed["payload"]["code"] == "DUPLICATE_KEY"
    late = await answer(peer, job_id, question, "yes", idempotency_key="other")
    assert late["payload"]["code"] == "QUESTION_ANSWERED"


async def test_x6_an_expired_question_takes_no_answer(make: MakeRuntime, clock: Any) -> None:
    runtime = make(heartbeat_interval=None)
    got = asks(runtime, timeout=10)
    peer = await Peer.to(runtime)
    await peer.hello()
    job_id, question = await asked(peer)
    await asyncio.sleep(10)
    refused = await answer(peer, job_id, question, "yes")
    assert refused["payload"]["code"] == "QUESTION_CLOSED"
    assert refused["payload"]["details"]["state"] == "expired"
    frames = await peer.follow(job_id)
    assert bodies(frames, names.EXPIRED) == [
        {"question_id": question["question_id"], "defaulted": False}
    ]
    assert frames[-1]["payload"]["code"] == "QUESTION_EXPIRED"
    assert got == []
    await peer.close()


async def test_a_default_holds_if_nobody_answers(make: MakeRuntime, clock: Any) -> None:
    runtime = make(heartbeat_interval=None)
    got = asks(runtime, schema=Literal["yes", "no"], default="no", timeout=10)
    peer = await Peer.to(runtime)
    await peer.hello()
    _, frames = await peer.run("asks")
    (expired,) = bodies(frames, names.EXPIRED)
    assert (expired["defaulted"], expired["value"]) == (True, "no")
    assert got == ["no"]
    await peer.close()


async def test_x8_every_question_ends(make: MakeRuntime, clock: Any) -> None:
    runtime = make(heartbeat_interval=None, limits=Limits(question_time=3600.0))
    asks(runtime, timeout=1e9)
    peer = await Peer.to(runtime)
    await peer.hello()
    _, frames = await peer.run("asks")
    assert frames[-1]["payload"]["code"] == "QUESTION_EXPIRED"
    await peer.close()


async def test_x7_the_end_of_a_job_withdraws_its_questions_before_the_terminal(
    runtime: Any, open_peer: Any
) -> None:
    asks(runtime)
    peer = await open_peer(runtime)
    job_id, question = await asked(peer)
    await peer.ask("job.cancel", {"job_id": job_id})
    frames = await peer.follow(job_id)
    assert bodies(frames, names.WITHDRAWN) == [
        {"question_id": question["question_id"], "reason": "job_ended"}
    ]
    assert [frame["type"] for frame in frames] == ["job.event", "job.error"]
    late = await answer(peer, job_id, question, "yes")
    assert late["payload"]["code"] == "QUESTION_CLOSED"


async def test_an_agent_that_stops_waiting_withdraws_its_question(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("impatient")
    async def impatient(input: Any, job: JobContext) -> str:
        task = asyncio.ensure_future(job.ask("Still there?"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return "gone"

    peer = await open_peer(runtime)
    _, frames = await peer.run("impatient")
    assert [body["reason"] for body in bodies(frames, names.WITHDRAWN)] == ["agent"]


async def test_x1_a_session_without_the_feature_misses_nothing_and_has_no_gap(
    runtime: Any, open_peer: Any
) -> None:
    asks(runtime)
    peer, plain = await open_peer(runtime), await open_peer(runtime, features=PLAIN)
    job_id, question = await asked(peer)
    await plain.ask("job.subscribe", {"job_id": job_id, "history": True})
    await answer(peer, job_id, question, "yes")
    frames = await plain.follow(job_id)
    assert [(frame["type"], frame["event_seq"]) for frame in frames] == [("job.result", 1)]


async def test_x2_messages_of_the_extension_need_the_feature(runtime: Any, open_peer: Any) -> None:
    asks(runtime)
    plain = await open_peer(runtime, features=PLAIN)
    for kind, payload in (
        (names.ANSWER, {"job_id": "j", "question_id": "q", "value": 1}),
        (names.LIST_QUESTIONS, {}),
        ("job.submit", {"agent": "asks", names.WORK_ID: "w"}),
    ):
        refused = await plain.ask(kind, payload)
        assert refused["payload"]["code"] == "INVALID_REQUEST"
        assert "not negotiated" in refused["payload"]["message"]


async def test_x3_an_agent_does_not_wait_for_people_who_cannot_answer(
    runtime: Any, open_peer: Any
) -> None:
    got = asks(runtime)
    plain = await open_peer(runtime, features=PLAIN)
    _, frames = await plain.run("asks")
    assert frames[-1]["payload"]["code"] == "FEATURE_NOT_NEGOTIATED"
    _, frames = await plain.run("asks", {"default": "no"})
    assert frames[-1]["payload"]["result"] == "no"
    assert got == ["no"]

    phone = await open_peer(runtime)  # another session of the same principal can answer
    job_id = (await plain.submit("asks"))["payload"]["job_id"]
    listed = await phone.ask(names.LIST_QUESTIONS)
    (question,) = listed["payload"]["questions"]
    await answer(phone, job_id, question, "yes")
    frames = await plain.follow(job_id)
    assert frames[-1]["payload"]["result"] == "yes"


async def test_x11_who_may_answer(make: MakeRuntime, open_peer: Any) -> None:
    seen = {"bob"}
    runtime = make(auth=TOKENS, policy=lambda watch: watch.observer in seen)
    asks(runtime)
    alice = await open_peer(runtime, token="t-alice")
    phone = await open_peer(runtime, token="t-alice")
    bob = await open_peer(runtime, token="t-bob")
    carol = await open_peer(runtime, token="t-carol")

    job_id, question = await asked(alice)
    assert (await answer(bob, job_id, question, "x"))["payload"]["code"] == "PERMISSION_DENIED"
    assert (await answer(carol, job_id, question, "x"))["payload"]["code"] == "QUESTION_NOT_FOUND"
    assert (await answer(phone, job_id, question, "x"))["type"] == names.ANSWER_TAKEN

    job_id, question = await asked(alice, {"to": ["bob", "carol"]})
    assert (await answer(alice, job_id, question, "x"))["payload"]["code"] == "PERMISSION_DENIED"
    assert (await answer(carol, job_id, question, "x"))["payload"]["code"] == "QUESTION_NOT_FOUND"
    listed = [
        [q["may_answer"] for q in (await peer.ask(names.LIST_QUESTIONS))["payload"]["questions"]]
        for peer in (alice, bob, carol)
    ]
    assert listed == [[False], [True], []]
    assert (await answer(bob, job_id, question, "x"))["payload"]["by"] == "bob"


async def test_a_question_is_answered_only_under_a_job_that_asked_it(
    runtime: Any, open_peer: Any
) -> None:
    asks(runtime)
    peer = await open_peer(runtime)
    job_id, question = await asked(peer)
    other, _ = await asked(peer)
    refused = await answer(peer, other, question, "yes")
    assert refused["payload"]["code"] == "QUESTION_NOT_FOUND"
    refused = await answer(peer, job_id, {"question_id": "q_made_up"}, "yes")
    assert refused["payload"]["code"] == "QUESTION_NOT_FOUND"


async def test_x12_pages_list_every_open_question_once(runtime: Any, open_peer: Any) -> None:
    asks(runtime)
    peer = await open_peer(runtime)
    asked_ids = [(await asked(peer, {"key": f"k{n}"}))[1]["question_id"] for n in range(7)]
    seen: list[str] = []
    cursor = None
    while True:
        page = (await peer.ask(names.LIST_QUESTIONS, {"limit": 2, "cursor": cursor}))["payload"]
        seen += [question["question_id"] for question in page["questions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == asked_ids
    refused = await peer.ask(names.LIST_QUESTIONS, {"cursor": "made up"})
    assert refused["payload"]["code"] == "INVALID_REQUEST"


async def test_x13_followers_get_one_notice_for_each_list(runtime: Any, open_peer: Any) -> None:
    asks(runtime)
    peer, phone = await open_peer(runtime), await open_peer(runtime)
    await phone.ask(names.LIST_QUESTIONS, {"follow": True})
    job_id, question = await asked(peer)
    await answer(peer, job_id, question, "yes")
    notice = await phone.read()
    assert notice["type"] == names.QUESTIONS_CHANGED
    assert (notice["payload"], notice.get("event_seq")) == ({}, None)
    await phone.send("session.ping", {"nonce": "n"})
    assert (await phone.read())["type"] == "session.pong"  # no second notice
    await phone.ask(names.LIST_QUESTIONS, {"follow": True})
    await asked(peer)
    assert (await phone.read())["type"] == names.QUESTIONS_CHANGED


async def test_agents_cannot_forge_the_events_of_questions(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("forger")
    async def forger(input: Any, job: JobContext) -> str:
        with pytest.raises(ValueError, match="agents cannot emit"):
            await job.emit(names.ANSWERED, {"question_id": "q", "value": 1})
        return "honest"

    _, frames = await (await open_peer(runtime)).run("forger")
    assert frames[-1]["payload"]["result"] == "honest"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"options": ["a"], "schema": str}, "options, or a schema"),
        ({"options": "yes"}, "options must be a list"),
        ({"options": ["a", "a"]}, "the same value appears twice"),
        ({"options": [{1}]}, r"options\[0\]"),
        ({"schema": object()}, "has no JSON Schema"),
        ({"schema": {"not": {}}}, "'not' is not supported"),
        ({"schema": int, "default": "x"}, "default"),
        ({"options": ["a"], "default": "b"}, "default: .*must be one of"),
        ({"timeout": 0}, "timeout"),
        ({"to": [1]}, "to must be a list of strings"),
    ],
)
async def test_a_bad_argument_is_the_agents_error(
    runtime: Any, open_peer: Any, arguments: Any, error: str
) -> None:
    @runtime.agent("wrong")
    async def wrong(input: Any, job: JobContext) -> str:
        with pytest.raises((ValueError, TypeError), match=error):
            await job.ask("?", **arguments)
        return "told"

    _, frames = await (await open_peer(runtime)).run("wrong")
    assert frames[-1]["payload"].get("result") == "told", frames[-1]


async def test_limits_of_questions(make: MakeRuntime, open_peer: Any) -> None:
    runtime = make(limits=Limits(open_questions=2, question_bytes=500))

    @runtime.agent("many")
    async def many(input: Any, job: JobContext) -> str:
        with pytest.raises(ValueError, match="over the limit of 500 bytes"):
            await job.ask("x" * 600)
        tasks = [asyncio.ensure_future(job.ask(f"{n}?")) for n in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(LocalProtocolError, match="has 2 open questions"):
            await job.ask("one more?")
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return "bounded"

    asks(runtime)
    peer = await open_peer(runtime)
    _, frames = await peer.run("many")
    assert frames[-1]["payload"].get("result") == "bounded", frames[-1]
    job_id, question = await asked(peer)
    refused = await answer(peer, job_id, question, "x" * 600)
    assert refused["payload"]["code"] == "INVALID_ANSWER"


async def test_closed_questions_are_kept_within_bounds(make: MakeRuntime, open_peer: Any) -> None:
    runtime = make(limits=Limits(answers=2))
    asks(runtime)
    peer = await open_peer(runtime)
    old = []
    for n in range(4):
        job_id, question = await asked(peer, {"key": f"k{n}"})
        await answer(peer, job_id, question, "yes")
        old.append((job_id, question))
    codes = [(await answer(peer, *each, "no"))["payload"]["code"] for each in old]
    assert codes == ["QUESTION_NOT_FOUND"] * 2 + ["QUESTION_ANSWERED"] * 2


# ------------------------------------------------------------------------------- work


def works(runtime: Runtime) -> list[Any]:
    """Register an agent that asks two questions and then waits for a third."""
    got: list[Any] = []

    @runtime.agent("asks")
    async def run(input: Any, job: JobContext) -> Any:
        got.append((job.id, await job.ask("first?")))
        got.append((job.id, await job.ask("again?")))
        got.append((job.id, await job.ask("again?")))
        return [each for _, each in got[-3:]]

    return got


async def test_x15_work_that_is_begun_again_gets_its_answers_at_once(
    runtime: Any, open_peer: Any
) -> None:
    got = works(runtime)
    peer = await open_peer(runtime)
    first, question = await asked(peer, **{names.WORK_ID: "w"})
    await answer(peer, first, question, "one")
    question = (await peer.until("job.event", kind=names.QUESTION))["payload"]["body"]
    await answer(peer, first, question, "two")
    await peer.until("job.event", kind=names.QUESTION)
    await peer.ask("job.cancel", {"job_id": first})
    await peer.follow(first)

    second = (await peer.submit("asks", **{names.WORK_ID: "w"}))["payload"]["job_id"]
    frames = [await peer.until("job.event") for _ in range(5)]
    assert [body["value"] for body in bodies(frames, names.ANSWERED)] == ["one", "two"]
    third = bodies(frames, names.QUESTION)[-1]
    await answer(peer, second, third, "three")
    frames = await peer.follow(second)
    assert frames[-1]["payload"]["result"] == ["one", "two", "three"]
    assert got[:2] == [(first, "one"), (first, "two")]


@pytest.mark.parametrize("other", [{names.WORK_ID: "v"}, {}], ids=["another name", "no name"])
async def test_other_work_asks_for_itself(runtime: Any, open_peer: Any, other: Any) -> None:
    asks(runtime)
    peer = await open_peer(runtime)
    job_id, question = await asked(peer, **{names.WORK_ID: "w"})
    await answer(peer, job_id, question, "one")
    await peer.follow(job_id)
    _, again = await asked(peer, **other)
    assert again["question_id"] != question["question_id"]


async def test_a_job_without_a_name_of_its_work_asks_each_time_unless_it_gives_a_key(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("twice")
    async def twice(input: Any, job: JobContext) -> list[Any]:
        return [await job.ask("Deploy?", key=key) for key in (None, None, "k", "k")]

    peer = await open_peer(runtime)
    job_id = (await peer.submit("twice"))["payload"]["job_id"]
    ids = []
    for value in ("one", "two", "three"):
        question = (await peer.until("job.event", kind=names.QUESTION))["payload"]["body"]
        ids.append(question["question_id"])
        await answer(peer, job_id, question, value)
    frames = await peer.follow(job_id)
    assert len(set(ids)) == 3
    assert frames[-1]["payload"]["result"] == ["one", "two", "three", "three"]


async def test_two_jobs_of_the_same_work_share_a_question(runtime: Any, open_peer: Any) -> None:
    got = asks(runtime)
    peer, other = await open_peer(runtime), await open_peer(runtime)
    job_id, question = await asked(peer, **{names.WORK_ID: "w"})
    twin_id, twin = await asked(other, **{names.WORK_ID: "w"})
    assert twin["question_id"] == question["question_id"]
    await peer.ask("job.cancel", {"job_id": job_id})
    await peer.follow(job_id)
    await answer(other, twin_id, twin, "both")
    frames = await other.follow(twin_id)
    assert frames[-1]["payload"]["result"] == "both"
    assert got == ["both"]


async def test_x14_questions_of_interrupted_work_survive_the_runtime(tmp_path: Path) -> None:
    path = tmp_path / "runtime.db"
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        works(runtime)
        peer = await Peer.to(runtime)
        await peer.hello()
        first, question = await asked(peer, **{names.WORK_ID: "w"})
        await answer(peer, first, question, "one", idempotency_key="k")
        pending = (await peer.until("job.event", kind=names.QUESTION))["payload"]["body"]
        plain, lost = await asked(peer)
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        got = works(runtime)
        again = await Peer.to(runtime)
        await again.hello(resume=peer.block())
        frames = [await again.read() for _ in range(3)]
        ends = {f["job_id"]: f["payload"]["code"] for f in frames if f["type"] == "job.error"}
        assert ends == dict.fromkeys([first, plain], "INTERNAL_ERROR")
        # Only the question of the job without a name for its work was withdrawn.
        assert [body["question_id"] for body in bodies(frames, names.WITHDRAWN)] == [
            lost["question_id"]
        ]
        taken = await answer(again, first, question, "one", idempotency_key="k")
        assert taken["type"] == names.ANSWER_TAKEN
        listed = (await again.ask(names.LIST_QUESTIONS))["payload"]["questions"]
        assert [(q["question_id"], q["waiting"]) for q in listed] == [
            (pending["question_id"], False)
        ]
        await answer(again, first, pending, "two")  # no agent waits for it now
        second = (await again.submit("asks", **{names.WORK_ID: "w"}))["payload"]["job_id"]
        third = await again.until("job.event", kind=names.QUESTION)
        while third["payload"]["body"]["question_id"] in (
            question["question_id"],
            pending["question_id"],
        ):
            third = await again.until("job.event", kind=names.QUESTION)
        await answer(again, second, third["payload"]["body"], "three")
        frames = await again.follow(second)
        assert frames[-1]["payload"]["result"] == ["one", "two", "three"]
        assert got == [(second, "one"), (second, "two"), (second, "three")]
        await again.close()
        await peer.close()


# ------------------------------------------------------------------------------- the lease


async def test_x16_a_question_stops_the_clock_of_a_lease_that_says_so(
    make: MakeRuntime, clock: VirtualClock
) -> None:
    runtime = make(heartbeat_interval=None)
    asks(runtime)

    @runtime.agent("after")
    async def after(input: Any, job: JobContext) -> str:
        await job.ask("Deploy?")
        await asyncio.sleep(50)
        job.authorize("fs.read", "/a")
        await asyncio.sleep(20)
        return "too late"

    peer = await Peer.to(runtime)
    await peer.hello()
    end = datetime.now(UTC) + timedelta(seconds=60)
    constraints = {"expires_at": time_text(end), names.PAUSES: True}
    accepted = await peer.submit(
        "after", lease_request={"fs.read": ["/**"]}, lease_constraints=constraints
    )
    job_id = accepted["payload"]["job_id"]
    assert accepted["payload"]["lease_constraints"] == constraints
    question = (await peer.until("job.event", kind=names.QUESTION))["payload"]["body"]
    assert question["lease_paused"] is True
    await asyncio.sleep(1000)
    await answer(peer, job_id, question, "yes")
    answered = (await peer.until("job.event", kind=names.ANSWERED))["payload"]["body"]
    moved = parse_time(answered["lease_expires_at"])
    assert moved is not None
    assert abs((moved - end).total_seconds() - 1000) < 1
    frames = await peer.follow(job_id)
    assert frames[-1]["payload"]["code"] == "LEASE_EXPIRED"
    await peer.close()


async def test_a_lease_that_does_not_say_so_runs_on(make: MakeRuntime, clock: Any) -> None:
    runtime = make(heartbeat_interval=None)
    asks(runtime)
    peer = await Peer.to(runtime)
    await peer.hello()
    end = time_text(datetime.now(UTC) + timedelta(seconds=60))
    _, frames = await peer.run("asks", lease_constraints={"expires_at": end})
    assert bodies(frames, names.QUESTION)[0]["lease_paused"] is False
    assert "lease_expires_at" not in bodies(frames, names.WITHDRAWN)[0]
    assert frames[-1]["payload"]["code"] == "LEASE_EXPIRED"
    await peer.close()


async def test_the_error_of_an_agent_can_be_caught(make: MakeRuntime, clock: Any) -> None:
    runtime = make(heartbeat_interval=None)

    @runtime.agent("calm")
    async def calm(input: Any, job: JobContext) -> str:
        try:
            return str(await job.ask("Anybody?", timeout=5))
        except QuestionExpired:
            return "nobody"

    peer = await Peer.to(runtime)
    await peer.hello()
    _, frames = await peer.run("calm")
    assert frames[-1]["payload"]["result"] == "nobody"
    await peer.close()


class SlowLog(MemoryEventLog):
    """A durable log whose writes wait until the test lets them happen."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.writes = asyncio.Event()
        self.writes.set()

    async def write(self, entries: Any) -> None:
        await self.writes.wait()


async def test_x4_neither_agent_nor_people_learn_of_an_answer_that_is_not_stored(
    make: MakeRuntime, clock: VirtualClock
) -> None:
    log = SlowLog()
    runtime = make(heartbeat_interval=None, event_log=log)
    got = asks(runtime)
    peer, late = await Peer.to(runtime), await Peer.to(runtime)
    await peer.hello()
    await late.hello()
    job_id, question = await asked(peer)
    log.writes.clear()
    replies = [
        asyncio.ensure_future(answer(each, job_id, question, value))
        for each, value in ((peer, "yes"), (late, "no"))
    ]
    await asyncio.sleep(0.5)  # less than the log's patience
    early = (list(got), [reply.done() for reply in replies])
    log.writes.set()
    assert early == ([], [False, False])
    taken, refused = await asyncio.gather(*replies)
    assert taken["payload"]["value"] == refused["payload"]["details"]["value"] == "yes"
    await peer.follow(job_id)
    assert got == ["yes"]
    await peer.close()
    await late.close()
