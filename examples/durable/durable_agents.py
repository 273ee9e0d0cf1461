"""An agent as a DBOS workflow: what a killed process had done is not done again."""

import asyncio
import os
import uuid
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from arcp_client import JobContext, Runtime


def note(page: int) -> None:
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(f"{page}\n")


@DBOS.step()
async def summarize(page: int) -> str:
    """Stands for a call that costs time and money; it notes each call in a file."""
    await asyncio.to_thread(note, page)
    await asyncio.sleep(0.3)
    return f"summary of page {page}"


@DBOS.workflow()
async def report(pages: int) -> list[str]:
    return [await summarize(page) for page in range(pages)]


def make(auth: Any, event_log: Any) -> Runtime:
    """Make one replica; ``arcp-client serve --store`` passes the token and the event log."""
    DBOS(
        config={
            "name": "reports",
            "system_database_url": os.environ["ARCP_STORE"],  # the database of the replicas
            "executor_id": uuid.uuid4().hex,  # so that no process recovers the work of a live one
        }
    )
    DBOS.launch()
    runtime = Runtime(auth=auth, event_log=event_log)

    @runtime.agent("report")
    async def begin_or_continue(input: dict[str, int], job: JobContext) -> list[str]:
        pages, work = input["pages"], job.work_id
        known = await DBOS.get_workflow_status_async(work)
        if known is None:
            with SetWorkflowID(work):
                await DBOS.start_workflow_async(report, pages)
        elif known.status == "PENDING":  # an earlier job of this work was interrupted
            await DBOS.resume_workflow_async(work)
        workflow = await DBOS.retrieve_workflow_async(work)
        while (await workflow.get_status()).status in ("PENDING", "ENQUEUED"):
            done = await DBOS.list_workflow_steps_async(work)
            await job.progress(len(done), pages)
            await asyncio.sleep(0.2)
        return await workflow.get_result()

    return runtime
