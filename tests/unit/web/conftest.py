"""A runtime on a socket, a client of it, and a dashboard of that client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from arcp_client import Client, Runtime
from tests.unit.web.kit import Gates, Site, agents, site


class Doorkeeper:
    """Lets everybody in, and counts them: each session begins with a token."""

    def __init__(self) -> None:
        self.sessions = 0

    async def __call__(self, token: str | None) -> str:
        self.sessions += 1
        return "somebody"


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
def door() -> Doorkeeper:
    return Doorkeeper()


@pytest.fixture
async def runtime(gates: Gates, door: Doorkeeper) -> AsyncIterator[Runtime]:
    async with Runtime(name="dashboard-tests", auth=door) as runtime:
        agents(runtime, gates)
        yield runtime


@pytest.fixture
async def url(runtime: Runtime) -> AsyncIterator[str]:
    async with runtime.serve() as server:
        yield server.url


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with Client(url, token="token-of-the-client") as client:
        yield client


@pytest.fixture
async def other(url: str) -> AsyncIterator[Client]:
    """Somebody else, who submits the jobs that the dashboard looks at."""
    async with Client(url, token="token-of-another") as client:
        yield client


@pytest.fixture
async def dashboard(client: Client) -> AsyncIterator[Site]:
    async with site(client, allow_control=True) as served:
        yield served
