"""Calls of webhooks: what is called, in which order, and what happens when calls fail."""

from __future__ import annotations

import asyncio
import json
import logging
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tenacity import wait_fixed, wait_none

from arcp_client import Client
from arcp_client.runtime import JobContext, Limits, Runtime, SqliteEventLog, Webhook
from arcp_client.runtime._log.entries import WebhookCall
from arcp_client.testing import VirtualClock
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.webhooks.receiver import SECRET, Receiver

DANGEROUS = ("Deploy to production?", "hunter2", "the-input", "the-result")


def asks(runtime: Runtime) -> None:
    @runtime.agent("asks")
    async def run(input: Any, job: JobContext) -> str:
        await job.ask(DANGEROUS[0], options=["hunter2", "no"], timeout=600, default="no")
        return "the-result"

    @runtime.agent("quick")
    async def quick(input: Any, job: JobContext) -> Any:
        return input


async def run_quick(runtime: Runtime, jobs: int = 1) -> list[str]:
    async with Client(runtime) as client:
        made = [await client.submit("quick", n) for n in range(jobs)]
        for job in made:
            await job.result()
    return [job.id for job in made]


async def answer_all(client: Client, value: str) -> None:
    async for now_open in client.inbox():
        for question in now_open:
            await client.answer(question.job_id, question.question_id, value)
            return


async def test_a_question_its_answer_and_the_end_are_called_in_order_without_content(
    make: MakeRuntime,
) -> None:
    async with Receiver() as receiver:
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET)])
        asks(runtime)
        async with Client(runtime) as client:
            job = await client.submit("asks", "the-input")
            await receiver.until(1)
            await answer_all(client, "hunter2")
            await job.result()
            calls = await receiver.until(3)
    assert [call["type"] for call in calls] == [
        "question.opened",
        "question.settled",
        "job.ended",
    ]
    assert [call["data"]["status"] for call in calls] == ["open", "answered", "success"]
    assert all(call["data"]["job_id"] == job.id for call in calls)
    numbers = [call["data"]["event_seq"] for call in calls]
    assert numbers == sorted(numbers)
    assert set(calls[0]["data"]) == {"job_id", "question_id", "event_seq", "status"}
    assert set(calls[2]["data"]) == {"job_id", "event_seq", "status"}
    assert len(set(receiver.ids)) == 3
    for word in DANGEROUS:
        assert word not in json.dumps(calls)


@pytest.mark.parametrize(
    ("status", "how"), [("defaulted", {"timeout": 0.01, "default": "no"}), ("expired", {})]
)
async def test_a_question_that_nobody_answers_is_called_with_its_status(
    make: MakeRuntime, status: str, how: dict[str, Any]
) -> None:
    async with Receiver() as receiver:
        hook = Webhook(receiver.url, secret=SECRET, events=["question.settled"])
        runtime = make(webhooks=[hook])

        @runtime.agent("asks")
        async def run(input: Any, job: JobContext) -> None:
            await job.ask("?", **{"timeout": 0.01, **how})

        async with Client(runtime) as client:
            await client.submit("asks")
            (call,) = await receiver.until(1)
    assert (call["type"], call["data"]["status"]) == ("question.settled", status)


async def test_each_job_that_asks_a_shared_question_has_calls_of_its_own(make: MakeRuntime) -> None:
    async with Receiver() as receiver:
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET)])
        asks(runtime)
        async with Client(runtime) as client:
            first = await client.submit("asks", work_id="w")
            await receiver.until(1)
            await answer_all(client, "hunter2")
            await first.result()
            second = await client.submit("asks", work_id="w")  # gets the stored answer
            await second.result()
            calls = await receiver.until(6)
    for job in (first, second):
        own = [call for call in calls if call["data"]["job_id"] == job.id]
        assert [call["data"]["status"] for call in own] == ["open", "answered", "success"]
    assert (
        len({call["data"]["question_id"] for call in calls if "question_id" in call["data"]}) == 1
    )
    assert len(set(receiver.ids)) == 6


async def test_only_the_chosen_events_are_called(make: MakeRuntime) -> None:
    async with Receiver() as one, Receiver() as two:
        runtime = make(
            webhooks=[
                Webhook(one.url, secret=SECRET, events=["job.ended"]),
                Webhook(two.url, secret=SECRET, events=["question.opened"]),
            ]
        )
        asks(runtime)
        await run_quick(runtime, jobs=2)
        calls = await one.until(2)
    assert {call["type"] for call in calls} == {"job.ended"}
    assert two.ids == []


