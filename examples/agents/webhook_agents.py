"""Agents for `arcp-client serve`, which passes the event log of --db and the webhooks."""

from collections.abc import Sequence

from arcp_client import JobContext, Runtime
from arcp_client.runtime import EventLog, Webhook


def make(event_log: EventLog | None = None, webhooks: Sequence[Webhook] = ()) -> Runtime:
    runtime = Runtime(event_log=event_log, webhooks=webhooks)

    @runtime.agent("deploy")
    async def deploy(version: str, job: JobContext) -> str:
        answer: str = await job.ask(f"Deploy {version}?", options=["yes", "no"])
        return answer

    return runtime
