"""A management command of Django: follow a job until it ends, or until Ctrl-C.

In a project, save it as app/management/commands/count.py, without the `except ImportError` block.

    python examples/django_command.py [--to 3] [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import os
import sys
from typing import Any, TextIO

from arcp_client.sync import Client, JobContext, Runtime, errors, events

try:
    from django.core.management.base import BaseCommand, CommandError
except ImportError:  # without Django: what this example uses of it
    CommandError = RuntimeError

    class BaseCommand:
        stdout: TextIO = sys.stdout


runtime = Runtime()


@runtime.agent("count")
async def count(input: dict[str, int], job: JobContext) -> dict[str, int]:
    for n in range(input["to"]):
        await job.progress(n + 1, total=input["to"])
    return {"counted": input["to"]}


class Command(BaseCommand):
    help = "Let an agent count."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--to", type=int, default=3)
        parser.add_argument("--url")

    def handle(self, *args: Any, **options: Any) -> None:
        target = options["url"] or runtime
        with Client(target, token=os.environ.get("ARCP_TOKEN")) as client:
            job = client.submit("count", {"to": options["to"]})
            try:
                for event in job.events(events.Progress):
                    if isinstance(event, events.Progress):  # a Gap says that some are missing
                        self.stdout.write(f"{event.current:g} / {event.total:g}\n")
                self.stdout.write(f"counted: {job.result().value['counted']}\n")
            except KeyboardInterrupt:  # ends the wait; the job would continue
                job.cancel("interrupted")
                raise
            except errors.JobError as error:
                raise CommandError(str(error)) from error


if __name__ == "__main__":
    command, parser = Command(), argparse.ArgumentParser()
    command.add_arguments(parser)
    command.handle(**vars(parser.parse_args()))
