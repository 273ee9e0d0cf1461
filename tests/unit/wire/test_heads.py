"""The head of an unreadable frame helps who reads the log, and never shows a secret."""

from __future__ import annotations

import json

import pytest

from arcp_client._wire.codec import decode, head_of
from tests.unit.wire.frames import CANARY, bad, event_frame, frame

HELLO = frame(
    "session.hello",
    {
        "client": {"name": "c", "version": "1"},
        "auth": {"scheme": "bearer", "token": CANARY},
        "resume": {"resume_token": CANARY, "token": CANARY},
        "resume_token": CANARY,
    },
)
WELCOME = frame("session.welcome", {"resume_token": CANARY})
CREDENTIALS = frame("job.accepted", {"credentials": [{"id": "c", "value": CANARY}]})
ROTATED = event_frame("status", {"phase": "credential_rotated", "id": "c", "value": CANARY})
SHORT = json.dumps({"token": CANARY, "value": CANARY, "auth": CANARY}).encode()


@pytest.mark.parametrize("data", [HELLO, WELCOME, CREDENTIALS, ROTATED, SHORT])
def test_no_piece_of_a_frame_shows_a_secret(data: bytes) -> None:
    """A frame may be cut anywhere, and its tail may be taken for a frame."""
    for start in range(len(data)):
        for piece in (data[start:], data[start:] + b"}", b"{" + data[start:]):
            assert CANARY not in head_of(piece), piece


@pytest.mark.parametrize("data", [HELLO, WELCOME, CREDENTIALS, ROTATED, SHORT])
def test_no_report_of_a_frame_that_was_cut_or_damaged_shows_a_secret(data: bytes) -> None:
    for cut in range(0, len(data), 3):
        for damaged in (
            data[:cut],
            data[:cut] + b"\xff" + data[cut:],
            data[:cut] + data[cut + 1 :],
        ):
            read = decode(damaged)
            shown = repr(read)
            error = getattr(read, "error", None)
            if error is not None:
                shown += f"{error!r}{error}{error.head}"
            assert CANARY not in shown


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"\\u0074oken":"%b"}', id="an escaped name"),
        pytest.param(b'{"TOKEN":"%b"}', id="upper case"),
        pytest.param(b'{"api_key":"%b"}', id="another name"),
        pytest.param(b'{"%b":1}', id="the secret is a name"),
        pytest.param(b'{"x":["%b"]}', id="in an array"),
        pytest.param(b'{"type":["%b"]}', id="in an array under a harmless name"),
        pytest.param(b'{"type":{"x":"%b"}}', id="in an object under a harmless name"),
        pytest.param(b'{"id" "%b"}', id="no colon"),
        pytest.param(b"{'token':'%b'}", id="single quotes"),
        pytest.param(b"{token:%b}", id="no quotes"),
        pytest.param(b'  {"token":"%b', id="cut off"),
        pytest.param(b'\xef\xbb\xbf{"token":"%b"}', id="a byte order mark"),
        pytest.param(b'{"token":"\\"%b"}', id="behind an escaped quote"),
        pytest.param(b'["%b"]', id="an array"),
        pytest.param(b'"%b"', id="a string"),
        pytest.param(b'%b","resume_window_sec":600}', id="the end of a frame"),
        pytest.param(b"ARCP_TOKEN=%b", id="an environment variable"),
        pytest.param(b"Authorization: Bearer %b", id="a header"),
        pytest.param(b"Using password %b", id="a log line"),
        pytest.param(b"connected as %b", id="a log line without a hint"),
        pytest.param(b"\x00\x01%b", id="binary"),
    ],
)
def test_secrets_are_withheld_wherever_they_stand(data: bytes) -> None:
    whole = data % CANARY.encode()

    assert CANARY not in head_of(whole)
    assert CANARY not in head_of(whole.decode("latin-1").encode("utf-16"))
    assert CANARY not in head_of(whole.decode("latin-1").encode("utf-16-le")).replace("\\x00", "")


def test_a_head_says_what_kind_of_frame_it_was() -> None:
    read = bad(decode(event_frame("metric", {"name": "n", "value": float("nan")})))

    assert '"type": "job.event"' in read.error.head
    assert '"session_id": "sess_1"' in read.error.head


@pytest.mark.parametrize(
    "line",
    [
        b"Using password swordfish",
        b"BEARER swordfish",
        b"api-key: swordfish",
        b"a swordfish secret",
    ],
)
def test_a_line_with_a_telltale_word_is_withheld_as_a_whole(line: bytes) -> None:
    assert head_of(line) == "<withheld: may hold a secret>"


@pytest.mark.parametrize(
    ("data", "head"),
    [
        (b"", ""),
        (b"Starting server on port 8080", "Starting server on port 8080"),
        (b"v2026.05.13-rc1 ready", "*** ready"),
        (b"Traceback (most recent call last):\n", "Traceback (most recent call last):\\n"),
        (b"NaN", "NaN"),
        (b"[[[[", "[[[["),
        (
            b'{"type":"session.ping","payload":{"nonce":"n","at":1.5,"ok":true,"no":null}}',
            '{"type":"session.ping","payload":{"***":"***","***":1.5,"***":true,"***":null}}',
        ),
        (b'{"id":"a b"}', '{"id":"***"}'),
        (b'{"id":"\x1b[31m"}', '{"id":"***"}'),
        ('{"id":"ü"}'.encode(), '{"id":"\\xfc"}'),
        (b'{"n":%b}' % (b"7" * 40), '{"***":***}'),
        (b'{"a\\', '{"***"***'),
    ],
)
def test_heads(data: bytes, head: str) -> None:
    assert head_of(data) == head


def test_a_head_is_one_short_line_of_ascii() -> None:
    for data in (b"\xff" * 10_000, b'{"' + b"\x00" * 10_000, "{ü".encode() * 5000, b"\n" * 500):
        head = head_of(data)
        assert head.isascii()
        assert head.isprintable()
        assert len(head) <= 160
