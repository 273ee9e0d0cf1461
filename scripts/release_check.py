"""Checks what would be published: ``make release-check``.

The distributions in ``dist/`` are examined (files, metadata, licence, sizes, the description as an
index renders it). Then the wheel is installed, alone and with each extra, into an empty environment
on each Python of this machine; what each extra offers is imported there, and the first example of
the README runs against ``arcp-client serve`` and must print what the README says.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.metadata import Metadata
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from readme_renderer import markdown

from scripts.matrix import IMPORTS, ROOT, pythons, uv

DIST = ROOT / "dist"
LARGEST_WHEEL = 1_500_000  # bytes
LARGEST_SOURCE = 8_000_000
PERMISSIVE = re.compile(r"apache|bsd|mit\b|isc|psf|python|mpl|mozilla|unlicense|zlib|cc0", re.I)
WITHOUT_LICENCE: frozenset[str] = frozenset()
"""Distributions whose metadata names no licence, and whose licence was read by a person."""

# ------------------------------------------------------------------ the files


def faults_of_wheel(wheel: Path) -> Iterator[str]:
    """What must not be published in a wheel."""
    if wheel.stat().st_size > LARGEST_WHEEL:
        yield f"{wheel.name} has {wheel.stat().st_size:,} bytes, over {LARGEST_WHEEL:,}"
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    if "arcp_client/py.typed" not in names:
        yield "the wheel has no arcp_client/py.typed: type checkers would ignore its types"
    if not any(re.search(r"\.dist-info/licenses/LICENSE$", name) for name in names):
        yield "the wheel has no licence file"
    for name in names:
        if not re.match(r"arcp_client(-[^/]+\.dist-info)?/", name):
            yield f"the wheel would install {name}"
        if name.endswith((".pyc", ".db", ".log", ".env")):
            yield f"the wheel has {name}"


def faults_of_source(source: Path) -> Iterator[str]:
    """What must not be published in a source distribution."""
    if source.stat().st_size > LARGEST_SOURCE:
        yield f"{source.name} has {source.stat().st_size:,} bytes, over {LARGEST_SOURCE:,}"
    with tarfile.open(source) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    for needed in ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "tests/conftest.py"):
        if needed not in names:
            yield f"the source distribution has no {needed}"
    for name in sorted(names):
        if re.search(r"(^|/)(_build|__pycache__|\.venv|build|dist)(/|$)|\.pyc$", name):
            yield f"the source distribution has {name}"


# ------------------------------------------------------------------ the metadata


def metadata_of(wheel: Path) -> Metadata:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        return Metadata.from_email(opened.read(name))


def faults_of_metadata(data: Metadata, changelog: str, tag: str | None) -> Iterator[str]:
    """What is wrong or missing in the metadata; a tagged release needs a section of its own."""
    version = str(data.version)
    if tag is not None and tag != f"v{version}":
        yield f"the tag is {tag}, and the version {version}"
    heading = re.escape(version) if tag is not None else rf"(?:{re.escape(version)}|Unreleased)"
    if not re.search(rf"^## \[{heading}\]", changelog, re.MULTILINE):
        yield f"CHANGELOG.md has no section for {version}"
    if data.license_expression != "Apache-2.0":
        yield f"the licence is {data.license_expression}, not Apache-2.0"
    if "LICENSE" not in (data.license_files or []):
        yield "the metadata name no licence file"
    if not data.summary or len(data.summary) > 200:
        yield "the summary is missing, or longer than 200 characters"
    if data.description_content_type != "text/markdown":
        yield f"the description is {data.description_content_type}, not text/markdown"
    classifiers = data.classifiers or []
    if "Typing :: Typed" not in classifiers:
        yield "the classifiers do not say that the package is typed"
    claimed = [c.rpartition(" ")[2] for c in classifiers if re.search(r":: 3\.\d+$", c)]
    allowed = data.requires_python or SpecifierSet()
    yield from (f"Python {c} is claimed and excluded" for c in claimed if c not in allowed)
    for label, url in (data.project_urls or {}).items():
        if not url.startswith("https://"):
            yield f"the address of {label} is {url}"
    for requirement in data.requires_dist or []:
        if requirement.url or (not requirement.specifier and requirement.name != data.name):
            yield f"the requirement {requirement} has no lower bound, or an address"


# ------------------------------------------------------------------ installations

LICENCES = """\
import importlib.metadata as m
for d in m.distributions():
    t = d.metadata
    found = [c for c in t.get_all("Classifier") or [] if c.startswith("License")]
    text = t.get("License-Expression") or " ".join(found) or (t.get("License") or "")[:80]
    print(t["Name"], text.replace("\\n", " "), sep="\\t")
