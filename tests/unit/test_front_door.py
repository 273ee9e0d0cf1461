"""The front door: every public name, nothing else, each resolved when it is first used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import arcp_client

SOURCE = Path(arcp_client.__file__)


def test_all_is_sorted_and_every_name_in_it_resolves() -> None:
    assert arcp_client.__all__ == sorted(arcp_client.__all__)
    for name in arcp_client.__all__:
        assert getattr(arcp_client, name) is not None
    assert dir(arcp_client) == arcp_client.__all__


def test_every_public_name_has_a_docstring() -> None:
    for name in arcp_client.__all__:
        if name != "__version__":
            assert getattr(arcp_client, name).__doc__, name


def test_type_checkers_see_exactly_the_names_that_resolve() -> None:
    tree = ast.parse(SOURCE.read_text())
    [block] = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen = {alias.name for node in block.body for alias in node.names}  # type: ignore[attr-defined]
    assert seen | {"__version__"} == set(arcp_client.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = arcp_client.nothing  # type: ignore[attr-defined]


def test_importing_the_package_imports_neither_the_runtime_nor_a_socket_library() -> None:
    code = (
        "import sys, arcp_client; "
        "print([m for m in ('aiohttp', 'asyncpg', 'reactivex', 'arcp_client.runtime',"
        " 'arcp_client.client')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("names", ["Client, SqliteStore", "Runtime, SqliteEventLog"])
def test_what_needs_no_postgresql_does_not_import_asyncpg(names: str) -> None:
    code = f"import sys; from arcp_client import {names}; print('asyncpg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_using_the_client_does_not_import_the_runtime_or_the_test_kit() -> None:
    code = (
        "import sys; from arcp_client import Client; "
        "print([m for m in sys.modules if m.startswith(('arcp_client.runtime',"
        " 'arcp_client.testing', 'arcp_client.cli.'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_client_without_streams_imports_nothing_for_them() -> None:
    code = (
        "import sys; from arcp_client import Client; Client('ws://127.0.0.1:1');"
        "print([m for m in sys.modules if m.startswith(('arcp_client._feeds.',"
        " 'arcp_client.projection', 'arcp_client.transcripts'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_module_says_in_its_first_line_what_it_is() -> None:
    for path in SOURCE.parent.rglob("*.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        assert docstring, path
        assert len(docstring.splitlines()[0]) <= 110, path


def test_the_version_is_that_of_the_distribution() -> None:
    metadata = importlib.import_module("importlib.metadata")
    assert metadata.version("arcp-client") == arcp_client.__version__
