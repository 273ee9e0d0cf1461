"""An agent asks before it deploys; a person answers, and corrects it while it works."""

import argparse
import asyncio
import contextlib
from typing import Any

from pydantic import BaseModel

from arcp_client import Client, JobContext, Runtime, errors, events

runtime = Runtime()
SERVERS = {"eu-1": 0.05, "eu-2": 30.0, "us-1": 30.0}


class Approval(BaseModel):
    approve: bool
    note: str = ""


@runtime.agent("deployer")
async def deployer(input: dict[str, Any], job: JobContext) -> str:
    approval = await job.ask(
        f"Deploy {input['version']} to production?",
        schema=Approval,
        default=Approval(approve=False, note="nobody answered"),
        timeout=3600,
    )
    if not approval.approve:
        return f"not deployed: {approval.note}"
    for server, seconds in SERVERS.items():
        async with job.tool("deploy", {"server": server}) as call:
            with contextlib.suppress(TimeoutError):
                # This wait stands for the work; a message ends it early.
                await asyncio.wait_for(call.steered.wait(), seconds)
        if job.steered:
            message = await job.inbox.take()
            return f"stopped after {server}: {message.value}"
    return "deployed"


async def main(target: Runtime | str) -> None:
    async with Client(target) as laptop, Client(target) as phone:
        job = await laptop.submit("deployer", {"version": "1.4"})
        async for event in job:
            match event:
                case events.Question(question_id=question, text=text):
                    print("?", text)
                    await phone.answer(job.id, question, {"approve": True})
                    try:
                        await job.answer(question, {"approve": False})
                    except errors.QuestionAnswered as first:
                        print("the phone was first:", first.value)
                case events.ToolCall(args={"server": "eu-2"}):
                    await job.send("not the servers in the US", mode="steer")
                case events.Consumed(at=n):
                    print("the agent took message", n)
        print((await job.result()).value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
