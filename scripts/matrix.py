"""Runs the tests on each Python of this machine, on each event loop, and on the lowest versions.

``make test-all`` runs every combination, ``.ci/run`` those of ``--short``, ``make test-loops`` the
loops on one Python. Environments are made by uv in ``build/matrix`` and kept; no Python is
downloaded.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.loops import MARKED

ROOT = Path(__file__).parents[1]
WHERE = ROOT / "build" / "matrix"
LEAST = (3, 11)
EAGER_SINCE = (3, 12)
PARTS = ("tests/unit", "tests/property", "tests/contract")
LOOP_PARTS = (*PARTS, "tests/faults")
IMPORTS = {
    "": "arcp_client, arcp_client.acp, arcp_client.runtime, arcp_client.testing, arcp_client.web",
    "cli": "arcp_client.cli.app",
    "ag-ui": "arcp_client.web.exports.agui",
    "http2": "arcp_client.acp._http.http2",
    "keyring": "keyring",
    "mcp": "arcp_client.mcp",
    "otel": "arcp_client.otel",
    "postgres": "arcp_client._postgres.database",
    "testing": "arcp_client.testing.pytest_plugin",
    "schema": "jsonschema, referencing",
    "tui": "textual",
}
"""What is importable of an installation with an extra and nothing else."""
TESTED_LOWEST = "ag-ui,cli,http2,keyring,otel,schema,tui"
"""The extras of the tests with the lowest versions: the SDK of MCP needs later ones of pydantic."""

Version = tuple[int, int]


class Run(NamedTuple):
    """One run of pytest.

    Attributes:
        name: of the environment and the loop.
        python: its interpreter.
        loop: ``plain``, ``eager`` or ``uvloop``.
        arguments: what pytest is given.
    """

    name: str
    python: Path
    loop: str
    arguments: Sequence[str]


def pythons() -> dict[Version, str]:
    """An interpreter of each version that this machine has, from 3.11 on."""
    names = ["python3", *(f"python3.{minor}" for minor in range(LEAST[1], 30))]
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders += sorted(kept.glob("3.*/bin"))
    found: dict[Version, str] = {}
    for folder in folders:
        for name in names:
            if (version := _version(folder / name)) is not None:
                found.setdefault(version, str(folder / name))
    return {version: path for version, path in sorted(found.items()) if version >= LEAST}


def _version(python: Path) -> Version | None:
    # A shim is there for versions too that nobody has chosen: only its answer counts.
    if not os.access(python, os.X_OK):
        return None
    program = "import ensurepip, sys; print(*sys.version_info[:2], sys.implementation.name)"
    try:
        done = subprocess.run(
            [python, "-c", program], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if (answer := re.fullmatch(r"(\d+) (\d+) cpython\n", done.stdout)) is None:
        return None
    return int(answer[1]), int(answer[2])


def uv(*arguments: str | Path) -> None:
    """Run uv, which `make` installs into its environment."""
    own = Path(sys.executable).parent / "uv"
    program = own if own.exists() else shutil.which("uv")
    if program is None:
        raise SystemExit("uv is missing: run this through make, which installs it")
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    subprocess.run([program, *arguments], cwd=ROOT, env=environment, check=True)


def environment(
    name: str, python: str, *, extra: str = "", group: str = "", lowest: bool = False
) -> Path:
    """An environment with this package in place; its interpreter."""
    where = WHERE / name
    interpreter = where / "bin" / "python"
    uv("venv", "--quiet", "--clear", "--python", python, where)
    install: list[str | Path] = ["--quiet", "--python", interpreter]
    install += ["--editable", f".[{extra}]" if extra else "."]
    if group:
        install += ["--group", group]
    if lowest:
        bounds = WHERE / f"{name}.txt"
        chosen = [word for each in extra.split(",") if each for word in ("--extra", each)]
        uv(
            *("pip", "compile", "--quiet", "--resolution", "lowest-direct", "--no-header"),
            *("--python", interpreter, *chosen, "--output-file", bounds, "pyproject.toml"),
        )
        install += ["--constraint", bounds]
    uv("pip", "install", *install)
    return interpreter


def loops(version: Version) -> Iterator[str]:
    """The loops that tests can run on."""
    yield "plain"
    yield "uvloop"
    if version >= EAGER_SINCE:
        yield "eager"


def everything(found: dict[Version, str]) -> Iterator[Run]:
    """All parts on all loops of every Python, and on the lowest versions."""
    for (major, minor), python in found.items():
        name = f"{major}.{minor}"
        interpreter = environment(name, python, extra="all", group="test")
        for loop in loops((major, minor)):
            yield Run(f"{name} {loop}", interpreter, loop, PARTS)
    yield from lowest(found, PARTS)


def short(found: dict[Version, str]) -> Iterator[Run]:
    """The marked part: on the other loops, on the newest Python, and on the lowest versions."""
    yield Run("uvloop", Path(sys.executable), "uvloop", MARKED)
    newest = max(found)
    if newest > sys.version_info[:2] or newest >= EAGER_SINCE:
        name = "{}.{}".format(*newest)
        interpreter = environment(name, found[newest], extra="all", group="test")
        loop = "eager" if newest >= EAGER_SINCE else "plain"
        yield Run(f"{name} {loop}", interpreter, loop, MARKED)
    yield from lowest(found, MARKED)


def lowest(found: dict[Version, str], arguments: Sequence[str]) -> Iterator[Run]:
    """The lowest versions that pyproject.toml names, of the base and of each extra."""
    python = found[min(found)]
    for extra, modules in IMPORTS.items():
        interpreter = environment(f"lowest-{extra or 'base'}", python, extra=extra, lowest=True)
        subprocess.run([interpreter, "-c", f"import {modules}"], cwd=WHERE, check=True)
    interpreter = environment("lowest", python, extra=TESTED_LOWEST, group="test", lowest=True)
    yield Run("lowest versions", interpreter, "plain", arguments)


def on_loops(found: dict[Version, str]) -> Iterator[Run]:
    """All parts and the faults on every loop of the newest Python."""
    newest = max(found)
    name = "{}.{}".format(*newest)
    interpreter = environment(name, found[newest], extra="all", group="test")
    for loop in loops(newest):
        yield Run(f"{name} {loop}", interpreter, loop, LOOP_PARTS)


def main() -> int:
    """Run what was asked for; the number of runs that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["all", "short", "loops"])
    parser.add_argument("--processes", default="3", help="of each run of pytest")
    parser.add_argument("rest", nargs="*", help="for pytest")
    options = parser.parse_args()
    found = pythons()
    print("Python:", ", ".join(f"{path} ({v[0]}.{v[1]})" for v, path in found.items()), flush=True)
    plans = {"all": everything, "short": short, "loops": on_loops}
    results: list[tuple[str, bool, float]] = []
    for run in plans[options.what](found):
        print(f"\n== {run.name}", flush=True)
        began = time.monotonic()
        command = [run.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *run.arguments]
        command += ["--numprocesses", options.processes, "--dist", "loadfile", *options.rest]
        env = {**os.environ, "ARCP_LOOP": run.loop}
        done = subprocess.run(command, cwd=ROOT, env=env, check=False)
        results.append((run.name, done.returncode == 0, time.monotonic() - began))
    print()
    for name, passed, seconds in results:
        print(f"{'passed' if passed else 'FAILED':8}{seconds:7.0f} s  {name}")
    return sum(not passed for _, passed, _ in results)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
