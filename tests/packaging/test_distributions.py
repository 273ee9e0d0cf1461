"""What is published: a source distribution, and the wheel that is built from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from arcp_client.version import DOCS_URL

ROOT = Path(__file__).parents[2]
MODULES = {
    str(path.relative_to(ROOT))
    for path in (ROOT / "arcp_client").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}

pytestmark = pytest.mark.timeout(150)

PROGRAM = """\
from arcp_client import Client

reveal_type(Client("ws://127.0.0.1:7777/arcp").stats().received)
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that sees no other place to import from."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=140,
    )  # fmt: skip


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it."""
    made = tmp_path_factory.mktemp("dist")
    build = run(sys.executable, "-m", "build", "--no-isolation", "-o", made, ROOT, cwd=made)
    assert build.returncode == 0, build.stdout + build.stderr
    (source,) = made.glob("*.tar.gz")
    (wheel,) = made.glob("*.whl")
    return source, wheel


@pytest.fixture(scope="module")
def clean(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel and nothing else."""
    directory = tmp_path_factory.mktemp("clean")
    venv.create(directory, with_pip=False)
    places = {"base": str(directory), "platbase": str(directory)}
    with zipfile.ZipFile(distributions[1]) as wheel:
        wheel.extractall(sysconfig.get_path("purelib", "venv", places))
    return directory


def test_both_hold_every_file_of_the_package_and_the_mark_that_it_is_typed(
    distributions: tuple[Path, Path],
) -> None:
    assert "arcp_client/py.typed" in MODULES
    source, wheel = distributions
    with zipfile.ZipFile(wheel) as opened:
        assert set(opened.namelist()) >= MODULES
    with tarfile.open(source) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert names >= MODULES
    assert names >= {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "Makefile"}


def test_a_type_checker_reads_the_types_of_what_was_installed(
    clean: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Without the mark, mypy --strict refuses the import."""
    (tmp_path / "program.py").write_text(PROGRAM)
    python = clean / "bin" / "python"
    # The standard library is the same in each run; the package lies elsewhere each time.
    kept = pytestconfig.cache.mkdir("mypy") if pytestconfig.cache else tmp_path / "cache"
    arguments = ["--strict", "--cache-dir", kept, "--python-executable", python]
    done = run(sys.executable, "-m", "mypy", *arguments, "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'Revealed type is "int"' in done.stdout.replace("builtins.", "")


def test_the_command_of_the_wheel_runs(clean: Path, tmp_path: Path) -> None:
    """Its dependencies are those of this environment; the package is the wheel's."""
    (site,) = clean.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = clean / "bin" / "python"
    where = run(python, "-c", "import arcp_client as a; print(a.__file__)", cwd=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(clean), where.stderr
    version = run(python, "-m", "arcp_client.cli", "version", cwd=tmp_path)
    assert version.returncode == 0, version.stderr
    assert version.stdout.startswith("arcp-client ")


@pytest.fixture(scope="module")
def metadata(distributions: tuple[Path, Path]) -> Metadata:
    with zipfile.ZipFile(distributions[1]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return Metadata.from_email(wheel.read(name))


def test_the_extras_are_those_that_users_ask_for_and_each_installs_something(
    metadata: Metadata,
) -> None:
    extras = set(metadata.provides_extra or ())
    assert extras == {
        "ag-ui", "all", "cli", "http2", "keyring", "mcp", "otel", "postgres", "schema", "testing",
        "tui",
    }  # fmt: skip
    requirements = metadata.requires_dist or []
    for extra in extras:
        own = [r for r in requirements if r.marker and r.marker.evaluate({"extra": extra})]
        assert own, extra
    names = {requirement.name for requirement in requirements}
    assert not names & {"mypy", "ruff", "sphinx", "uv"}, "what develops is not published"


def test_each_requirement_says_from_which_version_on(metadata: Metadata) -> None:
    for requirement in metadata.requires_dist or []:
        if requirement.name != "arcp-client":
            assert str(requirement.specifier).startswith(">="), requirement


def test_the_index_shows_links_that_work_there(metadata: Metadata) -> None:
    assert {"Documentation", "Specification"} <= set(metadata.project_urls or {})
    readme = metadata.description or ""
    links = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_each_page_of_the_documentation_that_the_readme_links_to_is_there(
    metadata: Metadata,
) -> None:
    for page in re.findall(re.escape(DOCS_URL) + r"([\w/-]+)\.html", metadata.description or ""):
        assert (ROOT / "docs" / f"{page}.md").is_file(), page


@pytest.mark.parametrize(
    ("module", "absent", "named"),
    [
        ("arcp_client.web.agui", "ag_ui", "arcp-client[ag-ui]"),
        ("arcp_client.acp._http.http2", "h2", "arcp-client[http2]"),
        ("arcp_client.mcp", "mcp", "arcp-client[mcp]"),
        ("arcp_client.testing.pytest_plugin", "pytest_asyncio", "arcp-client[testing]"),
    ],
)
def test_a_module_whose_requirement_is_missing_names_what_to_install(
    module: str, absent: str, named: str, tmp_path: Path
) -> None:
    program = f"import sys; sys.modules[{absent!r}] = None; import {module}"
    done = run(sys.executable, "-c", program, cwd=tmp_path)
    assert done.returncode == 1
    assert named in done.stderr.splitlines()[-1]
