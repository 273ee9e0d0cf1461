"""A script asks a person on the terminal what its agent asks; it may be killed and started again.

python examples/sync_questions.py [--url ws://127.0.0.1:7777/arcp]
"""

import argparse
import io
import os
import sys
import time

from arcp_client.sync import Client, JobContext, Runtime, errors, events

runtime = Runtime()


@runtime.agent("baker")
async def baker(input: int, job: JobContext) -> str:
    flour = await job.ask("Which flour?", options=["rye", "wheat"])
    return f"{input} loaves of {flour}"


def ask(client: Client, question: events.Question) -> None:
    print("?", question.text, *(option.label for option in question.options))
    while True:
        try:
            client.answer(question.job_id, question.question_id, input())
        except errors.InvalidAnswer as error:  # the question is still open
            print("!", error.message)
        except errors.QuestionAnswered as first:
            return print("answered already:", first.value)
        except errors.QuestionClosed:
            return print("the agent no longer waits")
        else:
            return None


def main(target: Runtime | str, key: str) -> None:
    with Client(target, token=os.environ.get("ARCP_TOKEN")) as client:
        job = client.submit("baker", 12, idempotency_key=key)
        for event in job:  # with the same key, the next process gets the events from the beginning
            if isinstance(event, events.Question):
                still_open = {question.question_id for question in client.questions()}
                if event.question_id in still_open:
                    ask(client, event)
        print(job.result().value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    parser.add_argument("--key", default=f"bread-{time.time_ns()}")
    arguments = parser.parse_args()
    if not sys.stdin.isatty():
        sys.stdin = io.StringIO("spelt\nrye\n")  # what a person would type
    main(arguments.url, arguments.key)
