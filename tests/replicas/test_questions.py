"""Questions over replicas: asked on one, listed and answered on any, and kept when one is gone."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import asyncpg
import pytest
from pydantic import BaseModel, field_validator

from arcp_client._wire import names
from arcp_client.errors import LocalProtocolError, QuestionExpired, request_error
from arcp_client.runtime import JobContext, Limits, Runtime
from arcp_client.runtime._dialogue.shared_book import SharedQuestionBook
from arcp_client.runtime._log.dialogue import QuestionsMoved
from arcp_client.runtime._log.postgres_dialogue import PostgresDialogue
from tests.postgres import Cluster
from tests.replicas.conftest import MakeReplica, OpenPeer
from tests.unit.runtime.peer import Frame, Peer, bodies

WORK = {names.WORK_ID: "w"}


class Plan(BaseModel):
    budget: int

    @field_validator("budget")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def asks(runtime: Runtime) -> list[Any]:
    """Register an agent that asks once; what it got."""
    got: list[Any] = []

    @runtime.agent("asks")
    async def run(input: Any, job: JobContext) -> Any:
        options = dict(input or {})
        if options.pop("plan", False):
            options["schema"] = Plan
        try:
            answer = await job.ask("Deploy?", **options)
        except QuestionExpired:
            answer = "expired"
        got.append(answer)
        return str(answer)

    return got


async def asked(peer: Peer, input: Any = None, **submit: Any) -> tuple[str, Frame]:
    """Submit the agent that asks; the job's id, and the body of its question."""
    accepted = await peer.submit("asks", input, **submit)
    job_id: str = accepted["payload"]["job_id"]
    while True:
        frame = await peer.until("job.event", kind=names.QUESTION)
        if frame["job_id"] == job_id:
            return job_id, frame["payload"]["body"]


async def answer(peer: Peer, job_id: str, question: Frame, value: Any, **more: Any) -> Frame:
    return await peer.ask(
        names.ANSWER,
        {"job_id": job_id, "question_id": question["question_id"], "value": value, **more},
    )


async def listed(peer: Peer, **request: Any) -> list[Frame]:
    page = await peer.ask(names.LIST_QUESTIONS, request)
    questions: list[Frame] = page["payload"]["questions"]
    return questions


async def lose(cluster: Cluster, schema: str, job_id: str) -> None:
    """Let the lease of the replica that runs a job pass, as if its process was killed."""
    connection = await asyncpg.connect(cluster.dsn)
    await connection.execute(
        f"UPDATE {schema}.replicas SET until = '-infinity'"
        f" WHERE id = (SELECT runner FROM {schema}.jobs WHERE id = $1)",
        job_id,
    )
    await connection.close()


