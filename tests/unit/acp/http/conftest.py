"""Runs the tests of links over both versions of HTTP."""

from __future__ import annotations

import pytest

from arcp_client.acp import HttpConnector
from tests.unit.acp.http import kit

_KINDS = {
    "test_link": ["", "cut"],
    "test_broken_streams": ["", "cut", "reset"],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kinds = _KINDS.get(metafunc.module.__name__.rpartition(".")[2])
    if kinds is not None:
        names = [f"http2-{kind}" if kind else "http1" for kind in kinds]
        metafunc.parametrize("version", kinds, ids=names, indirect=True)


@pytest.fixture(autouse=True)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the server speaks: HTTP/1.1, or HTTP/2 without TLS and with what a cut is there."""
    kind: str = getattr(request, "param", "")
    if kind:
        pytest.importorskip("h2")
        monkeypatch.setattr(kit, "HTTP2", kind)
        monkeypatch.setitem(HttpConnector.__init__.__kwdefaults__, "http2", True)
    return kind