async def test_a_failed_call_is_tried_again_with_the_same_id_before_later_calls_of_its_job(
    clock: VirtualClock, make: MakeRuntime
) -> None:
    async with Receiver(503, 500, 429, 408) as receiver:
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET, wait=wait_fixed(100))])
        asks(runtime)
        async with Client(runtime) as client:
            await client.submit("asks")
            calls = await receiver.until(3)
    assert receiver.ids[:5] == [receiver.ids[0]] * 5
    assert [call["type"] for call in calls] == ["question.opened", "question.settled", "job.ended"]
    assert receiver.times[1] - receiver.times[0] >= 100


async def test_the_receiver_may_ask_to_wait_longer(clock: VirtualClock, make: MakeRuntime) -> None:
    headers = {"Retry-After": "600"}
    async with Receiver(503, **headers) as receiver:
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET, wait=wait_fixed(1))])
        asks(runtime)
        await run_quick(runtime)
        async with asyncio.timeout(10_000):
            await receiver.until(1)
    assert receiver.times[1] - receiver.times[0] >= 600


@pytest.mark.parametrize("text", ["9" * 400, "-5", "soon", "Sat, 01 Jan 2000 00:00:00 GMT", "²"])
async def test_a_strange_retry_after_neither_fails_nor_waits_for_ever(
    clock: VirtualClock, make: MakeRuntime, text: str
) -> None:
    async def strange(request: web.Request) -> web.Response:
        receiver.answer = None
        return web.Response(status=503, headers={"Retry-After": text})

    async with Receiver() as receiver:
        receiver.answer = strange
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET, wait=wait_fixed(1))])
        asks(runtime)
        await run_quick(runtime)
        await receiver.until(1)
    assert receiver.times[-1] - receiver.times[0] <= 3700


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 422])
async def test_a_refused_call_is_not_tried_again_and_is_logged(
    make: MakeRuntime, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    async with Receiver(status, Location="http://127.0.0.1:1/elsewhere") as receiver:
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET, wait=wait_none())])
        asks(runtime)
        first, second = await run_quick(runtime, jobs=2)
        calls = await receiver.until(1)
    assert len(receiver.ids) == 2
    (missing,) = {first, second} - {call["data"]["job_id"] for call in calls}
    (record,) = [r for r in caplog.records if "is not made" in r.getMessage()]
    assert f"HTTP {status}" in record.getMessage()
    assert record.job == missing  # type: ignore[attr-defined]
    assert runtime._core._webhooks.dropped == 1


async def test_a_url_that_is_gone_is_called_no_more(
    make: MakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    async with Receiver(410) as receiver:
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET)])
        asks(runtime)
        await run_quick(runtime)
        await receiver.until(1, tries=True)
        await run_quick(runtime, jobs=3)
        await runtime.close()
    assert len(receiver.ids) == 1
    assert runtime._core._webhooks.dropped == 4
    assert "410 Gone" in caplog.text


async def test_a_call_is_given_up_when_it_is_too_old(
    clock: VirtualClock, make: MakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    async with Receiver(*[503] * 20) as receiver:
        hook = Webhook(receiver.url, secret=SECRET, wait=wait_fixed(100), give_up=350)
        runtime = make(webhooks=[hook])
        asks(runtime)
        await run_quick(runtime)
        await receiver.until(4, tries=True)
        await clock.advance(1000)
    assert len(receiver.ids) == 4
    assert runtime._core._webhooks.dropped == 1
    assert runtime._core._webhooks.waiting == 0
    assert "is not made: HTTP 503" in caplog.text


async def test_calls_beyond_the_limit_are_dropped_counted_and_logged_once(
    clock: VirtualClock, make: MakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    async with Receiver(503) as receiver:
        hook = Webhook(receiver.url, secret=SECRET, wait=wait_fixed(1000))
        runtime = make(webhooks=[hook], limits=Limits(webhook_calls=3))
        asks(runtime)
        async with Client(runtime) as client:
            receiver._statuses = [503] * 100
            for n in range(10):
                await (await client.submit("quick", n)).result()
            assert runtime._core._webhooks.waiting == 3
            assert runtime._core._webhooks.dropped == 7
            assert caplog.text.count("wait already") == 1
            receiver._statuses.clear()
            await receiver.until(3)
            await (await client.submit("quick", 1)).result()
            await receiver.until(4)
    assert "calls are taken again; 7 were dropped" in caplog.text


async def test_the_jobs_of_a_slow_receiver_do_not_wait_for_one_another(make: MakeRuntime) -> None:
    held = asyncio.Event()

    async def hold(request: web.Request) -> web.Response:
        receiver.answer = None
        await held.wait()
        return web.Response()

    async with Receiver() as receiver:
        receiver.answer = hold
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET)])
        asks(runtime)
        await run_quick(runtime, jobs=5)
        await receiver.until(4)
        held.set()


