"""What is this machine: who may come in without a token, and where a token may go, depend on it."""

from __future__ import annotations

import pytest

from arcp_client._hosts import is_loopback


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.example.org", False),
        ("", False),
    ],
)
def test_what_is_this_machine(host: str, ours: bool) -> None:
    assert is_loopback(host) is ours
