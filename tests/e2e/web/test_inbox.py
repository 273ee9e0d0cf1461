"""The inbox: questions of all jobs with forms, answered once, and closed live on every page."""

from __future__ import annotations

import asyncio
import re
from decimal import Decimal
from typing import Any, Literal

import pytest
from playwright.async_api import Locator, Page, Route, expect
from pydantic import BaseModel, Field

from arcp_client import Choice
from tests.e2e.web.conftest import MakeContext, OpenSite
from tests.e2e.web.site import Puppet, Site
from tests.e2e.web.test_accessibility import both_themes

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


class Plan(BaseModel):
    """What to deploy."""

    version: str = Field(min_length=1, description="such as 1.4")
    machines: int
    share: Decimal
    where: Literal["test", "production"]
    note: str | None = None


def ask(job: Puppet, text: str, **how: Any) -> asyncio.Task[Any]:
    """Let the agent of a job ask."""
    return asyncio.create_task(job.says.ask(text, **how))


def card(page: Page, text: str) -> Locator:
    return page.locator(".question").filter(has=page.get_by_role("heading", name=text))


async def test_a_question_is_counted_shown_in_its_row_and_answered_with_one_press(
    site: Site, page: Page
) -> None:
    job = await site.submit()
    await page.goto(site.url)
    await expect(page.locator("table.jobs a.job")).to_have_count(1)
    answer = ask(job, "Deploy?", options=["yes", "no"], timeout=600)
    await expect(page).to_have_title("(1) Jobs · ARCP dashboard")
    await expect(page.locator("table.jobs")).to_contain_text("waiting for you: Deploy?")
    await expect(page.locator("table.jobs .badge")).to_have_text("waits for you")
    await page.get_by_role("link", name=f"Answer {job.id}").click()
    await expect(card(page, "Deploy?").get_by_role("button", name="yes")).to_be_visible()
    await page.get_by_role("link", name="Inbox (1)").click()
    question = card(page, "Deploy?")
    await expect(question).to_contain_text("9 min left")
    await question.get_by_role("button", name="yes").click()
    assert await answer == "yes"
    await expect(question).to_contain_text("Answered by")
    await expect(question.locator(".outcome")).to_be_focused()
    await expect(page).to_have_title("Inbox · ARCP dashboard")
    await expect(page.get_by_text("No agent waits for an answer.")).to_be_visible()


async def test_a_form_from_a_model_is_filled_by_keyboard_and_keeps_every_digit(
    site: Site, page: Page
) -> None:
    job = await site.submit()
    answer = ask(job, "Which plan?", schema=Plan)
    await page.goto(f"{site.url}#/inbox")
    question = card(page, "Which plan?")
    await question.get_by_role("button", name="Answer").focus()
    await page.keyboard.press("Enter")
    await expect(question.get_by_label("Version")).to_be_focused()
    await expect(question.get_by_label("Version")).to_have_attribute("aria-invalid", "true")
    await page.keyboard.type("1.4")
    await page.keyboard.press("Tab")
    await page.keyboard.type("12345678901234567890123")
    await page.keyboard.press("Tab")
    await page.keyboard.type("0.10000000000000000001")
    await page.keyboard.press("Tab")
    await page.keyboard.type("prod")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    async with page.expect_request("**/answer") as sent:
        await page.keyboard.press("Enter")
    body = (await sent.value).post_data or ""
    assert '"machines":12345678901234567890123,"share":0.10000000000000000001,' in body
    plan = await answer
    assert (plan.version, plan.where, plan.note) == ("1.4", "production", None)
    assert plan.machines == 12345678901234567890123
    await expect(question).to_contain_text("12345678901234567890123")


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(
    site: Site, page: Page, complaints: list[str]
) -> None:
    job = await site.submit()
    answer = ask(job, "How many?", schema={"type": "integer", "minimum": 3})
    await page.goto(f"{site.url}#/inbox")
    question = card(page, "How many?")
    box = question.get_by_label("Answer")
    await box.fill("two")
    await question.get_by_role("button", name="Answer").click()
    await expect(question.get_by_text("Enter a whole number.")).to_be_visible()
    await box.fill("2")
    await question.get_by_role("button", name="Answer").click()
    await expect(question.get_by_role("alert")).to_be_visible()
    await box.fill("3")
    await question.get_by_role("button", name="Answer").click()
    assert await answer == 3
    complaints.clear()  # of the refused request


