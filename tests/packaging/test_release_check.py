"""`make release-check` finds what must not be published."""

from __future__ import annotations

import io
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from scripts import release_check

GOOD = """\
Metadata-Version: 2.4
Name: arcp-client
Version: 0.2.0
Summary: A client
Project-URL: Documentation, https://docs.example/
License-Expression: Apache-2.0
License-File: LICENSE
Classifier: Programming Language :: Python :: 3.11
Classifier: Typing :: Typed
Requires-Python: >=3.11
Requires-Dist: aiohttp>=3.14
Description-Content-Type: text/markdown

# arcp-client
"""
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0]\n"


def faults(text: str = GOOD, *, changelog: str = CHANGELOG, tag: str | None = "v0.2.0") -> str:
    data = Metadata.from_email(text, validate=False)
    return "; ".join(release_check.faults_of_metadata(data, changelog, tag))


def test_complete_metadata_have_no_fault() -> None:
    assert faults() == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Apache-2.0", "MIT", "the licence is MIT"),
        ("License-File: LICENSE\n", "", "no licence file"),
        ("Summary: A client\n", "", "the summary is missing"),
        ("text/markdown", "text/plain", "not text/markdown"),
        ("Classifier: Typing :: Typed\n", "", "typed"),
        ("https://docs", "http://docs", "the address of Documentation"),
        ("aiohttp>=3.14", "aiohttp", "no lower bound"),
        (":: 3.11", ":: 3.10", "Python 3.10 is claimed and excluded"),
    ],
)
def test_a_fault_of_the_metadata_is_named(old: str, new: str, said: str) -> None:
    assert old in GOOD
    assert said in faults(GOOD.replace(old, new))


def test_a_tag_needs_its_version_and_a_section_of_the_changelog() -> None:
    assert "the tag is v0.3.0" in faults(tag="v0.3.0")
    assert "no section for 0.2.0" in faults(changelog="## [Unreleased]\n")
    assert faults(changelog="## [Unreleased]\n", tag=None) == ""


def test_a_wheel_without_types_or_licence_or_with_other_files_is_not_fit(tmp_path: Path) -> None:
    wheel = tmp_path / "arcp_client-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr("arcp_client/__init__.py", "")
        opened.writestr("tests/test_x.py", "")
        opened.writestr("arcp_client/run.db", "")
    found = "; ".join(release_check.faults_of_wheel(wheel))
    for said in (
        "py.typed",
        "no licence file",
        "install tests/test_x.py",
        "has arcp_client/run.db",
    ):
        assert said in found


def test_a_source_distribution_without_tests_or_with_built_files_is_not_fit(tmp_path: Path) -> None:
    source = tmp_path / "arcp_client-0.2.0.tar.gz"
    with tarfile.open(source, "w:gz") as opened:
        for name in ("LICENSE", "docs/_build/html/index.html"):
            opened.addfile(tarfile.TarInfo(f"arcp_client-0.2.0/{name}"), io.BytesIO())
    found = "; ".join(release_check.faults_of_source(source))
    assert "no tests/conftest.py" in found
    assert "has docs/_build/html/index.html" in found
    assert "no LICENSE" not in found


def test_a_large_distribution_is_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_check, "LARGEST_WHEEL", 10)
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr("arcp_client/py.typed", "")
    assert any("over 10" in fault for fault in release_check.faults_of_wheel(wheel))


def test_a_licence_that_is_unknown_or_not_permissive_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "aiohttp\tApache-2.0 AND MIT\nreadline\tGPL-3.0\nmystery\t\n"
    monkeypatch.setattr(release_check, "run", lambda *_command, cwd: lines)
    found = list(release_check.faults_of_licences(Path("python"), tmp_path))
    assert found == ["the licence of readline is GPL-3.0", "the licence of mystery is not stated"]


def test_the_first_example_of_the_readme_is_found_with_its_output() -> None:
    readme = (release_check.ROOT / "README.md").read_text(encoding="utf-8")
    program, output = release_check.first_example(readme)
    assert program == (release_check.ROOT / "examples" / "first_client.py").read_text("utf-8")
    assert output.endswith("{'counted': 5}\n")


README = (release_check.ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_renders_as_a_description_without_loss() -> None:
    assert list(release_check.faults_of_description(README)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("![a picture](docs/images/run.svg)\n", "refers to 'docs/images/run.svg'"),
        ("[a page](docs/index.md)\n", "refers to 'docs/index.md'"),
        ("```python\nx = 1\n```\n\n<pre>2</pre>\n", "1 code blocks, and 2 are rendered"),
        ("text\n| a | b |\n|--|\n", "1 tables, and 0 are rendered"),
    ],
)
def test_what_an_index_cannot_show_is_named(text: str, said: str) -> None:
    assert said in "; ".join(release_check.faults_of_description(text))


def test_each_extra_has_an_import_that_shows_what_it_installs() -> None:
    text = (release_check.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(tomllib.loads(text)["project"]["optional-dependencies"]) - {"all"}
    assert extras == set(release_check.IMPORTS) - {""}
