"""Requests of other machines, host names and sites, and with wrong tokens, are refused."""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr
from yarl import URL

from arcp_client import Client
from arcp_client._hosts import is_loopback
from arcp_client.web import TokenRequired, add_routes, serve
from arcp_client.web._dashboard import Dashboard
from arcp_client.web._http.security import HEADERS
from tests.unit.web.kit import JSON, SOON, Site, Tab, site

TOKEN = "correct-horse-battery-staple"


@pytest.fixture
async def locked(client: Client) -> AsyncIterator[Site]:
    async with site(client, token=TOKEN, allow_control=True) as served:
        yield served


def own_address() -> str:
    """An address of this machine that is not the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but the loopback")
        address = str(probe.getsockname()[0])
    if is_loopback(address):
        pytest.skip("this machine has no address but the loopback")
    return address


# ------------------------------------------------------------------------- other machines


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_without_a_token_it_listens_on_the_loopback_only(host: str) -> None:
    with pytest.raises(TokenRequired):
        serve(Client("ws://127.0.0.1:1/"), host)


@pytest.mark.parametrize("token", ["", "  ", SecretStr("")])
def test_an_empty_token_is_refused(token: str | SecretStr) -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        serve(Client("ws://127.0.0.1:1/"), "0.0.0.0", token=token)


async def test_without_a_token_other_machines_are_refused_wherever_it_listens(
    client: Client,
) -> None:
    app = web.Application()
    add_routes(app, client)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", 0).start()
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession() as http:
            for path in ("", "api/overview", "static/app.js"):
                url = f"http://{own_address()}:{port}/{path}"
                async with http.get(url, headers={"Host": "localhost"}) as response:
                    assert response.status == 403
                    assert (await response.json())["error"]["code"] == "LOOPBACK_ONLY"
            async with http.get(f"http://127.0.0.1:{port}/api/overview") as response:
                assert response.status == 200
    finally:
        await runner.cleanup()


async def test_with_a_token_other_machines_are_served(client: Client) -> None:
    async with serve(client, "0.0.0.0", token=TOKEN) as server, aiohttp.ClientSession() as http:
        url = f"http://{own_address()}:{server.port}/api/overview"
        async with http.get(url) as response:
            assert response.status == 401
        async with http.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
            assert response.status == 200


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Proto"]
)
async def test_without_a_token_requests_through_a_proxy_are_refused(
    dashboard: Site, header: str
) -> None:
    status, body = await dashboard.get("api/overview", **{header: "192.0.2.1"})
    assert (status, body["error"]["code"]) == (403, "LOOPBACK_ONLY")


# ------------------------------------------------------------------------- other names and sites


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "192.0.2.1:80", "a b", "0.0.0.0", "127.1", "."),
        *("[::1]evil.example", "evil[::1]", "evil.example:[::1]", "127.0.0.1%00", "[::1"),
        *("localhost@evil.example", "evil.example@localhost", "localhost/", "localhost:80:80"),
    ],
)
async def test_an_unknown_host_name_that_points_here_is_refused(dashboard: Site, host: str) -> None:
    for path in ("", "api/overview", "static/app.js", "api/none"):
        status, body = await dashboard.get(path, Host=host)
        assert status in (400, 403), path
        assert body["error"]["code"] in ("HOST_NOT_ALLOWED", "BAD_HOST")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "localhost.", "127.0.0.1:9", "[::1]:80", "[::1]"]
)
async def test_names_of_this_machine_are_not_refused(dashboard: Site, host: str) -> None:
    assert (await dashboard.get("api/overview", Host=host))[0] == 200


async def test_allowed_names_are_not_refused(client: Client) -> None:
    async with site(client, token=TOKEN, allowed_hosts=["Jobs.example"]) as served:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert (await served.get("api/overview", Host="jobs.example:443", **bearer))[0] == 200
        assert (await served.get("api/overview", Host="192.0.2.1", **bearer))[0] == 200
        assert (await served.get("api/overview", Host="other.example", **bearer))[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
async def test_other_sites_can_neither_read_nor_change_anything(
    dashboard: Site, headers: dict[str, str]
) -> None:
    body = {"agent": "echo", "input": 1, "idempotency_key": "k"}
    for status, found in (
        await dashboard.get("api/overview", **headers),
        await dashboard.get("api/overview/stream", **headers),
        await dashboard.post("api/jobs", body, **headers),
        await dashboard.post("api/jobs/x/cancel", {}, **headers),
        await dashboard.post("login", {"token": "x"}, **headers),
    ):
        assert (status, found["error"]["code"]) == (403, "CROSS_SITE")
    assert [job async for job in dashboard.client.jobs()] == []


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "https://", "null", "//"])
async def test_a_malformed_origin_counts_as_another_site(
    dashboard: Site, origin: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, found = await dashboard.post("login", {"token": "x"}, Origin=origin)
    assert (status, found["error"]["code"]) == (403, "CROSS_SITE")
    assert not [record for record in caplog.records if record.exc_info]


async def test_behind_a_proxy_that_changes_host_the_refusal_names_the_remedy_and_it_works(
    client: Client,
) -> None:
    """nginx sends the address that it connects to as Host, unless it is told otherwise."""
    seen = {"Origin": "https://jobs.example", "Sec-Fetch-Site": "same-origin"}
    async with site(client, token=TOKEN) as served:
        status, found = await served.post("login", {"token": TOKEN}, **seen)
        assert (status, found["error"]["code"]) == (403, "CROSS_SITE")
        assert "--allow-host" in found["error"]["remedy"]
        assert "forward the Host header" in found["error"]["remedy"]
    async with site(client, token=TOKEN, allowed_hosts=["jobs.example"]) as served:
        assert (await served.post("login", {"token": TOKEN}, **seen))[0] == 204
        assert (await served.get("api/overview", **seen))[0] == 200
        for other in ("https://other.example", "https://jobs.example.other.example"):
            assert (await served.post("login", {"token": TOKEN}, Origin=other))[0] == 403
        cross = {"Origin": "https://jobs.example", "Sec-Fetch-Site": "cross-site"}
        assert (await served.post("login", {"token": TOKEN}, **cross))[0] == 403


@pytest.mark.parametrize("host", ["http://jobs.example", "jobs.example:443", "*"])
def test_an_allowed_host_must_be_a_name(client: Client, host: str) -> None:
    with pytest.raises(ValueError, match="hosts: .* is not a host name such as"):
        serve(client, allowed_hosts=[host])


def test_the_former_name_of_allowed_hosts_works_with_a_warning(client: Client) -> None:
    with pytest.warns(DeprecationWarning, match="hosts= is now allowed_hosts="):
        serve(client, hosts=["jobs.example"])
    with (
        pytest.warns(DeprecationWarning, match="hosts= is now allowed_hosts="),
        pytest.raises(ValueError, match="allowed_hosts: .* is not a host name"),
    ):
        add_routes(web.Application(), client, hosts=["http://jobs.example"])


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP", "x"])
@pytest.mark.parametrize("own_server", [True, False], ids=["serve", "add_routes"])
async def test_a_compressed_body_is_refused_whether_or_not_it_can_be_read(
    client: Client, encoding: str, own_server: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        if own_server:
            server = await stack.enter_async_context(serve(client, token=TOKEN))
            url = URL(f"{server.url}login")
        else:
            url = (await stack.enter_async_context(site(client, token=TOKEN))).url("login")
        for body in (b"no gzip", gzip.compress(b'{"token":"x"}'), b""):
            headers = {**JSON, "Content-Encoding": encoding}
            async with http.post(url, data=body, headers=headers) as response:
                assert response.status in (400, 415), await response.text()
    # An application's own server refuses by itself what its aiohttp cannot decode, and says so.
    ours = [record for record in caplog.records if own_server or record.name[:4] == "arcp"]
    assert not [record for record in ours if record.exc_info]


async def test_a_body_that_breaks_http_is_refused_without_a_traceback(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(client, token=TOKEN) as server:
        for rest in (b"zz\r\nno chunk", b"4\r\n{}{}\r\n", b"4\r\n{}{}\r\nzz\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(
                b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            writer.write(rest)
            if rest.endswith(b"{}\r\n"):
                writer.close()  # in the middle of its body
            else:
                assert b" 400 " in await reader.readline()
                writer.close()
    assert not [record for record in caplog.records if record.exc_info]


async def test_the_dashboards_own_page_can(dashboard: Site) -> None:
    origin = str(dashboard.url("")).rstrip("/")
    own = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    body = {"agent": "echo", "input": 1, "idempotency_key": "k"}
    assert (await dashboard.post("api/jobs", body, **own))[0] == 201


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
)
async def test_a_body_that_a_form_of_another_site_could_send_is_refused(
    dashboard: Site, kind: str
) -> None:
    body = b'{"agent":"echo","idempotency_key":"k"}'
    status, found = await dashboard.post("api/jobs", body, **{"Content-Type": kind})
    assert (status, found["error"]["code"]) == (415, "JSON_REQUIRED")


# ------------------------------------------------------------------------- the token


async def test_before_the_login_only_the_page_itself_is_served(locked: Site) -> None:
    async with locked.http.get(locked.url("")) as response:
        assert response.status == 200
    body = {"agent": "echo", "input": 1, "idempotency_key": "k"}
    for status, found in (
        await locked.get("api/overview"),
        await locked.get("api/overview/stream"),
        await locked.get("api/jobs/x/stream"),
        await locked.get("api/jobs/x/transcript"),
        await locked.get("api/jobs/x/result"),
        await locked.get("api/nothing"),
        await locked.post("api/jobs", body),
        await locked.post("api/jobs/x/cancel", {}),
    ):
        assert (status, found["error"]["code"]) == (401, "LOGIN_REQUIRED")


async def test_the_login_cookie_is_hidden_from_scripts_and_not_sent_by_other_sites(
    locked: Site,
) -> None:
    url = locked.url("login")
    async with locked.http.post(url, json={"token": TOKEN}) as response:
        assert response.status == 204
        [cookie] = response.headers.getall("Set-Cookie")
    assert TOKEN not in cookie
    parts = [part.strip() for part in cookie.split(";")]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(parts)
    assert "Secure" not in parts  # plain HTTP: a browser would not send it back
    status, overview = await locked.get("api/overview")
    assert status == 200
    assert overview["login"] is True
    assert (await locked.post("logout", {}))[0] == 204
    assert (await locked.get("api/overview"))[0] == 401


async def test_two_dashboards_on_one_machine_do_not_share_a_login(client: Client) -> None:
    async with site(client, token=TOKEN) as one, site(client, token=TOKEN) as other:
        names = set()
        for served in (one, other):
            async with served.http.post(served.url("login"), json={"token": TOKEN}) as response:
                names.add(response.headers["Set-Cookie"].partition("=")[0])
        assert names == {f"arcp-client-{served.url('').port}" for served in (one, other)}


async def test_logging_out_ends_the_streams_of_that_login(locked: Site) -> None:
    await locked.post("login", {"token": TOKEN})
    job = await locked.client.submit("gated", "never")
    following = asyncio.create_task(locked.tab(job.id).follow())
    bearer = Tab(locked.http, locked.url(f"api/jobs/{job.id}/stream"))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as program:
        bearer.http = program
        staying = asyncio.create_task(bearer.follow())
        async with asyncio.timeout(SOON):
            while not bearer.timeline.numbers:
                await asyncio.sleep(0.01)
        await locked.post("logout", {})
        async with asyncio.timeout(SOON):
            assert (await following).end is None
        assert not staying.done()  # a program that knows the token stays
        await job.cancel()
        assert (await staying).end == "cancelled"


async def test_behind_a_proxy_with_tls_the_cookie_is_for_tls_only(locked: Site) -> None:
    headers = {"X-Forwarded-Proto": "https"}
    url = locked.url("login")
    async with locked.http.post(url, json={"token": TOKEN}, headers=headers) as response:
        assert "Secure" in response.headers["Set-Cookie"]


async def test_a_cookie_is_invalid_after_the_logout(locked: Site) -> None:
    async with locked.http.post(locked.url("login"), json={"token": TOKEN}) as response:
        cookie = response.headers["Set-Cookie"].partition(";")[0]
    await locked.post("logout", {})
    assert (await locked.get("api/overview", Cookie=cookie))[0] == 401


@pytest.mark.parametrize(
    "cookie",
    ["", "x", TOKEN, "a" * 4000, "; ;", '"', "%00"],
    ids=["", "x", "t", "l", "s", "q", "c"],
)
async def test_an_invented_cookie_is_refused(locked: Site, cookie: str) -> None:
    name = f"arcp-client-{locked.server.port}"
    status, found = await locked.get("api/overview", Cookie=f"{name}={cookie}")
    assert (status, found["error"]["code"]) == (401, "LOGIN_REQUIRED")

    # By the same name, the true one counts: it is the value that was refused.
    async with locked.http.post(locked.url("login"), json={"token": TOKEN}) as response:
        true = response.headers["Set-Cookie"].partition(";")[0]
    assert true.partition("=")[0] == name
    assert (await locked.get("api/overview", Cookie=true))[0] == 200


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "ü\ud800"])
async def test_a_wrong_token_is_refused(locked: Site, token: str) -> None:
    status, found = await locked.post("login", {"token": token})
    # A lone surrogate is no JSON, so that one is never compared.
    expected = (400, "INVALID_JSON") if "\ud800" in token else (401, "WRONG_TOKEN")
    assert (status, found["error"]["code"]) == expected
    assert (await locked.get("api/overview"))[0] == 401  # it is logged in by none of them
    bearer = {"Authorization": f"Bearer {token}"} if token.isascii() else {}
    status, found = await locked.get("api/overview", **bearer)
    code = "WRONG_TOKEN" if token and token.isascii() else "LOGIN_REQUIRED"
    assert (status, found["error"]["code"]) == (401, code)


async def test_the_token_is_shown_nowhere(locked: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await locked.post("login", {"token": TOKEN})
    await locked.post("login", {"token": f"wrong {TOKEN}"})
    shown = []
    for path in ("", "static/app.js", "api/overview", "api/jobs/none/result"):
        async with locked.http.get(locked.url(path)) as response:
            shown += [await response.text(), str(response.headers), str(response.url)]
    job = await locked.client.submit("echo", {"note": f"the token is {TOKEN}"})
    await job.result()
    timeline = await locked.tab(job.id).follow()
    shown += [str(timeline), caplog.text]
    assert TOKEN not in "".join(shown)
    assert "the token is" in str(timeline)


async def test_right_tokens_do_not_wait_for_wrong_ones(locked: Site) -> None:
    wrong = [asyncio.create_task(locked.post("login", {"token": "x"})) for _ in range(4)]
    async with asyncio.timeout(SOON):
        assert (await locked.post("login", {"token": TOKEN}))[0] == 204
        for status, _ in await asyncio.gather(*wrong):
            assert status == 401


# ------------------------------------------------------------------------- every answer


async def answers(served: Site) -> AsyncIterator[aiohttp.ClientResponse]:
    """One of each kind: pages, data, streams, and everything that can go wrong."""
    job = await served.client.submit("echo", 1)
    await job.result()
    for path in (
        "",
        "static/app.js",
        "static/app.css",
        "static/nothing.js",
        "static/%2e%2e%2froutes.py",
        "api/overview",
        "api/overview/stream",
        "api/nothing",
        "api/jobs/none/stream",
        f"api/jobs/{job.id}/stream",
        f"api/jobs/{job.id}/transcript",
        f"api/jobs/{job.id}/result",
        "login",
    ):
        async with served.http.get(served.url("").join(URL(path))) as response:
            yield response
    for method, path in (("DELETE", "api/jobs"), ("PUT", ""), ("OPTIONS", "api/overview")):
        async with served.http.request(method, served.url(path)) as response:
            assert response.status == 405
            yield response
    async with served.http.post(served.url("api/jobs"), data=b"{", headers=JSON) as response:
        assert response.status == 400
        yield response


async def test_every_response_has_the_security_headers(dashboard: Site) -> None:
    count = 0
    async for response in answers(dashboard):
        count += 1
        for name, value in HEADERS.items():
            assert response.headers[name] == value, (response.url, name)
        assert response.headers["Cache-Control"] in ("no-store", "no-cache")
        assert "Access-Control-Allow-Origin" not in response.headers
        if response.status >= 400:
            error = (await response.json())["error"]
            assert set(error) == {"code", "message", "remedy"}
            assert error["code"].isupper()
            assert error["message"]
    assert count == 17


@pytest.mark.parametrize(
    "path",
    [
        "static/",
        "static/..%2f__init__.py",
        "static/%2e%2e/__init__.py",
        "static/.hidden.js",
        "static/app.js/",
        "static//etc/passwd",
        "static/app.js%00",
        "static/con",
        "static/__init__.py",
    ],
)
async def test_only_files_of_the_page_are_served(dashboard: Site, path: str) -> None:
    url = f"{dashboard.url('')}{path}"
    async with dashboard.http.get(URL(url, encoded=True)) as response:
        assert response.status == 404
        assert "def " not in await response.text()


async def test_nothing_in_the_page_is_inline(dashboard: Site) -> None:
    async with dashboard.http.get(dashboard.url("")) as response:
        page = await response.text()
    assert "<style" not in page
    assert " style=" not in page
    assert not re.search(r"\son\w+=", page)
    assert page.count("<script") == page.count('<script type="module" src=')
    assert 'href="/' not in page
    assert 'src="/' not in page


async def test_a_separate_server_answers_every_url(client: Client) -> None:
    async with serve(client) as server, aiohttp.ClientSession() as http:
        for path in ("nothing", "favicon.ico", "a/b/c", "index.html", "api"):
            async with http.get(f"{server.url}{path}") as response:
                assert response.status == 404
                assert (await response.json())["error"]["code"] == "NOT_FOUND"
                assert response.headers["Content-Security-Policy"]
        async with http.request("PROPFIND", f"{server.url}nothing") as response:
            assert response.status == 404


async def test_a_prefix_moves_all_urls(client: Client) -> None:
    async with site(client, prefix="/jobs/live", token=TOKEN) as served:
        async with served.http.get(served.url("jobs/live"), allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (308, "live/")
        async with served.http.get(served.url("jobs/live")) as response:
            assert response.status == 200
            assert response.url == served.url("jobs/live/")
        url = served.url("jobs/live/login")
        async with served.http.post(url, json={"token": TOKEN}) as response:
            assert "Path=/jobs/live/" in response.headers["Set-Cookie"]
        assert (await served.get("jobs/live/api/overview"))[0] == 200
        status, found = await served.get("jobs/live/nothing/here")
        assert (status, found["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("prefix", ["jobs", "/", "/jobs/", "/{x}", "//a", "/a b"])
def test_a_prefix_must_be_a_path(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        add_routes(web.Application(), Client("ws://127.0.0.1:1/"), prefix=prefix)


async def test_an_internal_error_is_answered_without_details(
    dashboard: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Any) -> Any:
        raise RuntimeError("the cause is a secret")

    monkeypatch.setattr(Dashboard, "_overview", broken)
    async with dashboard.http.get(dashboard.url("api/overview")) as response:
        assert response.status == 500
        assert response.headers["Content-Security-Policy"]
        text = await response.text()
    assert "INTERNAL_ERROR" in text
    assert "secret" not in text
    assert "the cause is a secret" in caplog.text
    caplog.clear()
