"""An operator for Airflow: a retry of the task finds the job that the first try started.

In a DAG, derive it from airflow.sdk.BaseOperator; Airflow then calls `execute` and `on_kill`.

    python examples/airflow_operator.py [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import os
from typing import Any

from arcp_client.sync import Client, JobContext, Portal, Runtime, events

TOKEN = os.environ.get("ARCP_TOKEN")


class AgentOperator:
    def __init__(self, task_id: str, *, target: Any, portal: Portal, agent: str, input: Any):
        self.task_id, self.target, self.portal = task_id, target, portal
        self.agent, self.input, self.job = agent, input, None

    def execute(self, context: dict[str, str]) -> Any:
        with Client(self.target, token=TOKEN, portal=self.portal) as client:

            @client.on(events.Log, thread=True)  # so it may block, for example on a database
            def log(event: events.Log) -> None:
                print("log:", event.message)

            key = f"{context['run_id']}/{self.task_id}"
            self.job = client.submit(self.agent, self.input, idempotency_key=key)
            return self.job.result(timeout=600).value

    def on_kill(self) -> None:
        if self.job is not None:
            self.job.cancel("the task was killed")


runtime, runs = Runtime(), []


@runtime.agent("echo")
async def echo(input: Any, job: JobContext) -> Any:
    runs.append(job.id)
    await job.log("echoing")
    return input


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    target = parser.parse_args().url
    with Portal() as portal:
        task = AgentOperator("ask", target=target, portal=portal, agent="echo", input="hello")
        for number in (1, 2):
            print(f"try {number}:", task.execute({"run_id": f"run-{os.getpid()}"}))
        portal.run(runtime.close)
    print("the agent ran twice" if len(runs) > 1 else "the agent ran once")
