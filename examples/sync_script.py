"""A script without asyncio: submit a job, print its events and its result.

python examples/sync_script.py [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import os

from arcp_client.sync import Client, JobContext, Runtime, events

runtime = Runtime()


@runtime.agent("count")
async def count(input: dict[str, int], job: JobContext) -> dict[str, int]:
    for n in range(1, input["to"] + 1):
        await job.progress(n, total=input["to"])
    return {"counted": input["to"]}


def main(target: Runtime | str) -> None:
    with Client(target, token=os.environ.get("ARCP_TOKEN")) as client:
        job = client.submit("count", {"to": 3})
        for event in job:
            match event:
                case events.Progress(current=n, total=total):
                    print(f"{n:g} of {total:g}")
        print(job.result().value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    main(parser.parse_args().url)
