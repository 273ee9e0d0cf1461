"""A key of ``arcp-client top`` opens the question of the selected job, and takes the answer."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("textual")

from textual.widgets import Input, Label

from arcp_client import Choice, OpenQuestion
from arcp_client.cli.view.job_table import TopTable
from arcp_client.cli.view.top_question import Answering, QuestionDialog
from arcp_client.cli.view.top_screen import TopApp
from arcp_client.projection import JobProjection, JobRow
from tests.unit.test_job_rows import later

OPTIONS = (Choice("go", "Deploy now"), Choice("wait", "Not yet"))
ASKED = OpenQuestion(
    question_id="q", job_id="job_1", text="Deploy?\x1b[31m", schema=None, options=OPTIONS
)


class Questions:
    """One question, and what was answered."""

    def __init__(self, question: OpenQuestion | None = ASKED) -> None:
        self.open = question
        self.closed: str | None = None
        self.answers: list[Any] = []
        self.refuses = 0

    def app(self) -> TopApp:
        seen = JobProjection("job_1", agent="deploys", status="running")
        rows = [JobRow.of(seen, later(1)).to_dict()]
        table = TopTable()
        table.update(rows)

        async def answer(_: OpenQuestion, value: Any) -> str:
            if self.refuses:
                self.refuses -= 1
                raise ValueError("answer with 1 Deploy now, 2 Not yet")
            self.answers.append(value)
            return f"alice answered {value}"

        async def cancel(_: str) -> str:
            return "asked to stop"

        async def page(_: str, after: int) -> tuple[int, list[Any]]:
            return after, []

        self.table = table
        return TopApp(
            table,
            refresh=lambda _: None,
            cancel=cancel,
            page=page,
            row=lambda _: rows[0],
            answering=Answering(lambda _: self.open, lambda _: self.closed, answer),
        )


def shown(app: TopApp) -> str:
    return "\n".join(str(label.render()) for label in app.screen.query(Label))


async def test_the_question_is_answered_by_its_number_and_the_table_says_so() -> None:
    questions = Questions()
    app = questions.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a")
        await pilot.pause()
        assert isinstance(app.screen, QuestionDialog)
        assert "Deploy?" in shown(app)
        assert "\x1b" not in shown(app)
        assert "1  Deploy now\n2  Not yet" in shown(app)
        await pilot.press("2", "enter")
        await pilot.pause()
        assert questions.answers == ["wait"]
        assert not isinstance(app.screen, QuestionDialog)
        assert questions.table.note == "alice answered wait"


async def test_what_does_not_fit_is_explained_and_can_be_typed_again() -> None:
    questions = Questions()
    questions.refuses = 1
    app = questions.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a")
        await pilot.press("7", "enter")
        await pilot.pause()
        assert "answer with 1 Deploy now, 2 Not yet" in shown(app)
        app.screen.query_one(Input).value = "Deploy now"
        await pilot.press("enter")
        await pilot.pause()
        assert "answer with 1 Deploy now, 2 Not yet" in shown(app), "the runtime refused it"
        await pilot.press("enter")
        await pilot.pause()
        assert questions.answers == ["go"]


async def test_a_question_that_is_answered_elsewhere_closes_the_dialog() -> None:
    questions = Questions()
    app = questions.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await pilot.press("a")
        await pilot.pause()
        assert isinstance(app.screen, QuestionDialog)
        questions.closed = 'bob answered "go", with arcp-client-web'
        app.screen._look()
        await pilot.pause()
        assert not isinstance(app.screen, QuestionDialog)
        assert questions.table.note == questions.closed


async def test_escape_leaves_the_question_open_and_a_job_without_one_says_so() -> None:
    questions = Questions()
    app = questions.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a")
        await pilot.press("escape")
        await pilot.pause()
        assert questions.answers == []
        assert not isinstance(app.screen, QuestionDialog)
        questions.open = None
        await pilot.press("a")
        await pilot.pause()
        assert questions.table.note == "it asks nothing now"


async def test_a_refresh_before_the_app_has_begun_or_after_it_has_ended_does_nothing() -> None:
    app = Questions().app()
    app.update()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
    app.update()
