"""Which host names and origins are a server's own, and how wrong tokens are slowed down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._security import (
    AllowedHosts,
    WrongTokens,
    client_address,
    host_name,
    is_address,
    on_loopback,
)
from arcp_client.testing import VirtualClock


class Transport(asyncio.Transport):
    """A transport that has nothing but addresses."""


def transport(**extra: Any) -> Transport:
    return Transport(extra)


@pytest.mark.parametrize(
    ("hosts", "name"),
    [
        (["localhost"], "localhost"),
        (["LocalHost.:80"], "localhost"),
        (["[::1]:7777"], "::1"),
        (["127.0.0.1:7777"], "127.0.0.1"),
        ([], None),
        (["a", "a"], None),
        ([""], None),
        (["."], None),
        (["a b"], None),
        (["a@b"], None),
        (["a:b"], None),
        (["[::1"], None),
        (["a/"], None),
        (["ü.example"], None),
    ],
)
def test_a_host_header_is_one_name_or_nothing(hosts: list[str], name: str | None) -> None:
    assert host_name(hosts) == name


@given(st.lists(st.text(max_size=20), max_size=2), st.text(max_size=30))
def test_no_header_makes_it_fail(hosts: list[str], origin: str) -> None:
    name = host_name(hosts)
    allowed = AllowedHosts(["jobs.example"])
    assert name is None or isinstance(name in allowed, bool)
    assert isinstance(allowed.own([origin], "".join(hosts)), bool)


@pytest.mark.parametrize(
    ("origin", "own"),
    [
        ("http://127.0.0.1:7777", True),
        ("HTTP://127.0.0.1:7777", True),
        ("https://jobs.example", True),
        ("https://jobs.example:8443", True),
        ("http://127.0.0.1:1", False),
        ("http://jobs.example.evil.example", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
        ("http://", False),
        ("http://[", False),
        ("http://[::1", False),
        ("chrome-extension://127.0.0.1:7777", False),
        ("file://", False),
    ],
)
def test_an_origin_is_own_by_the_host_or_by_a_name_of_the_operator(origin: str, own: bool) -> None:
    hosts = AllowedHosts(["Jobs.example."])
    assert hosts.own([origin], "127.0.0.1:7777") is own
    assert hosts.own([], "127.0.0.1:7777")
    assert not hosts.own(["http://127.0.0.1:7777", "http://evil.example"], "127.0.0.1:7777")


@pytest.mark.parametrize(
    "name", ["", "http://a", "a:80", "a/b", "*", "*.example", "a b", ".", "[a"]
)
def test_what_is_no_host_name_is_refused_with_the_argument(name: str) -> None:
    with pytest.raises(ValueError, match=r"allowed_hosts: .* is not a host name such as"):
        AllowedHosts([name])


def test_loopback_names_and_given_ones_are_allowed() -> None:
    hosts = AllowedHosts(["jobs.example", "192.0.2.1", "[2001:db8::1]"])
    for name in ("localhost", "127.0.0.1", "::1", "jobs.example", "192.0.2.1", "2001:db8::1"):
        assert name in hosts
    assert "example" not in hosts
    assert hosts
    assert not AllowedHosts()
    assert is_address("192.0.2.1")
    assert not is_address("jobs.example")


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (("192.0.2.7", 1), "192.0.2.7"),
        (("::ffff:192.0.2.7", 1, 0, 0), "192.0.2.7"),
        (("2001:db8:1:2:3:4:5:6", 1, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::/64"),
        (("", 1), ""),
        ("", "a Unix socket"),
        (None, "a Unix socket"),
    ],
)
def test_clients_are_told_apart_by_what_one_of_them_cannot_change(peer: Any, address: str) -> None:
    assert client_address(transport(peername=peer)) == address


def test_a_unix_socket_counts_as_loopback() -> None:
    assert on_loopback(transport(sockname=("127.0.0.1", 1)))
    assert on_loopback(transport(sockname=("::1", 1, 0, 0)))
    assert on_loopback(transport(sockname="/run/arcp"))
    assert on_loopback(None)
    assert not on_loopback(transport(sockname=("192.0.2.1", 1)))


# ------------------------------------------------------------------------- wrong tokens


async def test_wrong_tokens_of_one_address_do_not_slow_another(clock: VirtualClock) -> None:
    loop, wrong = asyncio.get_running_loop(), WrongTokens()
    for _ in range(8):
        await wrong.delay("a")
    began = loop.time()
    await wrong.delay("a")
    assert loop.time() - began == pytest.approx(2.0)
    began = loop.time()
    await wrong.delay("b")
    assert loop.time() - began == pytest.approx(0.1)


async def test_too_many_of_one_address_close_the_door_to_that_address(clock: VirtualClock) -> None:
    wrong = WrongTokens()
    waiting = [asyncio.ensure_future(wrong.delay("a")) for _ in range(8)]
    await asyncio.sleep(0)
    assert wrong.full("a")
    assert not wrong.full("b")
    await asyncio.gather(*waiting)
    assert not wrong.full("a")


async def test_many_addresses_cannot_fill_the_memory_nor_try_without_end(
    clock: VirtualClock,
) -> None:
    wrong = WrongTokens(addresses=16)
    for number in range(100):
        await wrong.delay(str(number))
    assert len(wrong) == 16
    waiting = [asyncio.ensure_future(wrong.delay(str(number))) for number in range(256)]
    await asyncio.sleep(0)
    assert wrong.full("a new one")
    waiting[0].cancel()
    await asyncio.wait(waiting)
    assert not wrong.full("a new one")


async def test_an_address_that_goes_on_trying_is_not_forgotten(clock: VirtualClock) -> None:
    loop, wrong = asyncio.get_running_loop(), WrongTokens(addresses=4)
    for number in range(40):
        await wrong.delay("a")
        await wrong.delay(str(number))
    began = loop.time()
    await wrong.delay("a")
    assert loop.time() - began == pytest.approx(2.0)
