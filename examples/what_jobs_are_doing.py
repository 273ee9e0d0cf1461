"""What each job is doing: it works, waits for a tool, or waits for you.

python examples/what_jobs_are_doing.py [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import asyncio

from arcp_client import Client, JobContext, Runtime, events

runtime = Runtime()


@runtime.agent("deploy")
async def deploy(input: None, job: JobContext) -> str:
    async with job.tool("run_tests", {"suite": "all"}):
        await asyncio.sleep(0.1)  # may take an hour
    return await job.ask("Deploy to production?", options=["yes", "no"])


async def main(target: Runtime | str) -> None:
    async with runtime, Client(target) as client:
        job = await client.submit("deploy")
        async for event in job:
            match event:
                case events.ToolCall():
                    print(job.verdict.kind, "|", job.verdict.text)
                case events.Question(question_id=question_id):
                    print(job.verdict.kind, "|", job.verdict.text)
                    for job_id, verdict in client.stats().verdicts.items():
                        print("still open:", client.job(job_id).agent, verdict.kind)
                    await job.answer(question_id, "yes")
        print(job.verdict.kind)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
