"""Answers a question of an agent."""

from __future__ import annotations

from arcp_client import Client, OpenQuestion, TakenAnswer
from arcp_client import _digits as digits
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.output_format import Output
from arcp_client.cli.typed_answers import answer_of
from arcp_client.cli.view import terminal
from arcp_client.cli.view.render import iso

__all__ = ["answer", "answer_document", "give"]

SCHEMA = "arcp-client.answer/1"


def answer(where: Place, job_id: str, question_id: str, typed: str, *, key: str | None) -> Exit:
    """Answer a question; report the answer that was taken."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            taken = await give(client, job_id, question_id, typed, key=key)
        if where.output is Output.TEXT:
            terminal.tell(terminal.err(), f"the agent continues with {digits.dumps(taken.value)}")
        else:
            print(terminal.as_json({"schema": SCHEMA, **answer_document(taken)}))
        return Exit.SUCCESS

    return execute(body, at_once=True)


async def give(
    client: Client, job_id: str, question_id: str, typed: str, *, key: str | None = None
) -> TakenAnswer:
    """Send typed text as the answer to a question.

    Raises:
        CommandError: the text is no answer to the question.
        ArcpError: the answer was not taken.
    """
    found: OpenQuestion | None = None
    async for question in client.questions():
        if question.question_id == question_id:
            found = question
            break
    value = typed
    if found is not None:  # otherwise the runtime says what became of the question
        try:
            value = answer_of(typed, found.schema, found.options)
        except ValueError as error:
            raise CommandError(Exit.USAGE, f"{typed!r:.80} is no answer", str(error)) from None
    return await client.answer(job_id, question_id, value, idempotency_key=key)


def answer_document(taken: TakenAnswer) -> dict[str, object]:
    """The JSON form of an answer that was taken."""
    return {
        "job_id": taken.job_id,
        "question_id": taken.question_id,
        "value": taken.value,
        "by": taken.by,
        "client": taken.client,
        "at": iso(taken.at),
    }
