"""`arcp_client.transports`: each public name resolves, and brings only what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from arcp_client import transports


def _imported_by(statement: str, *modules: str) -> set[str]:
    code = f"import sys; {statement}; print(*(m for m in {modules!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_name_resolves() -> None:
    assert sorted(transports.__all__) == dir(transports)
    for name in transports.__all__:
        assert getattr(transports, name) is not None


def test_type_checkers_see_exactly_the_names_that_resolve() -> None:
    tree = ast.parse(Path(transports.__file__).read_text())
    [block] = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name for node in imports for alias in node.names} == set(transports.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = transports.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "statement",
    [
        "from arcp_client.transports import StdioConnector",
        "from arcp_client import Client, StdioConnector; Client(StdioConnector(['agent']))",
    ],
)
def test_a_child_process_needs_no_aiohttp(statement: str) -> None:
    assert not _imported_by(statement, "aiohttp")


def test_a_client_needs_no_server_of_aiohttp() -> None:
    loaded = _imported_by(
        "from arcp_client import Client; Client('ws://127.0.0.1:1/arcp')", "aiohttp", "aiohttp.web"
    )
    assert loaded == {"aiohttp"}
