"""A prefork worker, such as one of Celery: each process connects a client after the fork.

With Celery, `start` is a receiver of worker_process_init, `stop` one of worker_process_shutdown,
and `count_to` has the decorator @app.task(bind=True). Here a pool of processes stands in for the
worker.

    python examples/celery_task.py [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import multiprocessing
import multiprocessing.util
import os

from arcp_client.sync import Client, JobContext, Runtime

client: Client


def embedded() -> Runtime:
    runtime = Runtime()

    @runtime.agent("count")
    async def count(input: dict[str, int], job: JobContext) -> dict[str, int]:
        for n in range(1, input["to"] + 1):
            await job.progress(n, total=input["to"])
        return {"counted": input["to"]}

    return runtime


def start(url: str | None) -> None:
    global client
    client = Client(url or embedded(), token=os.environ.get("ARCP_TOKEN"))
    client.connect()
    multiprocessing.util.Finalize(None, stop, exitpriority=1)


def stop() -> None:
    client.close()


def count_to(number: int, request_id: str) -> int:  # with bind=True: self.request.id
    job = client.submit("count", {"to": number}, idempotency_key=request_id)
    try:
        return int(job.result(timeout=60).value["counted"])
    except BaseException:  # also SoftTimeLimitExceeded, which a signal handler raises
        job.cancel("the task ended")
        raise


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url")
    url = parser.parse_args().url
    with multiprocessing.get_context("fork").Pool(2, start, [url]) as pool:
        tasks = [(number, f"{os.getpid()}-{number}") for number in (3, 5, 8)]
        print(pool.starmap(count_to, tasks))
        pool.close()
        pool.join()
