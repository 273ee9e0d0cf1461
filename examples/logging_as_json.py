"""Write the log of the package as JSON, and find all lines about one job."""

import asyncio
import json
import logging

from arcp_client import Client, events
from arcp_client.runtime import JobContext, Runtime

runtime = Runtime()


@runtime.agent("counter")
async def counter(last: int, job: JobContext) -> str:
    for number in range(1, last + 1):
        await job.progress(number, last)
    return "done"


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"level": record.levelname, "logger": record.name, "message": record.getMessage()}
        for field in ("session", "job", "seq"):  # a record has the fields that are known
            if hasattr(record, field):
                line[field] = getattr(record, field)
        return json.dumps(line)


lines: list[str] = []


class Lines(logging.Handler):  # a real program uses a StreamHandler or a FileHandler
    def emit(self, record: logging.LogRecord) -> None:
        lines.append(self.format(record))


log = Lines()
log.setFormatter(JsonFormatter())
logging.getLogger("arcp_client").addHandler(log)
logging.getLogger("arcp_client").setLevel(logging.INFO)


async def main() -> None:
    async with runtime, Client(runtime) as client:

        @client.on(events.Progress)
        async def save(event: events.Progress) -> None:
            if event.current == 2:
                raise OSError("the disk is full")

        job = await client.submit("counter", 3)
        await job.result()

    for line in map(json.loads, lines):
        if line.get("job") == job.id:
            text = line["message"].replace(job.id, "…").partition(" for ")[0]
            print(f"{line['level']:5} {line['logger']:20} seq={line.get('seq', '-')} {text}")


asyncio.run(main())