async def test_a_question_is_listed_and_answered_on_another_replica(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    got = asks(a)
    asks(b)
    owner, phone = await peer(a), await peer(b)
    assert names.ASKING in owner.welcome["payload"]["capabilities"]["features"]
    job_id, question = await asked(owner, {"options": ["yes", "no"]})
    (entry,) = await listed(phone)
    assert entry["question_id"] == question["question_id"]
    assert (entry["job_id"], entry["agent"]) == (job_id, "asks")
    assert entry["may_answer"] is entry["waiting"] is True
    wrong = await answer(phone, job_id, question, "maybe")
    assert wrong["payload"]["code"] == "INVALID_ANSWER"
    taken = await answer(phone, job_id, question, "yes", idempotency_key="k")
    assert taken["type"] == names.ANSWER_TAKEN, taken
    frames = await owner.follow(job_id)
    (answered,) = bodies(frames, names.ANSWERED)
    assert answered == {
        name: taken["payload"][name] for name in ("question_id", "value", "by", "client", "at")
    }
    assert got == ["yes"]
    again = await answer(phone, job_id, question, "yes", idempotency_key="k")
    assert again["payload"]["at"] == taken["payload"]["at"]
    changed = await answer(phone, job_id, question, "no", idempotency_key="k")
    assert changed["payload"]["code"] == "DUPLICATE_KEY"
    late = await answer(owner, job_id, question, "no")
    assert late["payload"]["details"]["value"] == "yes"
    assert await listed(phone) == []


async def test_of_many_answers_on_all_replicas_one_is_taken_and_all_others_learn_of_it(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    runtimes = [replica() for _ in range(3)]
    got, *_ = [asks(runtime) for runtime in runtimes]
    peers = [await peer(runtime) for runtime in runtimes for _ in range(2)]
    for turn in range(5):
        job_id, question = await asked(peers[0])
        replies = await asyncio.gather(
            *(answer(each, job_id, question, f"{turn} from {n}") for n, each in enumerate(peers))
        )
        taken = [reply for reply in replies if reply["type"] == names.ANSWER_TAKEN]
        late = [reply["payload"] for reply in replies if reply["type"] == "session.error"]
        assert (len(taken), len(late)) == (1, 5)
        winner = taken[0]["payload"]["value"]
        assert {each["code"] for each in late} == {"QUESTION_ANSWERED"}
        assert {each["details"]["value"] for each in late} == {winner}
        frames = await peers[0].follow(job_id)
        assert [body["value"] for body in bodies(frames, names.ANSWERED)] == [winner]
        assert got[turn] == winner


async def test_the_agents_own_check_refuses_an_answer_on_another_replica(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    got = asks(a)
    asks(b)
    owner, phone = await peer(a), await peer(b)
    job_id, question = await asked(owner, {"plan": True})
    odd = await answer(phone, job_id, question, {"budget": 3})
    assert odd["payload"]["code"] == "INVALID_ANSWER"
    assert odd["payload"]["details"] == {"path": "$.budget"}
    taken = await answer(phone, job_id, question, {"budget": 4})
    assert taken["type"] == names.ANSWER_TAKEN
    await owner.follow(job_id)
    assert got == [Plan(budget=4)]


async def test_who_sees_and_answers_the_questions_of_other_replicas(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    tokens = {"t-alice": "alice", "t-bob": "bob", "t-carol": "carol"}
    options: Any = {"auth": tokens, "policy": lambda watch: watch.observer == "bob"}
    a, b = replica(**options), replica(**options)
    asks(a)
    alice = await peer(a, token="t-alice")
    phone, bob, carol = [await peer(b, token=f"t-{name}") for name in ("alice", "bob", "carol")]
    job_id, question = await asked(alice)
    assert (await answer(bob, job_id, question, "x"))["payload"]["code"] == "PERMISSION_DENIED"
    assert (await answer(carol, job_id, question, "x"))["payload"]["code"] == "QUESTION_NOT_FOUND"
    other = await answer(phone, "job_other", question, "x")
    assert other["payload"]["code"] == "QUESTION_NOT_FOUND"
    assert [[q["may_answer"] for q in await listed(each)] for each in (phone, bob, carol)] == [
        [True],
        [False],
        [],
    ]
    assert (await answer(phone, job_id, question, "x"))["payload"]["by"] == "alice"
    job_id, question = await asked(alice, {"to": ["bob", "carol"]})
    assert (await answer(bob, job_id, question, "y"))["payload"]["by"] == "bob"


async def test_pages_list_the_open_questions_of_all_replicas_once(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    runtimes = [replica() for _ in range(2)]
    for runtime in runtimes:
        asks(runtime)
    peers = [await peer(runtime) for runtime in runtimes]
    ids = [(await asked(peers[n % 2], {"key": f"k{n}"}))[1]["question_id"] for n in range(7)]
    for each in peers:
        seen: list[str] = []
        cursor = None
        while True:
            page = (await each.ask(names.LIST_QUESTIONS, {"limit": 2, "cursor": cursor}))["payload"]
            seen += [question["question_id"] for question in page["questions"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == ids


async def test_followers_on_any_replica_are_told_of_each_change(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    asks(a)
    owner, phone = await peer(a), await peer(b)
    assert await listed(phone, follow=True) == []
    job_id, question = await asked(owner)
    await phone.until(names.QUESTIONS_CHANGED)
    assert len(await listed(phone, follow=True)) == 1
    await answer(owner, job_id, question, "yes")
    await phone.until(names.QUESTIONS_CHANGED)
    assert await listed(phone) == []


async def test_a_question_survives_its_replica_and_is_answered_meanwhile(
    replica: MakeReplica, peer: OpenPeer, cluster: Cluster, schema: str
) -> None:
    a, b = replica(), replica()
    asks(a)
    got = asks(b)
    owner, phone = await peer(a), await peer(b)
    job_id, question = await asked(owner, **WORK)
    plain_id, plain = await asked(owner)
    await phone.ask("job.subscribe", {"job_id": job_id, "history": True})
    await phone.ask("job.subscribe", {"job_id": plain_id, "history": True})
    await lose(cluster, schema, job_id)
    ends = {}
    withdrawn: list[Frame] = []
    while len(ends) < 2:
        frame = await phone.read()
        withdrawn += bodies([frame], names.WITHDRAWN)
        if frame["type"] == "job.error":
            ends[frame["job_id"]] = frame["payload"]["code"]
    assert ends == dict.fromkeys([job_id, plain_id], "INTERNAL_ERROR")
    assert withdrawn == [{"question_id": plain["question_id"], "reason": "job_ended"}]
    (entry,) = await listed(phone)
    assert (entry["question_id"], entry["waiting"]) == (question["question_id"], False)
    taken = await answer(phone, job_id, question, "yes", idempotency_key="k")
    assert taken["type"] == names.ANSWER_TAKEN
    again = (await phone.submit("asks", **WORK))["payload"]["job_id"]
    frames = await phone.follow(again)
    assert bodies(frames, names.QUESTION)[0]["question_id"] == question["question_id"]
    (answered,) = bodies(frames, names.ANSWERED)
    assert (answered["value"], answered["at"]) == ("yes", taken["payload"]["at"])
    assert got == ["yes"]
    late = await answer(phone, again, question, "no")
    assert late["payload"]["code"] == "QUESTION_ANSWERED"


async def test_work_that_is_begun_again_elsewhere_takes_its_open_question_over(
    replica: MakeReplica, peer: OpenPeer, cluster: Cluster, schema: str
) -> None:
    a, b, c = replica(), replica(), replica()
    asks(a)
    asks(c)
    got = asks(b)
    owner, phone, other = await peer(a), await peer(b), await peer(c)
    job_id, question = await asked(owner, **WORK)
    await phone.ask("job.subscribe", {"job_id": job_id, "history": True})
    await lose(cluster, schema, job_id)
    await phone.until("job.error")
    again, taken_over = await asked(phone, **WORK)
    for name in ("question_id", "expires_at", "text"):
        assert taken_over[name] == question[name]
    (entry,) = await listed(other)
    assert (entry["job_id"], entry["waiting"]) == (again, True)
    assert (await answer(other, again, question, "yes"))["type"] == names.ANSWER_TAKEN
    await phone.follow(again)
    assert got == ["yes"]


async def test_jobs_of_one_work_on_two_replicas_share_a_question(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    got = asks(a), asks(b)
    owner, twin = await peer(a), await peer(b)
    first, question = await asked(owner, **WORK)
    second, same = await asked(twin, **WORK)
    assert same["question_id"] == question["question_id"]
    assert (await answer(twin, second, same, "both"))["type"] == names.ANSWER_TAKEN
    for each, job_id in ((owner, first), (twin, second)):
        frames = await each.follow(job_id)
        assert [body["value"] for body in bodies(frames, names.ANSWERED)] == ["both"]
    assert got == (["both"], ["both"])


async def test_the_second_job_of_a_work_takes_the_question_over_if_the_first_is_gone(
    replica: MakeReplica, peer: OpenPeer, cluster: Cluster, schema: str
) -> None:
    a, b = replica(), replica()
    asks(a)
    got = asks(b)
    owner, twin = await peer(a), await peer(b)
    first, question = await asked(owner, **WORK)
    second, _ = await asked(twin, **WORK)
    await lose(cluster, schema, first)
    assert (await answer(twin, second, question, "late"))["type"] == names.ANSWER_TAKEN
    await twin.follow(second)
    assert got == ["late"]


async def test_a_question_that_is_answered_before_another_replica_knows_it_ends_there_too(
    replica: MakeReplica, peer: OpenPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database tells the second replica of the question late, and of its answer at once."""
    a, b = replica(), replica()
    asks(a)
    got = asks(b)
    owner, twin = await peer(a), await peer(b)
    first, question = await asked(owner, **WORK)
    ask, changed = PostgresDialogue.ask, SharedQuestionBook.changed
    registered, told = asyncio.Event(), asyncio.Event()

    async def told_late(self: PostgresDialogue, *question: Any) -> Any:
        known = await ask(self, *question)
        registered.set()
        await told.wait()
        return known

    def told_of(self: SharedQuestionBook, change: QuestionsMoved) -> None:
        changed(self, change)
        if self is b._core.questions:
            states = [known.state.state for known in change.questions or ()]
            if "answered" in states:
                told.set()

    monkeypatch.setattr(PostgresDialogue, "ask", told_late)
    monkeypatch.setattr(SharedQuestionBook, "changed", told_of)
    second = (await twin.submit("asks", **WORK))["payload"]["job_id"]
    await registered.wait()
    assert (await answer(owner, first, question, "early"))["type"] == names.ANSWER_TAKEN
    frames = await twin.follow(second)
    assert [body["value"] for body in bodies(frames, names.ANSWERED)] == ["early"]
    assert got == ["early"]


async def test_a_question_whose_job_ends_while_it_is_registered_is_withdrawn(
    replica: MakeReplica, peer: OpenPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later job of the same work asks for itself; it does not wait for a question without job."""
    a, b = replica(), replica()
    got = asks(b)
    ask = PostgresDialogue.ask
    registered, told = asyncio.Event(), asyncio.Event()
    asking: list[asyncio.Future[Any]] = []

    async def told_late(self: PostgresDialogue, *question: Any) -> Any:
        known = await ask(self, *question)
        registered.set()
        await told.wait()
        return known

    @a.agent("asks")
    async def leaves(input: Any, job: JobContext) -> str:
        asking.append(asyncio.ensure_future(job.ask("Deploy?")))
        await registered.wait()
        return "gone"

    owner, twin = await peer(a), await peer(b)
    with monkeypatch.context() as patch:
        patch.setattr(PostgresDialogue, "ask", told_late)
        await owner.run("asks", **WORK)
        told.set()
        with pytest.raises(LocalProtocolError, match="the job has ended"):
            await asking[0]
    await a._core._journal.flushed()
    second, question = await asked(twin, **WORK)
    assert (await answer(twin, second, question, "mine"))["type"] == names.ANSWER_TAKEN
    await twin.follow(second)
    assert got == ["mine"]


async def test_a_question_is_taken_over_although_the_answer_to_that_was_lost(
    replica: MakeReplica,
    peer: OpenPeer,
    cluster: Cluster,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = replica(), replica()
    asks(a)
    got = asks(b)
    owner, twin = await peer(a), await peer(b)
    first, question = await asked(owner, **WORK)
    second, _ = await asked(twin, **WORK)
    claim, lost = PostgresDialogue.claim, asyncio.Event()

    async def claimed_and_lost(self: PostgresDialogue, question_id: str) -> Any:
        known = await claim(self, question_id)
        if not lost.is_set():
            lost.set()
            raise request_error("INTERNAL_ERROR", "the database is away", retryable=True)
        return known

    monkeypatch.setattr(PostgresDialogue, "claim", claimed_and_lost)
    await lose(cluster, schema, first)
    await lost.wait()
    assert (await answer(twin, second, question, "late"))["type"] == names.ANSWER_TAKEN
    await twin.follow(second)
    assert got == ["late"]


async def test_the_second_job_of_a_work_asks_for_itself_if_the_first_withdraws(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    asks(a)
    got = asks(b)
    owner, twin = await peer(a), await peer(b)
    first, question = await asked(owner, **WORK)
    second, _ = await asked(twin, **WORK)
    await owner.ask("job.cancel", {"job_id": first})
    withdrawn = await twin.until("job.event", kind=names.WITHDRAWN)
    assert withdrawn["payload"]["body"]["question_id"] == question["question_id"]
    anew = (await twin.until("job.event", kind=names.QUESTION))["payload"]["body"]
    assert anew["question_id"] != question["question_id"]
    await answer(twin, second, anew, "mine")
    await twin.follow(second)
    assert got == ["mine"]


async def test_a_question_without_an_agent_expires(
    replica: MakeReplica, peer: OpenPeer, cluster: Cluster, schema: str
) -> None:
    a, b = replica(), replica()
    asks(a)
    got = asks(b)
    owner, phone = await peer(a), await peer(b)
    job_id, question = await asked(owner, {"default": "none", "timeout": 1.5}, **WORK)
    await phone.ask("job.subscribe", {"job_id": job_id, "history": True})
    await listed(phone, follow=True)
    await lose(cluster, schema, job_id)
    await phone.until("job.error")
    while await listed(phone, follow=True):
        await phone.until(names.QUESTIONS_CHANGED)
    late = await answer(phone, job_id, question, "yes")
    assert late["payload"]["details"]["state"] == "defaulted"
    again = (await phone.submit("asks", {"default": "none"}, **WORK))["payload"]["job_id"]
    frames = await phone.follow(again)
    assert [body["value"] for body in bodies(frames, names.EXPIRED)] == ["none"]
    assert got == ["none"]


async def test_a_session_of_another_replica_can_answer(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    asks(a)
    plain = await peer(a, features=names.FEATURES)
    alone = (await plain.submit("asks"))["payload"]["job_id"]
    assert (await plain.follow(alone))[-1]["payload"]["code"] == "FEATURE_NOT_NEGOTIATED"
    phone = await peer(b)
    job_id = (await plain.submit("asks"))["payload"]["job_id"]
    await listed(phone, follow=True)
    while not (found := await listed(phone, follow=True)):
        await phone.until(names.QUESTIONS_CHANGED)
    await answer(phone, job_id, found[0], "yes")
    assert (await plain.follow(job_id))[-1]["payload"]["result"] == "yes"


async def test_the_limits_of_questions_hold_over_all_replicas(
    replica: MakeReplica, peer: OpenPeer, cluster: Cluster, schema: str
) -> None:
    limits = Limits(open_questions=2, answers=3)
    runtimes = [replica(limits=limits) for _ in range(2)]
    for runtime in runtimes:
        asks(runtime)
    peers = [await peer(runtime) for runtime in runtimes]
    held = [(each, *await asked(each)) for each in peers]
    numbers = itertools.count()
    refused = (await peers[0].submit("asks", {"key": f"k{next(numbers)}"}))["payload"]["job_id"]
    assert (await peers[0].follow(refused))[-1]["payload"]["code"] == "INTERNAL_ERROR"
    for each, job_id, question in held:
        await answer(each, job_id, question, "yes")
    for _ in range(4):
        job_id, question = await asked(peers[0], {"key": f"k{next(numbers)}"})
        await answer(peers[0], job_id, question, "yes")
    connection = await asyncpg.connect(cluster.dsn)
    try:
        await connection.execute(
            f"SET search_path = {schema}; SELECT sweep_dialogue('1 day', 3, 1000000)"
        )
        assert await connection.fetchval("SELECT count(*) FROM questions") == 3
        await connection.execute("SELECT sweep_dialogue('1 day', 3, 1)")
        assert await connection.fetchval("SELECT count(*) FROM questions") == 0
    finally:
        await connection.close()


@pytest.mark.parametrize("stopped", ["cancel", "timeout"])
async def test_an_agent_that_is_interrupted_while_it_asks_leaves_no_open_question(
    replica: MakeReplica, peer: OpenPeer, stopped: str
) -> None:
    a = replica()

    @a.agent("impatient")
    async def impatient(input: Any, job: JobContext) -> str:
        task = asyncio.ensure_future(job.ask("Still there?"))
        await asyncio.sleep(0 if stopped == "cancel" else 0.003)
        task.cancel()
        await asyncio.wait([task])
        return "gone"

    owner = await peer(a)
    for _ in range(5):
        await owner.run("impatient", **WORK)
    asks(a)
    job_id, question = await asked(owner)
    entries = await listed(owner)
    assert [entry["question_id"] for entry in entries] == [question["question_id"]]
    await answer(owner, job_id, question, "yes")
    await owner.follow(job_id)
