"""A real receiver of webhooks, which verifies each call with the library of Standard Webhooks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from standardwebhooks.webhooks import Webhook as Verifier

from arcp_client.testing import VirtualTimeLoop

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqrTwjUPD8ILPZI"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Receiver:
    """An HTTP server; what it got, and how it answers: with the statuses given, then with 204.

    Attributes:
        calls: the verified calls.
        ids: the ``webhook-id`` of each call, in order, those of failed calls included.
        times: the loop's time of each call.
        answer: answers all further calls.
    """

    def __init__(self, *statuses: int, secret: str = SECRET, **headers: str) -> None:
        self.calls: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.times: list[float] = []
        self.answer: Answer | None = None
        self.came = asyncio.Event()
        self._statuses = list(statuses)
        self._headers = headers
        self._verifier = Verifier(secret)
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=query-secret"

    async def __aenter__(self) -> Receiver:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._take)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.StreamResponse:
        assert (request.method, request.path) == ("POST", "/hook")
        body = await request.read()
        content = self._verified(body, request.headers)
        self.ids.append(request.headers["webhook-id"])
        self.times.append(asyncio.get_running_loop().time())
        if self._statuses:
            self.came.set()
            return web.Response(status=self._statuses.pop(0), headers=self._headers)
        if self.answer is not None:
            self.came.set()
            return await self.answer(request)
        self.calls.append(content)
        self.came.set()
        return web.Response(status=204)

    def _verified(self, body: bytes, headers: Mapping[str, str]) -> Any:
        timestamp = int(headers["webhook-timestamp"])
        assert abs(timestamp - time.time()) < 60
        if not isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
            return self._verifier.verify(body, dict(headers))
        # `verify` compares with the real time.
        moment = datetime.fromtimestamp(timestamp, UTC)
        signature = self._verifier.sign(headers["webhook-id"], moment, body.decode())
        assert headers["webhook-signature"] == signature
        return json.loads(body)

    async def until(self, count: int, *, tries: bool = False) -> list[dict[str, Any]]:
        """Wait for a number of calls, or of tries."""
        async with asyncio.timeout(100_000):  # virtual in most tests
            while len(self.ids if tries else self.calls) < count:
                self.came.clear()
                await self.came.wait()
        return self.calls