async def test_a_receiver_that_hangs_is_left_after_the_time_out(
    clock: VirtualClock, make: MakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    never = asyncio.Event()

    async def hang(request: web.Request) -> web.Response:
        receiver.answer = None
        await never.wait()
        return web.Response()

    async with Receiver() as receiver:
        receiver.answer = hang
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET, timeout=7)])
        asks(runtime)
        await run_quick(runtime)
        await receiver.until(1)
        assert "no answer in 7 s" in caplog.text
        never.set()


async def test_an_endless_answer_is_not_read(make: MakeRuntime) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        receiver.answer = None
        response = web.StreamResponse()
        await response.prepare(request)
        with pytest.raises((ConnectionError, asyncio.CancelledError)):
            while True:
                await response.write(b"x" * 65536)
        left.set()
        return response

    left = asyncio.Event()
    async with Receiver() as receiver:
        receiver.answer = endless
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET)])
        asks(runtime)
        await run_quick(runtime)
        async with asyncio.timeout(30):
            await left.wait()
        await runtime.close()
    assert runtime._core._webhooks.made == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 abc\r\n\r\n",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
    ],
    ids=["reset", "status", "ssh", "field", "fields"],
)
async def test_a_peer_that_speaks_no_http_is_a_failed_call(
    make: MakeRuntime, caplog: pytest.LogCaptureFixture, answer: bytes
) -> None:
    tried = asyncio.Event()
    tries = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        await reader.readuntil(b"\r\n\r\n")
        tries += 1
        if tries == 2:
            tried.set()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        hook = Webhook(f"http://127.0.0.1:{port}/", secret=SECRET, wait=wait_none())
        runtime = make(webhooks=[hook])
        asks(runtime)
        await run_quick(runtime)
        async with asyncio.timeout(30):
            await tried.wait()
        await runtime.close()
    assert runtime._core._webhooks.made == 0
    assert "y" * 100 not in caplog.text


async def test_close_is_bounded_while_a_receiver_hangs_and_says_what_is_lost(
    clock: VirtualClock, make: MakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    never = asyncio.Event()

    async def hang(request: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    async with Receiver() as receiver:
        receiver.answer = hang
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET, timeout=10_000)])
        asks(runtime)
        await run_quick(runtime, jobs=20)
        await receiver.until(4, tries=True)
        begun = clock.time()
        await runtime.close()
        assert clock.time() - begun < 10
        never.set()
    assert "20 calls were not made" in caplog.text


async def test_close_makes_the_calls_that_wait(make: MakeRuntime) -> None:
    async with Receiver() as receiver:
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET)])
        asks(runtime)
        await run_quick(runtime, jobs=30)
        await runtime.close()
        assert len(receiver.calls) == 30


async def test_a_runtime_whose_calls_are_made_need_not_be_closed() -> None:
    async with Receiver() as receiver:
        runtime = Runtime(webhooks=[Webhook(receiver.url, secret=SECRET)])
        asks(runtime)
        await run_quick(runtime)
        await receiver.until(1)
        while runtime._core.holds_something or len(runtime._core.tasks):
            await asyncio.sleep(0)
        del runtime


@pytest.mark.parametrize("seconds", [float("nan"), -1.0, None])
async def test_a_wait_that_fails_neither_ends_the_calls_nor_hurries_them(
    clock: VirtualClock, make: MakeRuntime, seconds: Any
) -> None:
    async with Receiver(503) as receiver:
        hook = Webhook(receiver.url, secret=SECRET, wait=lambda state: seconds)  # type: ignore[arg-type]
        runtime = make(webhooks=[hook])
        asks(runtime)
        await run_quick(runtime)
        await receiver.until(1)
    assert receiver.times[1] - receiver.times[0] >= 60


