"""A lease covers no target that two programs may read differently (§9.2, R8)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

import httpx
import pytest
import requests
import urllib3
import yarl
from hypothesis import example, given
from hypothesis import strategies as st

from arcp_client.errors import PermissionDenied
from arcp_client.runtime import JobContext
from arcp_client.runtime._leases.patterns import normal_name, normal_path, normal_url
from tests.unit.runtime.leases.test_grant import grant

Reading = tuple[str, str, int, bytes]  # scheme, host, port, path without escapes
PORTS = {"http": 80, "https": 443}


def by_yarl(url: str) -> Reading:
    read = yarl.URL(url)
    return read.scheme, read.raw_host or "", read.port or 0, unquote_to_bytes(read.raw_path)


def by_requests(url: str) -> Reading:
    return by_urllib3(str(requests.Request("GET", url).prepare().url))


def by_urllib3(url: str) -> Reading:
    read = urllib3.util.parse_url(url)
    port = read.port or PORTS[str(read.scheme)]
    host = (read.host or "").strip("[]")
    return str(read.scheme), host, port, unquote_to_bytes(read.path or "/")


def by_httpx(url: str) -> Reading:
    read = httpx.URL(url)
    port = read.port or PORTS[read.scheme]
    path = read.raw_path.partition(b"?")[0]
    return read.scheme, read.raw_host.decode("ascii"), port, unquote_to_bytes(path)


READERS: tuple[Callable[[str], Reading], ...] = (by_yarl, by_requests, by_urllib3, by_httpx)


def by_us(url: str) -> Reading | None:
    """What the lease is asked for, if it is asked at all."""
    normal = normal_url(url)
    if normal is None:
        return None
    scheme, _, rest = normal.partition("://")
    authority, slash, path = rest.partition("/")
    host, _, port = authority.partition("]:" if authority.startswith("[") else ":")
    path = unquote_to_bytes(slash + path or "/")  # type: ignore[assignment]
    return scheme, host.strip("[]"), int(port or PORTS[scheme]), path  # type: ignore[return-value]


# What was found to be read in two ways, by the programs here or by servers behind them.
AMBIGUOUS = (
    "https://h/secret//../allowed/x",
    "https://h//allowed/x",
    "https://h/allowed//x",
    "https://h/allowed/../x",
    "https://h/allowed/./x",
    "https://h/allowed/..",
    "https://h/allowed/.",
    "https://h/allowed/..;/x",
    "https://h/allowed/..;v=1/x",
    "https://h/allowed/%2e%2e/x",
    "https://h/allowed/%2E./x",
    "https://h/allowed/.%2e",
    "https://h/allowed%2f..%2fx",
    "https://h/allowed%5c..%5cx",
    "https://h/allowed/%252e%252e/x",
    "https://h/allowed/%c0%ae%c0%ae/x",
    "https://h/allowed/..%3bx/y",
    "https://h/allowed/%61",
    "https://h/allowed/%00",
    "https://h/allowed/%0d%0aHost:%20evil",
    "https://h/allowed/%zz",
    "https://h/allowed/%",
    "https://h/allowed/x\\..\\y",
    "https://h\\@evil/allowed/",
    "https:\\\\h\\allowed\\x",
    "https:/h/allowed",
    "https:///h/allowed",
    "https:h/allowed",
    "//h/allowed",
    "h/allowed",
    "https://user@h/allowed",
    "https://user:password@h/allowed",
    "https://h@evil/allowed",
    "https://h:443@evil/allowed",
    "https://h#@evil/allowed",
    "https://h%40evil/allowed",
    "https://h%2eevil/allowed",
    "https://h./allowed",
    "https://h../allowed",
    "https://.h/allowed",
    "https://a..h/allowed",
    "https://bücher.example/allowed",
    "https://ｈ/allowed",
    "https://h\u3002evil/allowed",
    "https://h/allow\u0435d",
    "https://h/allowed\uff0f..",
    "https://h/allowed/ x",
    " https://h/allowed",
    "https://h/allowed ",
    "https://h/allowed\n",
    "https://h/allowed\tx",
    "ht\ntps://h/allowed",
    "https://h\t/allowed",
    "https://h/allowed\r\nx",
    "https://h\0/allowed",
    "https://h:/allowed",
    "https://h:0/allowed",
    "https://h:0443/allowed",
    "https://h:+443/allowed",
    "https://h:65536/allowed",
    "https://h:x/allowed",
    "https://127.1/allowed",
    "https://0x7f.0.0.1/allowed",
    "https://0177.0.0.1/allowed",
    "https://2130706433/allowed",
    "https://127.0.0.01/allowed",
    "https://1.2.3.4.5/allowed",
    "https://[::1/allowed",
    "https://[0:0:0:0:0:0:0:1]/allowed",
    "https://[::ffff:127.0.0.1]/allowed",
    "https://[fe80::1%25eth0]/allowed",
    "https://[::1]evil/allowed",
    "https://h/{allowed,x}",
    "https://h/[1-3]",
    "https://h/a|b",
    'https://h/"a"',
    "https://h/<a>",
    "https://h/a^b`",
    "file:///allowed",
    "data:allowed",
    "",
)
PLAIN = (
    "https://h",
    "https://h/",
    "HTTPS://H:443/allowed/X",
    "http://h:80/allowed/x",
    "http://h:443/allowed/x",
    "https://h/allowed/x?q=/../secret//%2e%2e",
    "https://h/allowed/x#/../secret",
    "https://h/allowed/x?next=https://evil/@#?/",
    "https://h/allowed/a:b@c;d=e,f~g!$&'()*+=-_.",
    "https://h/allowed/..x/x..",
    "https://h/allowed/...",
    "https://h/caf%C3%A9/%20x/",
    "https://xn--bcher-kva.example/allowed",
    "https://127.0.0.1:8443/allowed",
    "https://[::1]:443/allowed/",
    "https://[2001:db8::1]:8443/allowed",
    "https://under_score.example/a",
)


@pytest.mark.parametrize("url", AMBIGUOUS)
def test_a_url_that_readers_may_read_differently_is_covered_by_nothing(url: str) -> None:
    assert normal_url(url) in (None, "https://h")  # a fragment is no part of what is fetched
    held = grant({"net.fetch": ["**", "https://**", "https://h/**", "https://*/**"]})
    assert not held.allows("net.fetch", url) or normal_url(url) == "https://h"


@pytest.mark.parametrize("url", PLAIN)
@pytest.mark.parametrize("reader", READERS)
def test_a_url_that_may_be_covered_is_read_alike_by_every_client(
    url: str, reader: Callable[[str], Reading]
) -> None:
    assert by_us(url) == reader(url)


PIECES = st.sampled_from(
    [*"/.\\:@?#%;*ab \t", "//", "..", "%2e", "%2f", "%5C", "%41", "%25", "%", "é", "．", "[", "{"]
)


@given(
    scheme=st.sampled_from(["http", "https", "HTTPS"]),
    slashes=st.sampled_from(["://"] * 8 + [":/", ":///"]),
    host=st.sampled_from(["h", "H", "h.example", "h.", "127.0.0.1", "127.1", "[::1]", "u@h"]),
    port=st.sampled_from(["", "", ":80", ":443", ":8443", ":", ":080"]),
    rest=st.lists(PIECES, max_size=8).map("".join),
)
@example(scheme="https", slashes="://", host="h", port="", rest="/secret//../allowed/x")
def test_whatever_is_put_together_is_read_alike_or_covered_by_nothing(
    scheme: str, slashes: str, host: str, port: str, rest: str
) -> None:
    url = scheme + slashes + host + port + rest
    ours = by_us(url)
    if ours is not None:
        for reader in READERS:
            assert reader(url) == ours, reader.__name__


@pytest.fixture
def curl() -> str:
    found = shutil.which("curl")
    if found is None:
        pytest.skip("curl is not installed")
    return found


async def test_curl_asks_for_what_the_lease_was_asked_for(curl: str) -> None:
    asked: list[tuple[bytes, bytes]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        request, *fields = head.split(b"\r\n")
        named = dict(field.split(b": ", 1) for field in fields if field)
        asked.append((named[b"Host"], request.split(b" ")[1]))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        urls = [url for url in PLAIN if url.lower().startswith("http")]
        plain = ["http" + url[url.index("://") :] for url in urls]
        for url in plain:
            process = await asyncio.create_subprocess_exec(
                *(curl, "-gsS", "--noproxy", "*", "--connect-to", f"::127.0.0.1:{port}", url)
            )
            assert await process.wait() == 0, url
    for url, (host, target) in zip(plain, asked, strict=True):
        ours = by_us(url)
        assert ours is not None, url
        named, _, number = (
            host.decode().rpartition(":") if b"]" not in host[-1:] else (host.decode(), "", "")
        )
        if not number.isdigit():
            named, number = host.decode(), "80"
        read = unquote_to_bytes(target.partition(b"?")[0])
        assert ("http", named.strip("[]").lower(), int(number), read) == ours


@pytest.mark.parametrize(
    "path",
    ["", "..", "../x", "a/../..", "a/../../x", "./..", "/a\\..\\b", "/a\0b", "\\"],
)
def test_a_path_that_leaves_its_place_or_is_none_is_covered_by_nothing(path: str) -> None:
    held = grant({"fs.read": ["**", "/**", "*"]})
    assert not held.allows("fs.read", path)


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("//etc//passwd", "/etc/passwd"),
        ("///etc", "/etc"),
        ("/a/./b/", "/a/b"),
        ("/a/b/../c", "/a/c"),
        ("/../etc", "/etc"),
        ("/a/%2e%2e/b", "/a/%2e%2e/b"),  # a file system knows no escapes
        ("/a/...", "/a/..."),
        ("/A/b", "/A/b"),
        ("/a/b.", "/a/b."),
        ("/a/b\n", "/a/b\n"),
    ],
)
def test_a_path_is_held_to_the_patterns_as_the_file_system_reads_it(path: str, plain: str) -> None:
    assert normal_path(path) == plain


def names() -> Iterator[str]:
    yield from ("", " x", "x ", "x\n", "x\ty", "x\0", "x\x7fy", "x\u200by", "\u202exe", "x\u00a0y")
    yield from ("../x", "x/..", "x/../y", "./x", "x/./y", "x//y", "x/", "x\\y", "%2e%2e/x", "x%2fy")
    yield from ("ﬁle", "ｘ", "e\u0301", "\ud800")


@pytest.mark.parametrize("name", list(names()))
@pytest.mark.parametrize("namespace", ["tool.call", "model.use", "agent.delegate"])
def test_a_name_that_readers_may_read_differently_is_covered_by_nothing(
    namespace: str, name: str
) -> None:
    assert not grant({namespace: ["*", "**", "x*"]}).allows(namespace, name)


@pytest.mark.parametrize(
    "name",
    ["x", "fs.read", "a b", "/usr/bin/git", "anthropic/claude-5", "größe", "工具", "100%", "a:b@1"],
)
def test_a_plain_name_is_covered(name: str) -> None:
    assert normal_name(name) == name
    assert grant({"tool.call": ["*"]}).allows("tool.call", name)


async def test_a_job_is_refused_what_its_client_would_fetch_elsewhere(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        job.authorize("net.fetch", "https://h/allowed/x")
        with pytest.raises(PermissionDenied):
            job.authorize("net.fetch", "https://h/secret//../allowed/x")

    peer = await open_peer(runtime)
    _, frames = await peer.run("a", lease_request={"net.fetch": ["https://h/allowed/**"]})
    assert frames[-1]["type"] == "job.result"
