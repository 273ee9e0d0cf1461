"""Tests of the program, with a real runtime, a scripted one, faults, virtual time, a transcript."""

from pathlib import Path

from program import report

from arcp_client import Client, Runtime
from arcp_client.testing import Cut, FaultyConnector, FaultyProxy, ReplayedRuntime
from arcp_client.testing.scripted import Emit, Fail, Finish, Refuse, Wait, Withhold


def register(runtime: Runtime) -> None:
    @runtime.agent("report")
    async def agent(input, job):
        for page in (1, 2, 3):
            await job.progress(page, total=3)
        return f"{input['title']}: 3 pages"


DONE = ["1 of 3", "2 of 3", "3 of 3", "May: 3 pages"]


# A runtime in the test: agents are functions, and nothing is faked.


async def test_progress_and_result_are_shown(arcp_runtime, arcp_client):
    register(arcp_runtime)
    assert await report(arcp_client, "May") == DONE


# A scripted runtime: what a real one does only in bad moments.


async def test_a_refusal_is_shown(scripted_runtime):
    runtime = scripted_runtime(answers={"job.submit": [Refuse("PERMISSION_DENIED")]})
    async with Client(runtime) as client:
        assert await report(client, "May") == ["you may not do this"]


async def test_lines_before_a_failure_are_shown(scripted_runtime):
    script = [Emit("log", {"level": "info", "message": "begun"}), Fail(message="the disk is full")]
    async with Client(scripted_runtime(agents={"report": script})) as client:
        assert await report(client, "May") == ["begun", "failed: the disk is full"]


async def test_what_was_sent_can_be_looked_at(scripted_runtime):
    runtime = scripted_runtime(agents={"report": [Wait("go"), Finish("done")]})
    async with Client(runtime) as client:
        job = await client.submit("report", {"title": "May"})
        (submit,) = await runtime.until("job.submit")
        assert submit["payload"]["input"] == {"title": "May"}
        runtime.open("go")
        assert (await job.result()).value == "done"
    assert runtime.objections == []


# Faults: cut links lose nothing.


async def test_a_link_that_is_cut_after_every_third_frame_changes_nothing(arcp_runtime):
    register(arcp_runtime)
    faulty = FaultyConnector(arcp_runtime, plan=lambda link: [Cut(3)] if link < 3 else [])
    async with Client(faulty) as client:
        assert await report(client, "May") == DONE
    assert len(faulty.links) > 1


async def test_a_cut_of_the_network_changes_nothing(arcp_runtime):
    register(arcp_runtime)
    async with (
        arcp_runtime.serve() as server,
        FaultyProxy(server.url) as proxy,
        Client(proxy.url) as client,
    ):
        proxy.cut()
        assert await report(client, "May") == DONE
        assert proxy.cuts == 1


# Virtual time: an hour passes at once.


async def test_a_runtime_that_does_not_answer_is_given_up_after_an_hour(clock, scripted_runtime):
    runtime = scripted_runtime(answers={"job.submit": [Withhold()]})
    async with Client(runtime) as client:
        assert await report(client, "May", patience=3600) == ["the runtime does not answer"]
    assert clock.time() >= 3600


# A transcript: what a job of a real runtime once did.


async def test_a_recorded_job_is_shown_like_a_live_one():
    path = Path(__file__).with_name("report.jsonl")  # arcp-client run report --record report.jsonl
    async with ReplayedRuntime(path, speed=None) as runtime, Client(runtime) as client:
        assert await report(client, "any title") == DONE