async def test_a_receiver_cannot_set_cookies_or_send_the_runtime_elsewhere(
    make: MakeRuntime,
) -> None:
    headers: list[dict[str, str]] = []

    async def keep(request: web.Request) -> web.Response:
        headers.append({name.lower(): value for name, value in request.headers.items()})
        return web.Response(headers={"Set-Cookie": "a=b", "Location": "http://127.0.0.1:1/"})

    async with Receiver() as receiver:
        receiver.answer = keep
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET)])
        asks(runtime)
        await run_quick(runtime, jobs=3)
        await receiver.until(3, tries=True)
        await runtime.close()
    assert runtime._core._webhooks.made == 3
    assert not any("cookie" in each or "authorization" in each for each in headers)


async def test_context_variables_of_an_agent_do_not_reach_the_calls(make: MakeRuntime) -> None:
    of_agent: ContextVar[str] = ContextVar("of_agent", default="none")
    seen: list[str] = []

    def wait(state: Any) -> float:
        seen.append(of_agent.get())
        return 0.0

    async with Receiver(503) as receiver:
        runtime = make(webhooks=[Webhook(receiver.url, secret=SECRET, wait=wait)])  # type: ignore[arg-type]

        @runtime.agent("quick")
        async def quick(input: Any, job: JobContext) -> None:
            of_agent.set("secret")

        await run_quick(runtime)
        await receiver.until(1)
    assert seen == ["none"]


# ----------------------------------------------------------------------------- restarts


async def test_calls_that_are_not_made_are_made_after_a_restart_with_the_same_ids(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runtime.db"
    async with Receiver(*[503] * 100) as receiver:
        hook = Webhook(receiver.url, secret=SECRET, wait=wait_fixed(3600))
        async with Runtime(event_log=SqliteEventLog(path), webhooks=[hook]) as runtime:
            asks(runtime)
            jobs = await run_quick(runtime, jobs=3)
            await receiver.until(3, tries=True)
        first = set(receiver.ids)
        receiver._statuses.clear()
        receiver.ids.clear()
        async with Runtime(event_log=SqliteEventLog(path), webhooks=[hook]):
            calls = await receiver.until(3)
        assert set(receiver.ids) == first
        assert {call["data"]["job_id"] for call in calls} == set(jobs)
        async with Runtime(event_log=SqliteEventLog(path), webhooks=[hook]) as runtime:
            assert runtime._core._webhooks.waiting == 0
    assert len(receiver.ids) == 3


async def test_stored_calls_to_a_url_that_is_no_longer_configured_are_dropped_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    async with Receiver(*[503] * 100) as receiver:
        hook = Webhook(receiver.url, secret=SECRET, wait=wait_fixed(3600))
        async with Runtime(event_log=log, webhooks=[hook]) as runtime:
            asks(runtime)
            await run_quick(runtime)
            await receiver.until(1, tries=True)
    async with Runtime(event_log=log):
        pass
    assert "1 stored calls to 1 webhooks" in caplog.text
    caplog.clear()
    async with Runtime(event_log=log):
        pass
    assert "stored calls" not in caplog.text


async def test_a_call_is_made_only_after_its_event_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    stored: list[str] = []
    write = log.write

    async def slowly(entries: Any) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        await write(entries)
        stored.extend(entry.id for entry in entries if isinstance(entry, WebhookCall))

    monkeypatch.setattr(log, "write", slowly)

    async def check(request: web.Request) -> web.Response:
        seen.append(request.headers["webhook-id"] in stored)
        return web.Response()

    seen: list[bool] = []
    async with Receiver() as receiver:
        receiver.answer = check
        hook = Webhook(receiver.url, secret=SECRET)
        async with Runtime(event_log=log, webhooks=[hook]) as runtime:
            asks(runtime)
            await run_quick(runtime, jobs=5)
            await receiver.until(5, tries=True)
    assert seen == [True] * 5


# ------------------------------------------------------------------------------ secrets


async def test_neither_secret_nor_url_appear_in_logs_errors_and_repr(
    make: MakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("aiohttp.access").disabled = True  # the receiver's own
    try:
        async with Receiver(503, 404, 410) as receiver:
            hook = Webhook(receiver.url, secret=SECRET, wait=wait_none())
            runtime = make(webhooks=[hook])
            asks(runtime)
            await run_quick(runtime, jobs=3)
            await receiver.until(3, tries=True)
            await runtime.close()
    finally:
        logging.getLogger("aiohttp.access").disabled = False
    shown = caplog.text + repr(hook) + repr(runtime) + str(hook)
    assert "query-secret" not in shown
    assert SECRET.removeprefix("whsec_") not in shown
    assert f"http://127.0.0.1:{receiver.port}" in shown
