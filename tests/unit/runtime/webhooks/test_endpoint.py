"""The arguments of a `Webhook`, and its signatures."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from arcp_client.runtime import Runtime, Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD8ILPZIo2"


def test_the_signature_is_that_of_the_published_example() -> None:
    hook = Webhook("https://example.com/", secret=SECRET)
    found = hook.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_each_secret_signs() -> None:
    now = int(datetime.now(UTC).timestamp())
    hook = Webhook("https://example.com/", secret=(SECRET, SecretStr(OTHER)))
    headers = {
        "webhook-id": "id",
        "webhook-timestamp": str(now),
        "webhook-signature": hook.signature("id", now, b"{}"),
    }
    for secret in (SECRET, OTHER):
        Verifier(secret).verify(b"{}", headers)
    with pytest.raises(WebhookVerificationError):
        Verifier("whsec_" + "A" * 32).verify(b"{}", headers)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "example.com/hook",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://user:s3cr3t@example.com/",
        "https://example.com:99999/",
        "https://example.com/a b",
        "https://example.com/\n",
        "http://example.com/",
        "http://10.0.0.1/",
        "http://127.0.0.1.example.com/",
        "http://127.0.0.1@example.com/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://[::ffff:10.0.0.1]/",
        "http://localhost.example.com/",
        "",
    ],
)
def test_a_url_that_must_not_be_called_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="webhook") as refusal:
        Webhook(url, secret=SECRET)
    assert "s3cr3t" not in str(refusal.value)
    assert "passwd" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hook?x=1",
        "https://10.0.0.1:8443/",
        "http://127.0.0.1:8000/",
        "http://localhost/",
        "http://[::1]:8000/",
    ],
)
def test_a_url_over_tls_or_of_this_machine_is_accepted(url: str) -> None:
    assert str(Webhook(url, secret=SECRET).url) == url


def test_plain_http_to_other_hosts_must_be_allowed() -> None:
    assert Webhook("http://receiver.internal/", secret=SECRET, allow_http=True)


@pytest.mark.parametrize(
    "secret",
    [
        "plain-secret-value",
        "whsec_",
        "whsec_c2hvcnQ=",
        "whsec_" + "A" * 200,
        "whsec_not/base64!not/base64!not/base64!",
        SECRET.removeprefix("whsec_"),
        (),
        (SECRET,) * 9,
        (SECRET, "plain-secret-value"),
    ],
)
def test_a_weak_or_malformed_secret_is_refused_without_showing_it(secret: Any) -> None:
    with pytest.raises(ValueError, match="webhook") as refusal:
        Webhook("https://example.com/", secret=secret)
    assert "plain-secret" not in str(refusal.value)
    assert "base64!" not in str(refusal.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"events": ["job.started"]},
        {"events": []},
        {"timeout": 0},
        {"give_up": -1},
    ],
)
def test_an_invalid_value_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each message names its argument
        Webhook("https://example.com/", secret=SECRET, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"events": "job.ended"},
        {"timeout": "1"},
        {"wait": 3},
        {"allow_http": 1},
        {"secret": 5},
        {"secret": b"whsec_"},
        {"secret": None},
    ],
)
def test_a_value_of_a_wrong_type_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Webhook("https://example.com/", **{"secret": SECRET, **wrong})
    with pytest.raises(TypeError):
        Webhook(5, secret=SECRET)  # type: ignore[arg-type]


def test_two_webhooks_of_one_runtime_have_different_urls() -> None:
    hook = Webhook("https://example.com/", secret=SECRET)
    with pytest.raises(ValueError, match="different URLs"):
        Runtime(webhooks=[hook, hook])
    with pytest.raises(TypeError, match="list of Webhooks"):
        Runtime(webhooks=hook)  # type: ignore[arg-type]
