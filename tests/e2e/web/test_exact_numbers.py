"""Numbers are sent as they are typed and shown as they were sent, live and in a replay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from arcp_client import Client
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Emit, Finish
from arcp_client.web import serve
from tests.exact_numbers import NUMBERS, ExactConnector, digits

pytestmark = pytest.mark.asyncio(loop_scope="session")

VALUES = [digits(text) for text in NUMBERS]
SCRIPT = [
    Emit("tool_call", {"tool": "add", "args": {"n": VALUES}, "call_id": "c1"}),
    Emit("tool_result", {"call_id": "c1", "result": VALUES}),
    *(Emit("metric", {"name": f"m{n}", "value": value}) for n, value in enumerate(VALUES)),
    Finish({"n": VALUES}),
]


@pytest_asyncio.fixture(loop_scope="session")
async def exact() -> AsyncIterator[tuple[str, ExactConnector]]:
    async with ScriptedRuntime(agents={"sums": SCRIPT}) as runtime:
        connector = ExactConnector(runtime)
        async with (
            Client(connector, token="t") as client,
            serve(client, allow_control=True) as server,
        ):
            yield server.url, connector


async def look(page: Page) -> None:
    """Everything that the page of the job shows has the digits."""
    result = page.get_by_role("region", name="Result")
    await expect(result).to_be_visible()
    shown = await result.inner_text()
    rows = await page.locator(".row").all_inner_texts()
    assert len(rows) == len(NUMBERS) + 2
    call, metrics = rows[0], rows[1:-1]
    for text, metric in zip(NUMBERS, metrics, strict=True):
        assert text in shown
        assert call.count(text) == 2, (text, call)
        assert text in metric


async def test_typed_numbers_are_sent_and_sent_numbers_are_shown_digit_by_digit(
    exact: tuple[str, ExactConnector], page: Page, tmp_path: Path
) -> None:
    url, connector = exact
    await page.goto(f"{url}#/submit")
    await page.get_by_label("Input").fill(f'{{"n": [{", ".join(NUMBERS)}]}}')
    await page.get_by_role("button", name="Submit").click()
    await expect(page.locator(".badge").first).to_have_text("success")
    (frame,) = [frame for frame in connector.sent if b'"job.submit"' in frame]
    assert f'"input":{{"n":[{",".join(NUMBERS)}]}}'.encode() in frame
    await look(page)
    path = tmp_path / "job.jsonl"
    await page.get_by_text("Download", exact=True).click()
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download transcript").click()
    await (await started.value).save_as(path)
    await page.get_by_role("link", name="Replay").click()
    await page.locator("#file").set_input_files(path)
    await page.get_by_label("Speed").select_option("100")
    await page.locator("#play").click()
    await expect(page.locator("#play")).to_have_text("Play again")
    await look(page)
