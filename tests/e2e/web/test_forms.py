"""Logging in, and submitting a job."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Page, expect

from arcp_client.testing import FaultyProxy
from tests.e2e.web.conftest import OpenSite
from tests.e2e.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


class TestSubmit:
    async def test_a_job_is_submitted_and_its_page_opened(self, site: Site, page: Page) -> None:
        await page.goto(f"{site.url}#/submit")
        await page.get_by_label("Agent").select_option("mason")
        await page.get_by_label("Version").select_option("0.9.1")
        await page.get_by_label("Input").fill('{"path": "src/", "depth": 3}')
        await page.get_by_text("Lease and limits").click()
        await page.get_by_label("Lease", exact=True).fill('{"fs.read": ["/src/**"]}')
        await page.get_by_label("Longest run").fill("90")
        await page.get_by_role("button", name="Submit").click()
        heading = page.get_by_role("heading", level=1)
        await expect(heading).to_contain_text("job_")
        job = site.client.job(await heading.text_content() or "")
        assert job is not None
        assert job.agent == "mason@0.9.1"
        puppet = await site.puppet(job)  # type: ignore[arg-type]
        assert puppet.says.input == {"path": "src/", "depth": 3}
        await expect(page.locator(".facts")).to_contain_text("mason@0.9.1")
        await expect(page.locator(".grants")).to_contain_text("/src/**")

    async def test_invalid_json_is_explained_where_it_is(self, site: Site, page: Page) -> None:
        await page.goto(f"{site.url}#/submit")
        box = page.get_by_label("Input")
        await box.fill('{\n  "path": src\n}')
        await page.get_by_role("button", name="Submit").click()
        await expect(box).to_be_focused()
        await expect(box).to_have_attribute("aria-invalid", "true")
        await expect(box).to_have_accessible_description(
            "JSON; leave it empty for none. Not JSON, line 2, column 11: "
            "“src” is unexpected; a value was expected"
        )
        await box.fill('{"path": "src"}')
        await page.get_by_text("Lease and limits").click()
        lease = page.get_by_label("Lease", exact=True)
        await lease.fill('{"fs.read": "/src"}')
        await page.get_by_text("Lease and limits").click()
        await page.get_by_role("button", name="Submit").click()
        await expect(lease).to_be_focused()
        await expect(page.get_by_text("each namespace has a list of patterns")).to_be_visible()
        await expect(box).not_to_have_attribute("aria-invalid", "true")
        assert not site.client.open_jobs()

    async def test_an_error_of_the_runtime_is_shown_with_its_remedy(
        self, site: Site, page: Page, complaints: list[str]
    ) -> None:
        await page.goto(f"{site.url}#/submit")
        await page.get_by_text("Lease and limits").click()
        await page.get_by_label("Lease", exact=True).fill('{"cost.budget": ["nonsense"]}')
        await page.get_by_role("button", name="Submit").click()
        alert = page.get_by_role("alert")
        await expect(alert).to_contain_text("INVALID_REQUEST")
        await expect(page.get_by_role("button", name="Submit")).to_be_enabled()
        assert len(complaints) == 1, complaints  # the browser notes the 4xx
        complaints.clear()

    async def test_a_retry_after_a_lost_answer_submits_no_second_job(
        self, site: Site, page: Page, complaints: list[str]
    ) -> None:
        keys: list[str] = []

        async def lose(route) -> None:  # type: ignore[no-untyped-def]
            keys.append(json.loads(route.request.post_data)["idempotency_key"])
            if len(keys) == 1:
                await route.fetch()  # the server does it, and the answer is lost
                await route.abort()
            else:
                await route.continue_()

        await page.goto(f"{site.url}#/submit")
        await page.get_by_label("Input").fill("[1, 2]")
        await page.route("**/api/jobs", lose)
        await page.get_by_role("button", name="Submit").click()
        await expect(page.get_by_role("alert")).to_contain_text("does not answer")
        await page.get_by_role("button", name="Submit").click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("job_")
        assert keys[0] == keys[1]
        assert len(site.client.open_jobs()) == 1
        assert all("ERR_FAILED" in each for each in complaints), complaints
        complaints.clear()


class TestLogin:
    TOKEN = "open sesame, 1001 times"

    async def test_the_token_opens_the_page_and_is_shown_nowhere(
        self,
        open_site: OpenSite,
        page: Page,
        complaints: list[str],
    ) -> None:
        site = await open_site(linked=False, token=self.TOKEN)
        job = await site.submit()
        await page.goto(site.job_url(job.id))
        heading = page.get_by_role("heading", level=1)
        await expect(heading).to_have_text("Log in")
        await expect(page.locator("#chip")).to_have_text("not logged in")
        assert job.id not in await page.locator("main").inner_text()
        await page.get_by_label("Token").fill("wrong")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("This is not the token.")
        await expect(page.get_by_label("Token")).to_be_focused()
        await page.get_by_label("Token").fill(self.TOKEN)
        await page.keyboard.press("Enter")
        await expect(heading).to_have_text(job.id)
        await expect(page.locator(".facts .badge")).to_have_text("running")
        kept = await page.evaluate(
            "[document.documentElement.outerHTML, location.href, document.cookie,"
            " JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join()"
        )
        assert self.TOKEN not in kept
        (cookie,) = await page.context.cookies()
        assert self.TOKEN not in cookie["value"]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        await page.reload()
        await expect(page.locator(".facts .badge")).to_have_text("running")
        await page.get_by_role("button", name="Log out").click()
        await expect(heading).to_have_text("Log in")
        await page.goto(site.url)
        await expect(heading).to_have_text("Log in")
        assert all("401" in each for each in complaints), complaints
        complaints.clear()

    async def test_an_expired_login_asks_for_the_token_in_place(
        self,
        open_site: OpenSite,
        page: Page,
        complaints: list[str],
    ) -> None:
        site = await open_site(linked=False, token=self.TOKEN)
        async with FaultyProxy(site.url) as proxy:
            await page.goto(proxy.url)
            await page.get_by_label("Token").fill(self.TOKEN)
            await page.keyboard.press("Enter")
            heading = page.get_by_role("heading", level=1)
            await expect(heading).to_have_text("Jobs")
            await expect(page.locator("#chip")).to_have_text("live")
            await page.context.clear_cookies()
            await proxy.cut()
            await expect(heading).to_have_text("Log in")
            await page.close()
        complaints.clear()
