"""Wrong tokens are delayed and limited; right tokens are not delayed."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import SecretStr

from arcp_client.testing import VirtualClock
from arcp_client.web._http.logins import LIFETIME, Logins
from arcp_client.web._http.problems import Problem

TOKEN = "the-token"


@pytest.fixture
def logins() -> Logins:
    return Logins(SecretStr(TOKEN))


async def wrong(logins: Logins) -> Problem:
    with pytest.raises(Problem) as refused:
        await logins.login("x")
    return refused.value


async def test_delays_of_wrong_tokens_grow_up_to_a_limit(
    logins: Logins, clock: VirtualClock
) -> None:
    loop = asyncio.get_running_loop()
    took = []
    for _ in range(12):
        began = loop.time()
        assert (await wrong(logins)).status == 401
        took.append(loop.time() - began)
    assert took == sorted(took)
    assert took[0] > 0
    assert took[-1] == pytest.approx(2.0)


async def test_a_right_token_is_not_delayed(logins: Logins, clock: VirtualClock) -> None:
    for _ in range(5):
        await wrong(logins)
    began = asyncio.get_running_loop().time()
    value = await logins.login(TOKEN)
    assert asyncio.get_running_loop().time() == began
    assert logins.knows(value)


async def test_few_wrong_tokens_wait_at_a_time(logins: Logins, clock: VirtualClock) -> None:
    found = await asyncio.gather(*(wrong(logins) for _ in range(20)))
    assert sorted(problem.status for problem in found) == [401] * 8 + [429] * 12
    assert all(p.headers["Retry-After"] for p in found if p.status == 429)
    assert logins.knows(await logins.login(TOKEN))


async def test_with_too_many_wrong_tokens_no_token_is_checked(
    logins: Logins, clock: VirtualClock
) -> None:
    tries = [asyncio.ensure_future(wrong(logins)) for _ in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await logins.login(TOKEN)
    assert refused.value.status == 429
    await asyncio.gather(*tries)


async def test_a_login_ends_after_its_time(logins: Logins, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("arcp_client.web._http.logins.time.monotonic", lambda: now)
    value = await logins.login(TOKEN)
    assert logins.knows(value)
    now += LIFETIME
    assert not logins.knows(value)


async def test_the_number_of_logins_is_limited(logins: Logins) -> None:
    values = [await logins.login(TOKEN) for _ in range(300)]
    assert not logins.knows(values[0])
    assert logins.knows(values[-1])
    assert sum(map(logins.knows, values)) == 256


def test_the_repr_has_neither_the_token_nor_session_ids(logins: Logins) -> None:
    assert TOKEN not in repr(logins)
    assert TOKEN not in str(vars(logins))


async def test_a_right_token_does_not_shorten_the_delays_of_others(
    logins: Logins, clock: VirtualClock
) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(6):
        await wrong(logins)
        await logins.check(TOKEN)
    began = loop.time()
    await wrong(logins)
    assert loop.time() - began == pytest.approx(2.0)


async def test_wrong_tokens_are_forgotten_after_a_while(
    logins: Logins, clock: VirtualClock
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await wrong(logins)
    first = loop.time() - began
    await wrong(logins)
    await asyncio.sleep(61.0)
    began = loop.time()
    await wrong(logins)
    assert loop.time() - began == pytest.approx(first)
