"""Shows all jobs of a runtime live: on a full screen, or as lines of their changes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter
from rich.text import Text

from arcp_client import ArcpError, Client, LinkState, Live, OpenQuestion, errors
from arcp_client import _digits as digits
from arcp_client._feeds import frames
from arcp_client._feeds.job_feed import JobFeed
from arcp_client._feeds.registry import FeedRegistry, FeedUnavailable
from arcp_client.cli.actions.cancel import request_cancel
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, beside, execute
from arcp_client.cli.view import render, terminal
from arcp_client.cli.view.job_table import Row, TopTable
from arcp_client.cli.view.top_lines import TopLines
from arcp_client.events import Event
from arcp_client.transcripts import Scrubber
from arcp_client.web._feeds.job_list import JobList
from arcp_client.web._feeds.open_questions import PageQuestions

__all__ = ["top"]

_MISSING = "the full screen needs the extra tui; --lines works without it"
_LINES_EVERY = 1.0
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_MOST = 2_000


def top(where: Place, *, lines: bool, sort: str, agent: str | None) -> Exit:
    """Show the jobs until the user quits."""
    full = not lines and _full_screen()

    async def body(interrupts: Interrupts) -> Exit:
        table = TopTable(sort=sort, text=agent or "")

        def link(state: LinkState) -> None:
            text = None if isinstance(state, Live) else render.state_text(state)
            table.link = "" if text is None else text.plain

        say = link if full else _say_link
        async with connected(where, interrupts, tell=say) as client, _watching(client) as jobs:
            runtime = client.session.runtime
            table.title = f"arcp-client top · {runtime.name} {runtime.version} · {where.url}"
            table.title = Scrubber().text(table.title)
            async with interrupts.stop():
                if full:
                    await _screen(client, jobs, table)
                else:
                    await _lines(jobs, agent)
        return Exit.SUCCESS

    return execute(body)


def _full_screen() -> bool:
    out = terminal.out()
    if not out.is_terminal or out.is_dumb_terminal or os.environ.get("TERM") == "dumb":
        return False
    try:
        import textual  # noqa: F401
    except ModuleNotFoundError:
        raise CommandError(
            Exit.USAGE, _MISSING, "pip install 'arcp-client[tui]', or add --lines"
        ) from None
    return True


def _say_link(state: LinkState) -> None:
    text = render.state_text(state)
    if text is not None:
        terminal.tell(terminal.err(), text.plain)


class _Jobs:
    """The rows of all jobs, and the events of those that are opened."""

    def __init__(self, client: Client) -> None:
        self.feeds = FeedRegistry(client, changed=self._changed)
        self.list = JobList(client, self.feeds.get, Scrubber(), follow=self.feeds.follow)
        self.questions = PageQuestions(client, Scrubber(), self._asked)

    def _asked(self) -> None:
        self.list.asking = self.questions.jobs

    def _changed(self, feed: JobFeed) -> None:
        self.list.touch(feed)

    def row(self, job_id: str) -> Row | None:
        """The row of a job."""
        return next((row for row in self.list.rows if row["job_id"] == job_id), None)

    async def page(self, job_id: str, after: int) -> tuple[int, Sequence[Text]]:
        """The next events of a job as lines."""
        feed = await self.feeds.open(job_id)
        found: list[Text] = []
        with self.feeds.viewing(feed):
            after = max(after, feed.kept.first - 1)
            while len(found) < _MOST and (batch := feed.kept.read(after)) is not None:
                after, data = batch
                entries = frames.decoded(data.partition(b"data: ")[2].strip())
                found.extend(_line(entry["event"]) for entry in entries)
        return after, found


def _line(fields: dict[str, Any]) -> Text:
    event = _EVENT.validate_python(digits.plain(fields))
    at = f"{render.local(event.ts, '%H:%M:%S')} " if event.ts is not None else ""
    return Text(at, "dim").append_text(render.event_text(event))


@asynccontextmanager
async def _watching(client: Client) -> AsyncIterator[_Jobs]:
    jobs = _Jobs(client)
    try:
        with jobs.list.viewing():
            await jobs.list.refresh()
            yield jobs
    finally:
        await jobs.questions.close()
        await jobs.list.close()
        await jobs.feeds.close()


async def _screen(client: Client, jobs: _Jobs, table: TopTable) -> None:
    from arcp_client.cli.view.top_question import Answering
    from arcp_client.cli.view.top_screen import TopApp

    def refresh(visible: Sequence[str]) -> None:
        jobs.list.show(visible)
        table.update(jobs.list.rows)

    async def cancel(job_id: str) -> str:
        try:
            await request_cancel(client, job_id)
        except CommandError as problem:
            return f"not cancelled: {problem.happened}"
        except ArcpError as error:
            return f"not cancelled: {error}"
        return "asked to stop"

    async def page(job_id: str, after: int) -> tuple[int, Sequence[Text]]:
        try:
            return await jobs.page(job_id, after)
        except FeedUnavailable as error:
            raise RuntimeError(str(error)) from error

    def closed(question_id: str) -> str | None:
        how = jobs.questions.outcome(question_id)
        return None if how is None else _outcome_words(how)

    async def answer(question: OpenQuestion, value: Any) -> str:
        try:
            taken = await client.answer(question.job_id, question.question_id, value)
        except errors.InvalidAnswer as error:
            raise ValueError(str(error)) from error
        except ArcpError as error:
            return f"not answered: {error}"
        return _outcome_words(jobs.questions.taken(taken))

    app = TopApp(
        table,
        refresh=refresh,
        cancel=cancel,
        page=page,
        row=jobs.row,
        answering=Answering(jobs.questions.of, closed, answer),
    )
    await app.run_async()


def _outcome_words(how: Mapping[str, Any]) -> str:
    """How a question was closed."""
    value = digits.dumps(how.get("value"), separators=None, allow_nan=True)
    match how["state"]:
        case "answered":
            return f"{how['by']} answered {value}, with {how['client']}"
        case "expired":
            held = f": {value} holds" if how["defaulted"] else ""
            return f"no answer came in time{held}"
        case "withdrawn":
            return "the question needs no answer any more"
    return "the question was closed elsewhere"


async def _lines(jobs: _Jobs, agent: str | None) -> None:
    shown = TopLines()

    async def show() -> None:
        while True:
            rows = [row for row in jobs.list.rows if agent is None or row["agent"] == agent]
            shown.show(rows, datetime.now(UTC))
            await asyncio.sleep(_LINES_EVERY)

    async with beside(show()):
        await asyncio.Event().wait()