"""


def run(*command: str | Path, cwd: Path, seconds: float = 120) -> str:
    """The output of a command that sees nothing of this checkout."""
    names = {"PYTHONPATH", "VIRTUAL_ENV", "ARCP_URL", "ARCP_TOKEN"}
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=seconds,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        words = " ".join(map(str, command[:3]))
        raise SystemExit(f"{words} … failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def installed(where: Path, python: str, wheel: Path, extra: str) -> Path:
    """The interpreter of an empty environment with the wheel and one extra."""
    interpreter = where / "bin" / "python"
    uv("venv", "--quiet", "--clear", "--python", python, where)
    what = f"{wheel}[{extra}]" if extra else str(wheel)
    uv("pip", "install", "--quiet", "--python", interpreter, what)
    return interpreter


def faults_of_licences(interpreter: Path, cwd: Path) -> Iterator[str]:
    """Dependencies whose licence is unknown, or not permissive."""
    for line in run(interpreter, "-c", LICENCES, cwd=cwd).splitlines():
        name, _, text = line.partition("\t")
        if not PERMISSIVE.search(text) and canonicalize_name(name) not in WITHOUT_LICENCE:
            yield f"the licence of {name} is {text or 'not stated'}"


def first_example(readme: str) -> tuple[str, str]:
    """The first program of the README, and what it prints."""
    program = re.search(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert program is not None
    output = re.search(r"^```text\n(.*?)^```$", readme[program.end() :], re.MULTILINE | re.DOTALL)
    assert output is not None
    return program[1], output[1]


def faults_of_example(interpreter: Path, cwd: Path, readme: str) -> Iterator[str]:
    """The README's program, run in an environment that has only the wheel and its extra `cli`."""
    program, expected = first_example(readme)
    command = [interpreter.parent / "arcp-client", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            url = server.stderr.readline().split()[-1]
            (cwd / "first.py").write_text(program.replace("ws://127.0.0.1:7777/arcp", url))
            printed = run(interpreter, "-W", "error", "first.py", cwd=cwd)
        finally:
            server.terminate()
    if printed != expected:
        yield f"the first example of the README printed\n{printed}instead of\n{expected}"


def extras_of(data: Metadata) -> list[str]:
    return ["", *sorted(data.provides_extra or [])]


def check_installations(wheel: Path, data: Metadata) -> Iterator[str]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for (major, minor), python in pythons().items():
        if f"{major}.{minor}" not in (data.requires_python or SpecifierSet()):
            continue
        for extra in extras_of(data):
            name = f"Python {major}.{minor}, {extra or 'no extra'}"
            with tempfile.TemporaryDirectory() as folder:
                cwd = Path(folder)
                interpreter = installed(cwd / "environment", python, wheel, extra)
                for modules in {IMPORTS[""], IMPORTS.get(extra, IMPORTS[""])}:
                    run(interpreter, "-W", "error", "-c", f"import {modules}", cwd=cwd)
                faults: list[str] = []
                if extra == "cli":
                    faults += faults_of_example(interpreter, cwd, readme)
                if extra == "all":
                    faults += faults_of_licences(interpreter, cwd)
                print(f"{name}: {'; '.join(faults) or 'ok'}", flush=True)
                yield from (f"{name}: {fault}" for fault in faults)


# ------------------------------------------------------------------ all of it


def faults_of_description(text: str) -> Iterator[str]:
    """What is lost of the description where an index renders it."""
    html = markdown.render(text)
    if html is None:
        yield "the description does not render, or readme_renderer has no Markdown renderer"
        return
    images = re.findall(r'<img [^>]*?src="([^"]*)"', html)
    links = re.findall(r'<a [^>]*?href="([^"]*)"', html)
    for address in [*images, *links]:
        if not address.startswith(("https://", "#")):
            yield f"the description refers to {address!r}, which an index cannot resolve"
    shown = re.findall(r"<h[1-6]", html)
    for what, expected, found in (
        ("images", len(re.findall(r"!\[[^]]*\]\(", text)), len(images)),
        ("code blocks", len(re.findall(r"^```\w", text, re.MULTILINE)), html.count("<pre")),
        ("tables", len(re.findall(r"^\|[-|: ]+\|$", text, re.MULTILINE)), html.count("<table")),
        ("headings", len(re.findall(r"^#+ ", text, re.MULTILINE)), len(shown)),
    ):
        if expected != found:
            yield f"the description has {expected} {what}, and {found} are rendered"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-install", action="store_true", help="examine the files only")
    options = parser.parse_args()
    (wheel,) = DIST.glob("*.whl")
    (source,) = DIST.glob("*.tar.gz")
    data = metadata_of(wheel)
    version = parse_wheel_filename(wheel.name)[1]
    print(f"{data.name} {version}: wheel {wheel.stat().st_size:,}, sdist {source.stat().st_size:,}")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    faults = [
        *faults_of_wheel(wheel),
        *faults_of_source(source),
        *faults_of_metadata(data, changelog, os.environ.get("RELEASE_TAG") or None),
        *faults_of_description(data.description or ""),
    ]
    missing = set(project["optional-dependencies"]) - {"all"} - IMPORTS.keys()
    faults += [f"scripts/matrix.py names no import for the extra {extra}" for extra in missing]
    print("files and metadata:", "; ".join(faults) or "ok", flush=True)
    if not options.no_install:
        faults += check_installations(wheel, data)
    if faults:
        raise SystemExit("\n".join(["not fit for release:", *faults]))
    print("fit for release")


if __name__ == "__main__":
    main()
