"""The dashboard under ASGI: the routes, checks and limits are those under aiohttp."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from arcp_client import Client
from arcp_client.web import AsgiDashboard, asgi_app
from arcp_client.web._feeds.event_stream import OpenStreams
from arcp_client.web._http.security import HEADERS
from tests.unit.asgi_kit import SOON, Answer, Request, get, headers, lifespan, scope
from tests.unit.web.kit import Gates, Parser, Timeline


def post(app: Any, path: str, *body: bytes, **more: Any) -> Any:
    sent = headers(content_type="application/json", content_length=str(len(b"".join(body))))
    return Request(app, scope("http", path, method="POST", headers=sent, **more), *body).run()


@pytest.fixture
def app(client: Client) -> AsgiDashboard:
    return asgi_app(client, allow_control=True)


def timeline(answer: Answer) -> Timeline:
    found = Timeline()
    for frame in Parser().feed(answer.body):
        found.take(frame)
    return found


async def test_the_page_and_its_files_have_the_security_headers(app: AsgiDashboard) -> None:
    async with lifespan(app):
        for path, kind in (
            ("/", "text/html; charset=utf-8"),
            ("/static/app.js", "text/javascript; charset=utf-8"),
        ):
            answer = await get(app, path)
            assert (answer.status, answer.headers["content-type"]) == (200, kind)
            assert len(answer.body) == int(answer.headers["content-length"])
            for name, value in HEADERS.items():
                if name != "Server":  # the ASGI server sends its own
                    assert answer.headers[name.lower()] == value
            assert not {"server", "date", "connection"} & set(answer.headers)
        same = headers(if_none_match=answer.headers["etag"])
        assert (await get(app, path, headers=same)).status == 304


async def test_a_job_is_submitted_and_streamed_to_its_end(
    app: AsgiDashboard, client: Client
) -> None:
    async with lifespan(app):
        body = json.dumps({"agent": "say", "input": {"lines": 3000}, "idempotency_key": "k"})
        answer = await post(app, "/api/jobs", body[:20].encode(), body[20:].encode())
        assert answer.status == 201
        job_id = json.loads(answer.body)["job_id"]
        streamed = await get(app, f"/api/jobs/{job_id}/stream")
        assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert streamed.complete
        found = timeline(streamed)
        assert found.end == "success"
        assert found.numbers == list(range(1, len(found.numbers) + 1))
        assert len(found.numbers) >= 3001
        listed = json.loads((await get(app, "/api/overview")).body)
        assert [row["job_id"] for row in listed["jobs"]] == [job_id]
        saved = await get(app, f"/api/jobs/{job_id}/transcript")
        assert saved.complete
        assert saved.body.count(b"\n") > 3000


async def test_a_body_without_a_length_is_read_in_chunks(app: AsgiDashboard) -> None:
    """As under HTTP/2, or with chunked transfer coding."""
    async with lifespan(app):
        pieces = [b'{"agent":"echo",', b"", b'"input":1,', b'"idempotency_key":"k"}']
        made = scope(
            "http", "/api/jobs", method="POST", headers=headers(content_type="application/json")
        )
        assert (await Request(app, made, *pieces).run()).status == 201


async def test_a_mounted_dashboard_is_served_below_its_path(client: Client) -> None:
    app = asgi_app(client, token="the-token")
    for root in ("/tools/dash", "/a b"):
        quoted = root.replace(" ", "%20").encode()
        at: dict[str, Any] = {"root_path": root}
        answer = await get(app, f"{root}/", raw_path=quoted + b"/", **at)
        assert answer.status == 200
        assert b"<!doctype html>" in answer.body.lower()
        answer = await get(app, root, raw_path=quoted, **at)
        assert (answer.status, answer.headers["location"]) == (308, f"{root.rpartition('/')[2]}/")
        answer = await get(app, f"{root}/static/app.js", raw_path=quoted + b"/static/app.js", **at)
        assert answer.status == 200
        answer = await post(
            app,
            f"{root}/login",
            b'{"token":"the-token"}',
            **(at | {"raw_path": quoted + b"/login"}),
        )
        assert answer.status == 204
        cookie = answer.headers["set-cookie"]
        assert "Path" not in cookie  # the browser takes it from the URL of the login
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
    await app.close()


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"headers": headers(host="evil.example")}, 403, "HOST_NOT_ALLOWED"),
        ({"headers": []}, 400, None),
        ({"headers": [*headers(), (b"host", b"localhost")]}, 400, None),
        ({"headers": headers(origin="https://evil.example")}, 403, "CROSS_SITE"),
        ({"headers": headers(sec_fetch_site="cross-site")}, 403, "CROSS_SITE"),
        ({"headers": headers(x_forwarded_for="1.2.3.4")}, 403, "LOOPBACK_ONLY"),
        ({"client": ("192.0.2.7", 1234)}, 403, "LOOPBACK_ONLY"),
        ({"client": None}, 403, "LOOPBACK_ONLY"),
        ({"method": "DELETE"}, 405, "METHOD_NOT_ALLOWED"),
        ({"path": "/api/none", "raw_path": b"/api/none"}, 404, "NOT_FOUND"),
    ],
    ids=str,
)
async def test_requests_are_checked_as_under_aiohttp(
    app: AsgiDashboard, change: dict[str, Any], status: int, code: str | None
) -> None:
    made = scope("http", "/api/overview") | change
    answer = await Request(app, made).run()
    assert answer.status == status
    assert answer.complete
    if code is not None:
        assert json.loads(answer.body)["error"]["code"] == code
    await app.close()


async def test_a_unix_socket_is_this_machine(app: AsgiDashboard) -> None:
    answer = await get(app, "/api/overview", client=None, server=("/run/web.sock", None))
    assert answer.status == 200
    await app.close()


@pytest.mark.parametrize(
    "change",
    [
        {"raw_path": b"/a b"},
        {"raw_path": b"/a\r\nX: y"},
        {"query_string": b"a\nb"},
        {"headers": [*headers(), (b"x-a", b"b\r\nx-c: d")]},
        {"headers": [*headers(), (b"x-a", b"b\0")]},
    ],
    ids=str,
)
async def test_what_cannot_be_http_is_refused(app: AsgiDashboard, change: Any) -> None:
    answer = await Request(app, scope("http", "/") | change).run()
    assert answer.status == 400
    await app.close()


async def test_headers_of_the_connection_end_at_the_server(app: AsgiDashboard) -> None:
    sent = headers(
        connection="keep-alive, upgrade",
        upgrade="websocket",
        transfer_encoding="chunked",
        expect="100-continue",
        te="trailers",
        keep_alive="timeout=5",
    )
    answer = await get(app, "/", headers=sent)
    assert (answer.status, answer.complete) == (200, True)
    await app.close()


async def test_a_head_request_has_no_body(app: AsgiDashboard, client: Client, gates: Gates) -> None:
    job = await client.submit("gated", "one")
    for path in ("/", f"/api/jobs/{job.id}/stream"):
        answer = await get(app, path, method="HEAD")
        assert (answer.body, answer.complete) == (b"", True)
    gates["one"].set()
    await job.result()
    await app.close()


async def test_a_body_that_is_too_large_is_refused(app: AsgiDashboard) -> None:
    answer = await post(app, "/api/jobs", *[b"x" * 65536] * 17)
    assert answer.status == 413
    await app.close()


async def test_a_client_that_disconnects_frees_its_place(
    app: AsgiDashboard, client: Client, gates: Gates
) -> None:
    job = await client.submit("gated", "one")
    request = Request(app, scope("http", f"/api/jobs/{job.id}/stream"))
    running = asyncio.create_task(request.run())
    await request.answer.until(b"event: events")
    streams = OpenStreams.of(app._app)
    assert len(streams) == 1
    request.gone.set()
    async with asyncio.timeout(SOON):
        await running
        while len(streams):
            await asyncio.sleep(0.001)
    assert not request.answer.complete
    gates["one"].set()
    await job.result()
    await app.close()


async def test_a_client_that_does_not_read_holds_back_aiohttp_and_is_disconnected(
    app: AsgiDashboard, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client.web._feeds.event_stream._WRITE_TIMEOUT", 0.2)
    job = await client.submit("say", {"lines": 3000, "size": 1000})
    await job.result()
    request = Request(app, scope("http", f"/api/jobs/{job.id}/stream"))
    request.reading.clear()
    await request.run()  # the application gives the connection up
    assert request.answer.body == b""
    assert len(OpenStreams.of(app._app)) == 0
    await app.close()


async def test_the_number_of_streams_is_limited(
    app: AsgiDashboard, client: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenStreams, "full", property(lambda streams: len(streams) >= 1))
    job = await client.submit("gated", "one")
    request = Request(app, scope("http", f"/api/jobs/{job.id}/stream"))
    running = asyncio.create_task(request.run())
    await request.answer.until(b"event: events")
    answer = await get(app, f"/api/jobs/{job.id}/stream")
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    gates["one"].set()
    await running
    assert request.answer.complete
    await app.close()


@pytest.mark.parametrize("how", ["lifespan", "close", "client"])
async def test_the_end_of_the_server_ends_the_streams(
    url: str, other: Client, gates: Gates, how: str
) -> None:
    client = Client(url, token="t")
    await client.connect()
    app = asgi_app(client)
    job = await other.submit("gated", "one")
    request = Request(app, scope("http", f"/api/jobs/{job.id}/stream"))
    async with asyncio.timeout(SOON):
        async with lifespan(app):
            running = asyncio.create_task(request.run())
            await request.answer.until(b"event: events")
            if how == "close":
                await app.close()
            elif how == "client":
                await client.close()
            if how != "lifespan":
                await running
        await running
    assert b"event: end" not in request.answer.body
    assert (await get(app, "/")).status == 503
    await client.close()
    gates["one"].set()
    await job.result()


async def test_a_mounted_dashboard_ends_with_its_client(url: str) -> None:
    async with Client(url, token="t") as client:
        app = asgi_app(client)
        assert (await get(app, "/")).status == 200
    async with asyncio.timeout(SOON):
        while app._runner is not None:
            await asyncio.sleep(0)


async def test_other_scopes_are_refused(app: AsgiDashboard) -> None:
    from tests.unit.asgi_kit import websocket

    async with websocket(app) as socket:
        assert (await socket.next())["type"] == "websocket.close"
    with pytest.raises(ValueError, match="smtp"):
        await app({"type": "smtp"}, socket.to_app.get, socket.from_app.put)


def test_an_argument_of_a_wrong_type_is_refused(client: Client) -> None:
    with pytest.raises(TypeError, match="client"):
        asgi_app("client")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="token"):
        asgi_app(client, token="")
