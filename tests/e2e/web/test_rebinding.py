"""A page whose name was made to point to this machine reaches neither runtime nor dashboard.

The browser is a real one, and resolves a name of the internet to 127.0.0.1, as it does after an
attacker has changed the name's DNS record (DNS rebinding). Then the page's origin, which is where
it was loaded from, is that of the server on this machine, and no rule of the browser protects it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, async_playwright

from arcp_client import Client, Runtime
from arcp_client.web import serve
from tests.e2e.web.conftest import ARGS, chromium

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

EVIL = "evil.test"

ATTACK = """(path) => new Promise((done) => {
    const socket = new WebSocket(`ws://${location.host}${path}`);
    const say = (type, payload) => socket.send(JSON.stringify(
        {arcp: '1.1', id: `${type}-1`, type, payload}));
    socket.onerror = () => done('refused');
    socket.onopen = () => say('session.hello', {
        client: {name: 'page', version: '1'}, auth: {scheme: 'bearer', token: ''},
        capabilities: {features: []}});
    socket.onmessage = (message) => {
        const frame = JSON.parse(message.data);
        if (frame.type === 'session.welcome') say('job.submit', {agent: 'secret', input: null});
        if (frame.type === 'job.result') done(frame.payload.result);
        if (frame.type === 'job.error' || frame.type === 'session.error') done(frame.payload.code);
    };
})"""

FETCH = """(path) => fetch(path).then((answer) => answer.status)"""


@pytest_asyncio.fixture(loop_scope="session")
async def rebound() -> AsyncIterator[Browser]:
    """A browser to which a foreign name is this machine."""
    path = chromium()
    rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    # Newer ones ask the user before a page reaches this machine; other browsers do not.
    unasked = "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, args=[*ARGS, rules, unasked]
        )
        yield browser
        await browser.close()


async def run(browser: Browser, host: str, port: int, script: str, path: str) -> Any:
    """What a script finds on a page that was loaded from this host and port."""
    context = await browser.new_context()
    page = await context.new_page()
    origin = f"http://{host}:{port}"

    async def attacker(route: Any) -> None:
        await route.fulfill(body="<!doctype html><title>x</title>", content_type="text/html")

    await page.route(f"{origin}/page", attacker)  # and nothing else of it
    await page.goto(f"{origin}/page")
    found = await page.evaluate(script, path)
    await context.close()
    return found


def secretive() -> Runtime:
    runtime = Runtime()

    @runtime.agent("secret")
    async def secret(input: Any, job: Any) -> str:
        return "the secret"

    return runtime


@pytest.mark.parametrize("how", ["serve", "add_routes"])
async def test_r1_a_rebound_page_cannot_run_an_agent(rebound: Browser, how: str) -> None:
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(secretive())
        if how == "serve":
            port = (await stack.enter_async_context(runtime.serve())).port
        else:
            app = web.Application()
            runtime.add_routes(app)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[0][1]
        assert await run(rebound, EVIL, port, ATTACK, "/arcp") == "refused"
        # The same page under a name of this machine shows that the script works.
        assert await run(rebound, "localhost", port, ATTACK, "/arcp") == "the secret"


async def test_r1_a_name_that_was_allowed_is_served(rebound: Browser) -> None:
    async with secretive() as runtime, runtime.serve(allowed_hosts=[EVIL]) as server:
        assert await run(rebound, EVIL, server.port, ATTACK, "/arcp") == "the secret"


async def test_a_rebound_page_sees_nothing_of_the_dashboard(rebound: Browser) -> None:
    async with Client(secretive()) as client, serve(client) as server:
        assert await run(rebound, EVIL, server.port, FETCH, "/api/overview") == 403
        assert await run(rebound, "localhost", server.port, FETCH, "/api/overview") == 200