async def test_what_happens_elsewhere_is_shown_on_every_page(
    site: Site, new_page: MakeContext
) -> None:
    job = await site.submit()
    inbox, own = await new_page(), await new_page()
    await inbox.goto(f"{site.url}#/inbox")
    await own.goto(site.job_url(job.id))
    answer = ask(job, "Go on?", options=["yes", "no"])
    for page in (inbox, own):
        await expect(card(page, "Go on?").get_by_role("button", name="yes")).to_be_visible()
        await expect(page).to_have_title(re.compile(r"^\(1\) "))
    [question] = [each async for each in site.client.questions()]
    await site.client.answer(job.id, question.question_id, "no")
    assert await answer == "no"
    for page in (inbox, own):
        await expect(card(page, "Go on?")).to_contain_text("Answered by")
        await expect(card(page, "Go on?")).to_contain_text(": no")
        await expect(card(page, "Go on?").get_by_role("button")).to_have_count(0)
    late = ask(job, "Quick?", options=["a", "b"], default="b", timeout=1)
    for page in (inbox, own):
        await expect(card(page, "Quick?")).to_contain_text("the default holds, b")
    assert await late == "b"
    open_ = ask(job, "Still there?")
    await expect(card(own, "Still there?").get_by_label("Answer")).to_be_visible()
    await job.finish()
    for page in (inbox, own):
        await expect(card(page, "Still there?")).to_contain_text("Withdrawn: the job has ended.")
    await asyncio.wait({open_})
    open_.exception()


async def test_a_device_that_comes_second_is_told_who_was_first(
    site: Site, page: Page, complaints: list[str]
) -> None:
    job = await site.submit()
    answer = ask(job, "Which?", options=["left", "right"])
    await page.goto(f"{site.url}#/inbox")
    question = card(page, "Which?")
    await expect(question.get_by_role("button", name="right")).to_be_visible()
    told = asyncio.Event()

    async def late(route: Route) -> None:
        await told.wait()
        await route.continue_()

    await page.route("**/api/questions", late)  # the page does not know it yet
    [asked] = [each async for each in site.client.questions()]
    await site.client.answer(job.id, asked.question_id, "left")
    await question.get_by_role("button", name="right").click()
    await expect(question.get_by_role("alert")).to_contain_text("anonymous answered")
    told.set()
    await expect(question.locator(".outcome")).to_contain_text(": left")
    assert await answer == "left"
    complaints.clear()  # of the refused request


async def test_texts_of_agents_are_never_markup(site: Site, page: Page) -> None:
    evil = '<img src=x onerror="document.title=1"><b>bold</b>'
    job = await site.submit()
    answer = ask(job, evil, options=[Choice(1, evil)])
    named = ask(
        job,
        "Fields?",
        schema={
            "type": "object",
            "title": evil,
            "properties": {"__proto__": {"type": "string"}, evil: {"type": "string"}},
        },
    )
    await page.goto(f"{site.url}#/inbox")
    await expect(page.locator(".question")).to_have_count(2)
    assert await page.locator(".question img, .question b").count() == 0
    await card(page, "Fields?").get_by_label("__proto__").fill("kept")
    await card(page, "Fields?").get_by_role("button", name="Answer").click()
    assert await named == {"__proto__": "kept"}
    await page.locator(".question").get_by_role("button", name="<img").click()
    assert await answer == 1


async def test_a_dashboard_that_only_watches_shows_questions_without_forms(
    open_site: OpenSite, page: Page
) -> None:
    site = await open_site(linked=False, allow_control=False)
    job = await site.submit()
    answer = ask(job, "May I?", options=["yes"], timeout=600)
    await page.goto(f"{site.url}#/inbox")
    await expect(card(page, "May I?")).to_contain_text("--allow-control")
    await expect(card(page, "May I?").get_by_role("button")).to_have_count(0)
    answer.cancel()
    await asyncio.wait({answer})


async def test_the_inbox_and_the_page_of_a_job_are_accessible_and_fit_a_phone(
    site: Site, page: Page
) -> None:
    job = await site.submit()
    await page.goto(f"{site.url}#/inbox")
    await expect(page.get_by_text("No agent waits for an answer.")).to_be_visible()
    await both_themes(page)
    asked = [
        ask(job, "Deploy?", options=["yes", "no"], default="no", timeout=600),
        ask(job, "Which plan?", schema=Plan),
        ask(job, "Why?"),
        ask(job, "Anything?", schema={"type": "array"}),
        ask(job, "Which of many?", options=[f"number {n}" for n in range(20)]),
    ]
    await expect(page.locator(".question")).to_have_count(5)
    await both_themes(page)
    await card(page, "Deploy?").get_by_role("button", name="no").click()
    await expect(card(page, "Deploy?")).to_contain_text("Answered by")
    await both_themes(page)
    await page.set_viewport_size({"width": 320, "height": 640})
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not await page.evaluate(wide)
    await page.goto(site.job_url(job.id))
    await expect(page.locator(".question")).to_have_count(5)
    assert not await page.evaluate(wide)
    await both_themes(page)
    await job.finish()
    await asyncio.wait(asked)
    for task in asked:
        task.exception()
