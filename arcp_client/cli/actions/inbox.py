"""Lists the open questions of all jobs, follows them, and asks them on the terminal."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from arcp_client import Client, OpenQuestion
from arcp_client.cli.actions.answering import Asker
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.output_format import Output
from arcp_client.cli.prompt import can_ask
from arcp_client.cli.typed_answers import expected
from arcp_client.cli.view import terminal
from arcp_client.cli.view.render import duration, iso

__all__ = ["inbox"]

SCHEMA = "arcp-client.inbox/1"
_MOST = 10_000


def inbox(where: Place, *, follow: bool, answer: bool) -> Exit:
    """List the open questions, once or until interrupted."""
    if answer and not can_ask():
        raise CommandError(
            Exit.USAGE,
            "--answer asks on a terminal, and there is none",
            "`arcp-client answer JOB QUESTION VALUE` answers one question",
        )
    if follow and where.output is Output.JSON:
        raise CommandError(
            Exit.USAGE, "--follow cannot write a single JSON document", "use --output jsonl"
        )

    async def once(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            found = [question async for question in _bounded(client)]
        _list(where.output, found)
        return Exit.SUCCESS

    async def again(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client, interrupts.stop():
            known: set[str] = set()
            asker = Asker(client, terminal.err())
            async with aclosing(client.inbox()) as changes:  # type: ignore[type-var]
                async for now_open in changes:
                    for question in now_open:
                        if question.question_id in known:
                            continue
                        known.add(question.question_id)
                        if answer and question.may_answer:
                            await asker.ask(question)
                        else:
                            _write(where.output, question)
                    known &= {question.question_id for question in now_open}
                    if not follow and not now_open:
                        break
        return Exit.SUCCESS

    return execute(again) if follow or answer else execute(once, at_once=True)


async def _bounded(client: Client) -> Any:
    count = 0
    async for question in client.questions():
        count += 1
        if count > _MOST:
            raise CommandError(Exit.FAILED, f"there are more than {_MOST:,} open questions")
        yield question


def _list(output: Output, found: list[OpenQuestion]) -> None:
    console = terminal.out()
    if output is Output.JSON:
        rows = [_document(question) for question in found]
        print(terminal.as_json({"schema": SCHEMA, "questions": rows}))
    elif output is Output.TEXT and console.is_terminal:
        if found:
            console.print(_table(found, datetime.now(UTC)))
        else:
            terminal.tell(terminal.err(), "no open questions", "dim")
    else:
        for question in found:
            _write(output, question)


def _write(output: Output, question: OpenQuestion) -> None:
    """Write one question on a line: JSON, or tab-separated columns for cut and awk."""
    if output is not Output.TEXT:
        line = {"schema": SCHEMA, "type": "question", "question": _document(question)}
        print(terminal.as_json(line), flush=True)
        return
    cells = (question.job_id, question.question_id, question.agent, question.text)
    print("\t".join(terminal.harmless(cell) for cell in cells), flush=True)


def _document(question: OpenQuestion) -> dict[str, Any]:
    return {
        "job_id": question.job_id,
        "question_id": question.question_id,
        "agent": question.agent,
        "text": question.text,
        "schema": question.schema,
        "options": [{"value": each.value, "label": each.label} for each in question.options],
        "asked_at": iso(question.asked_at),
        "expires_at": iso(question.expires_at),
        "has_default": question.has_default,
        "default": question.default,
        "may_answer": question.may_answer,
        "waiting": question.waiting,
    }


def _table(found: list[OpenQuestion], now: datetime) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("job", "question", "agent"):
        table.add_column(name, no_wrap=True)
    table.add_column("asks")
    table.add_column("left", no_wrap=True)
    for question in found:
        left = ""
        if question.expires_at is not None:
            left = duration((question.expires_at - now).total_seconds())
        text = f"{question.text} [{expected(question.schema, question.options)}]"
        table.add_row(
            Text(terminal.harmless(question.job_id)),
            Text(terminal.harmless(question.question_id)),
            Text(terminal.harmless(question.agent)),
            Text(terminal.harmless(text)),
            Text(left),
        )
    return table
