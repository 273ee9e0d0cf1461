"""Each error and each exit code has its section, and the address that is printed leads to it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from arcp_client.cli.errors import command_error
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.errors import ArcpError, Unauthenticated
from arcp_client.version import DOCS_URL
from tests.e2e.shell import fresh, run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference" / "errors"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts" / "generate_error_pages.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as Sphinx makes them, by their addresses below the docs' own."""
    site = tmp_path_factory.mktemp("site")
    out = site / "reference" / "errors"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-q", "-C", "-D", "extensions=myst_parser"),
            *("-D", "suppress_warnings=myst.xref_missing", "-b", "html"),
            *("-d", str(site / "doctrees"), str(FOLDER), str(out)),
        ],
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return site


def test_the_pages_are_up_to_date(script: ModuleType) -> None:
    for name, page in script.PAGES.items():
        written = (FOLDER / name).read_text(encoding="utf-8")
        assert written == page(), "run python scripts/generate_error_pages.py"


def leads_somewhere(url: str, site: Path) -> bool:
    """Whether the address of the docs is that of a page, and its anchor is on the page."""
    assert url.startswith(DOCS_URL)
    path, _, anchor = url.removeprefix(DOCS_URL).partition("#")
    page = (site / path).read_text(encoding="utf-8")
    return bool(anchor) and re.search(rf'id="{re.escape(anchor)}"', page) is not None


def test_every_error_leads_to_its_section(script: ModuleType, built: Path) -> None:
    classes = script.classes()
    assert {Unauthenticated, ArcpError} <= set(classes)
    assert len(classes) > 40
    for cls in classes:
        error = cls("m")
        assert leads_somewhere(error.help_url, built), cls.__name__
        assert command_error(error).help_url == error.help_url


def test_every_exit_code_leads_to_its_section(built: Path) -> None:
    for code in Exit:
        assert leads_somewhere(CommandError(code, "m").help_url, built), code


def behind(short: str) -> str:
    """The address that a short link's line leads to."""
    page, _, anchor = short.partition("#")
    assert page == f"{DOCS_URL}e.html"
    text = (ROOT / "docs" / "e.md").read_text(encoding="utf-8")
    found = re.search(rf'<a id="{re.escape(anchor)}"></a>\[[^\]]+\]\(([^)]+)\)', text)
    assert found is not None, short
    return DOCS_URL + found[1].replace(".md", ".html")


def test_what_the_command_prints_leads_somewhere(built: Path, tmp_path: Path) -> None:
    for words in (
        ["watch", "x", "--url", "ws://127.0.0.1:9/"],
        ["watch", "x", "--url", "http://x"],
    ):
        done = run(fresh(tmp_path), *words)
        assert done.returncode != 0
        assert done.stdout == ""
        assert leads_somewhere(behind(done.stderr.split()[-1]), built), done.stderr
