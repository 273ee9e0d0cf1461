"""What is secret by its name, its form or its value is masked; all else is left as it is."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from arcp_client.transcripts import MASK, Scrubber

CANARY = "canary-7Zq/4+x"

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars | st.just(CANARY),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(CANARY), inner),
    max_leaves=20,
)
NAMES = [
    "password", "Passwd", "db_password", "DB_PASSWORD", "secret", "clientSecret", "client-secret",
    "api_key", "apiKey", "X-Api-Key", "APIKey", "authorization", "Proxy-Authorization", "cookie",
    "Set-Cookie", "private_key", "aws_secret_access_key", "accessKey", "token", "access_token",
    "refreshToken", "ARCP_TOKEN", "resume_token", "x-auth-token", "auth", "passphrase", "jwt",
    "PassWord", "APIkey", "PGPASSWORD", "clientsecret", "authtoken", "ssh_key",
    "x" * 191 + "_password",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["c4n4ry", ["c4n4ry"], {"of": {"any": "c4n4ry"}}])
def test_what_stands_under_a_secret_name_is_masked(name: str, value: Any) -> None:
    shown = json.dumps(Scrubber()([{"args": {name: value}}]))
    assert "c4n4ry" not in shown
    assert name in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "plain",
    [
        {"max_tokens": 4096},
        {"tokens": 12, "input_tokens": [1, 2], "token_count": "12"},
        {"token_type": "bearer", "token_url": "https://host/token", "password_file": "/run/x"},
        {"key": "k", "keys": ["a"], "monkey": "x", "keyboard": "y", "author": "z", "compass": "n"},
        {"password": None, "token": None, "secret": False, "auth_required": True},
        "Basic training for a bearer of tokens; see the key, and the secretary's passage.",
        "max_tokens: 4096, tokens=12",
        "https://host:8080/path?x=1&y=a:b@c",
        {"name": "region", "value": "x", "key": "k"},
        {"name": "max_tokens", "value": 1},
        [["Accept", "x"], ["Host", "y"]],
        ["token", "x", "y"],
        {"session_id": "s", "api_version": "v", "foreign_key": "f", 1: "n"},
        ["--password", 5, "x"],
        {"credentials": None, "credential": 3},
        "a <key>k</key> and a <b>word</b>, x => y",
        "a mail from me@host, a time 12:30:00, C:\\path",
        "",
    ],
)
def test_what_is_not_secret_is_left_as_it_is(plain: Any) -> None:
    assert Scrubber([CANARY])(plain) == plain


@pytest.mark.parametrize(
    "text",
    [
        "password=c4n4ry",
        "PASSWORD : c4n4ry",
        "export ARCP_TOKEN=c4n4ry && ls",
        '{"user": "me", "password": "a c4n4ry b"}',
        r"{\"password\": \"a c4n4ry b\"}",
        "x=y token=c4n4ry",
        "url=postgres://me:c4n4ry@host/db",
        "redis://:c4n4ry@host",
        "curl -H 'Authorization: Bearer c4n4ry-c4n4ry' https://host",
        "Authorization: Digest username=me, response=c4n4ry",
        "Cookie: theme=dark; session=c4n4ry",
        "login --password c4n4ry --user me",
        "{:password => 'c4n4ry', user: 1}",
        "password := c4n4ry",
        "<server><password>c4n4ry</password></server>",
        '<add><api-key type="x">\n c4n4ry\n</api-key></add>',
        "https://host/?a=1&api_key=c4n4ry#f",
        "https://bucket/x?X-Amz-Signature=c4n4ry&a=1",
        "https://host/back?code=c4n4ry",
        "https://host/x?sv=1&sig=c4n4ry",
        "https://host/x?key=c4n4ry",
        "bearer c4n4ry.c4n4ry",
        "Basic " + base64.b64encode(b"me:c4n4ry").decode(),
        "Basic " + base64.b64encode(b"me:c4n4ry!").decode().rstrip("="),
        "ba\N{LATIN SMALL LETTER LONG S}ic " + base64.b64encode(b"me:c4n4ry").decode(),
        "-----BEGIN RSA PRIVATE KEY-----\nc4n4ry\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nc4n4ry (cut",
        "sk-c4n4ryc4n4ryc4n4ry",
        "ghp_c4n4ryc4n4ryc4n4ryc4n4ry",
        "eyJhbGciOiJI.c4n4ryc4n4ry.c4n4ry",
    ],
)
def test_secrets_in_texts_are_masked(text: str) -> None:
    shown = Scrubber()(text)
    assert "c4n4ry" not in shown
    assert base64.b64encode(b"me:c4n4ry").decode()[:11] not in shown
    assert MASK in shown


def test_an_argument_list_is_read_as_one() -> None:
    found = Scrubber()(["login", "--password", "c4n4ry", "--user", "me"])
    assert found == ["login", "--password", MASK, "--user", "me"]


@pytest.mark.parametrize(
    "given",
    [
        {"env": [{"name": "DB_PASSWORD", "value": "c4n4ry"}]},
        {"headers": [["Accept", "x"], ["X-Api-Key", "c4n4ry"]]},
        [("authorization", ["c4n4ry"])],
        {"name": "n", "key": "secret", "values": ["c4n4ry"]},
        {"name": "access_token", "value": {"of": "c4n4ry"}},
    ],
    ids=str,
)
def test_what_stands_beside_a_secret_name_is_masked(given: Any) -> None:
    shown = json.dumps(Scrubber()(given))
    assert "c4n4ry" not in shown
    assert MASK in shown


def test_a_credential_keeps_what_says_which_one_it_is() -> None:
    given = {
        "credentials": [
            {"id": "c1", "scheme": "bearer", "value": "c4n4ry", "endpoint": "https://host", "n": 1}
        ],
        "credential": "c4n4ry",
        "credential_ids": ["c1"],
    }
    assert Scrubber()(given) == {
        "credentials": [
            {"id": "c1", "scheme": "bearer", "value": MASK, "endpoint": "https://host", "n": MASK}
        ],
        "credential": MASK,
        "credential_ids": ["c1"],
    }


def test_further_names_can_be_given() -> None:
    scrubber = Scrubber(names=["Patient-Name"])
    assert scrubber({"patientName": "x", "patient": "y"}) == {"patientName": MASK, "patient": "y"}
    assert scrubber("patient_name=x") == f"patient_name={MASK}"


# ------------------------------------------------------------------------- known values


@given(values)
def test_a_known_value_is_nowhere_left(value: Any) -> None:
    shown = Scrubber([SecretStr(CANARY)])(value)
    assert CANARY not in json.dumps(shown, ensure_ascii=False)


@given(st.binary(max_size=7), st.binary(max_size=7))
def test_a_known_value_is_found_in_base64_and_in_urls(before: bytes, after: bytes) -> None:
    scrubber = Scrubber([CANARY])
    encoded = base64.b64encode(before + CANARY.encode() + after).decode()
    shown = scrubber(f"x {encoded} y")
    assert shown != f"x {encoded} y"
    assert MASK in shown
    assert quote(CANARY, safe="") not in scrubber(f"https://host/{quote(CANARY, safe='')}")


def test_a_known_value_in_a_name_is_masked_and_no_field_is_lost() -> None:
    found = Scrubber(["alpha-wxyz", "beta-wxyz"])({"alpha-wxyz": 1, "beta-wxyz": 2})
    assert found == {MASK: 1, f"{MASK} (2)": 2}


def test_a_known_value_in_base64_is_masked_from_its_first_character_on() -> None:
    encoded = base64.b64encode(CANARY.encode()).decode()
    assert Scrubber([CANARY])(encoded).startswith(MASK)


def test_a_known_value_that_begins_with_another_one_is_masked_as_a_whole() -> None:
    for known in (["alpha", "alpha-beta"], ["alpha-beta", "alpha"]):
        assert Scrubber(known)("alpha-beta, alpha") == f"{MASK}, {MASK}"


def test_a_value_of_four_characters_is_masked_inside_words_too() -> None:
    assert Scrubber(["abcd"])("abcd xabcdx") == f"{MASK} x{MASK}x"


def test_a_short_value_is_masked_where_it_stands_alone() -> None:
    assert Scrubber(["abc", ""])("abc abcd, abc.") == f"{MASK} abcd, {MASK}."


# ------------------------------------------------------------------------- in general


@given(values)
def test_what_is_given_is_never_changed(value: Any) -> None:
    before = copy.deepcopy(value)
    Scrubber([CANARY])({"password": value, "other": value})
    assert value == before


@given(values)
def test_once_is_enough(value: Any) -> None:
    scrubber = Scrubber([CANARY])
    once = scrubber(value)
    assert scrubber(once) == once


@given(st.text(alphabet="ab\"'\\:= \n-?&;@/passwordtoken{}", max_size=200))
def test_a_known_secret_is_masked_in_any_text(text: str) -> None:
    scrubber = Scrubber([CANARY])
    shown = scrubber.text(f"{text}{CANARY}{text}")
    assert CANARY not in shown
    assert MASK in shown
    assert scrubber.text(shown) == shown


def test_what_is_too_deep_to_be_looked_at_is_masked() -> None:
    deep: Any = CANARY
    for _ in range(100_000):
        deep = [deep]
    shown: Any = Scrubber([CANARY])(deep)
    while isinstance(shown, list):
        shown = shown[0]
    assert shown == MASK
    assert CANARY not in str(Scrubber()({"credentials": [[{"a": [{"value": CANARY}]}]]}))


NESTS: dict[str, Callable[[Any], Any]] = {
    "dicts": lambda inner: {"a": inner},
    "pairs": lambda inner: [["a", inner]],
    "lists of tokens": lambda inner: {"token": [inner]},
    "tokens": lambda inner: [inner, 1],
    "credentials": lambda inner: {"credentials": inner},
    "lists of credentials": lambda inner: {"credentials": [inner]},
    "public fields of credentials": lambda inner: {"credentials": {"id": inner}},
}


@pytest.mark.parametrize("of", NESTS)
@pytest.mark.parametrize("under", ["x", "token", "credentials"])
def test_what_is_too_deep_in_any_kind_of_value_is_masked(of: str, under: str) -> None:
    deep: Any = CANARY
    for _ in range(2_000):
        deep = NESTS[of](deep)
    shown = json.dumps(Scrubber()({under: deep}))
    assert CANARY not in shown
    assert MASK in shown


HOSTILE = [
    "eyJ", "eyJaaaaaaaaaa.", "a=", 'password="', 'aa:"', r"aa:\"", "://", "://a:", "bearer ",
    "basic ", "-----BEGIN ", "?a=", "token token", "--password ", "a-", "\\", "sk-", "password: ",
    "cookie:", "'\"", "a", "<password>", "<password x", "aa: ", "password=\\",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_more_than_its_length_in_time(piece: str) -> None:
    """With a time that grew with the square of the length, this would take minutes."""
    text = piece * (200_000 // len(piece))
    for whole in (text, f"password=://{text}", f"token: '{text}", f'{text}"'):
        assert isinstance(Scrubber([CANARY]).text(whole), str)
