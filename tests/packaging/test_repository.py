"""Workflows, hooks, templates, the development lock, and the links of pages shown elsewhere."""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from arcp_client.version import DOCS_URL
from scripts.matrix import LOOP_PARTS
from tests import tracing

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TEMPLATES = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
PAGES = ("README.md", "CHANGELOG.md", "SECURITY.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
LOCKED = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.+))?$", re.MULTILINE)
PLATFORMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}

names = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    """A workflow or another YAML file. YAML 1.1 takes the key ``on`` for a truth value."""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict), path
    return {"on" if key is True else key: value for key, value in found.items()}


def jobs(path: Path) -> dict[str, Any]:
    found = read(path)["jobs"]
    assert isinstance(found, dict)
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in jobs(path).values():
        yield from job.get("steps", ())


def commands(path: Path) -> list[str]:
    return [step["run"] for step in steps(path) if "run" in step]


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))


def asked_of_make(command: str) -> list[str]:
    """The targets of a command that runs make and nothing else; a failure for another command."""
    first, *words = shlex.split(command)
    assert first == "make", f"{command!r}: a step runs make, so that .ci/run does the same"
    return [word for word in words if "=" not in word]


def expanded(matrix: dict[str, Any]) -> list[dict[str, Any]]:
    """The combinations of a matrix of ``os`` and ``python`` with what ``include`` adds to them."""
    found = [{"os": os, "python": python} for os in matrix["os"] for python in matrix["python"]]
    for addition in matrix["include"]:
        for combination in found:
            axes = addition.keys() & {"os", "python"}
            assert axes, addition
            if all(combination[axis] == addition[axis] for axis in axes):
                combination.update(addition)
    return found


def combinations() -> list[dict[str, Any]]:
    return expanded(jobs(GITHUB / "workflows" / "ci.yml")["tests"]["strategy"]["matrix"])


# ------------------------------------------------------------------ workflows


@names
def test_each_command_of_a_workflow_is_a_target_of_make(path: Path) -> None:
    for command in commands(path):
        assert set(asked_of_make(command)) <= make_targets(), command


def test_the_workflow_for_changes_runs_all_that_ci_run_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    locally = {t for line in re.findall(r"^step (.+)$", script, re.M) for t in asked_of_make(line)}
    assert locally
    remotely = {
        target
        for command in commands(GITHUB / "workflows" / "ci.yml")
        for target in asked_of_make(command)
    }
    assert locally <= remotely


def test_coverage_is_measured_where_the_whole_suite_runs() -> None:
    for combination in combinations():
        if "coverage" in combination:
            assert "arguments" not in combination
    assert any("coverage" in combination for combination in combinations())


def test_what_coverage_is_told_of_is_there_and_is_told_once() -> None:
    for places in (tracing.TRACED, tracing.UNTRACED):
        assert [place for place in places if not (ROOT / place).exists()] == []
        assert sorted(set(places)) == list(places)
        others = {place: tuple(set(places) - {place}) for place in places}
        assert [place for place in places if place.startswith(others[place])] == []


def test_the_tests_run_on_every_python_that_the_project_claims() -> None:
    claimed = set(PYTHONS)
    tested = {combination["python"] for combination in combinations()}
    assert claimed <= tested
    assert min(map(Version, tested)) in SpecifierSet(PROJECT["project"]["requires-python"])
    assert f">={min(map(Version, tested))}" == PROJECT["project"]["requires-python"]


PYTHONS = [
    found[1]
    for classifier in PROJECT["project"]["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier))
]


def test_the_tests_run_on_linux_macos_and_windows() -> None:
    assert {c["os"].partition("-")[0] for c in combinations()} == {"ubuntu", "macos", "windows"}


def test_only_what_the_project_does_not_claim_to_support_may_fail() -> None:
    assert "Operating System :: POSIX" in PROJECT["project"]["classifiers"]
    assert "Operating System :: OS Independent" not in PROJECT["project"]["classifiers"]
    for combination in combinations():
        claimed = combination["python"] in PYTHONS and not combination["os"].startswith("windows")
        assert combination.get("unsupported", False) is not claimed, combination
    job = jobs(GITHUB / "workflows" / "ci.yml")["tests"]
    assert job["continue-on-error"] == "${{ matrix.unsupported || false }}"
    for path in WORKFLOWS:
        for name, other in jobs(path).items():
            assert (path.stem, name) == ("ci", "tests") or "continue-on-error" not in other
        assert not [step for step in steps(path) if "continue-on-error" in step]


def test_the_arguments_of_the_matrix_name_tests_that_exist() -> None:
    for combination in combinations():
        for word in combination.get("arguments", "").split():
            assert (ROOT / word.removeprefix("--ignore=")).exists(), word


@names
def test_each_action_is_pinned_by_commit_and_says_its_version(path: Path) -> None:
    lines = re.findall(r"uses: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    for line in lines:
        if not line.startswith("./"):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
        else:
            assert (ROOT / line).is_file()


def test_an_action_has_one_pin_in_all_workflows() -> None:
    pins: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for step in steps(path):
            if "uses" in step:
                action, _, commit = step["uses"].partition("@")
                pins.setdefault(action, set()).add(commit)
    assert {action: len(commits) for action, commits in pins.items()} == dict.fromkeys(pins, 1)


@names
def test_a_workflow_may_read_the_repository_and_nothing_else(path: Path) -> None:
    assert read(path)["permissions"] == {"contents": "read"}
    for name, job in jobs(path).items():
        publishes = (path.stem, name) == ("release", "publish")
        assert job.get("permissions", {}) == ({"id-token": "write"} if publishes else {})
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
    assert "pull_request_target" not in read(path)["on"]
    assert "secrets." not in path.read_text(encoding="utf-8")


@names
def test_no_command_takes_text_of_others_into_its_script(path: Path) -> None:
    assert not [command for command in commands(path) if "${{" in command]


@names
def test_each_job_has_a_deadline(path: Path) -> None:
    for name, job in jobs(path).items():
        assert "uses" in job or 0 < job["timeout-minutes"] <= 240, name


CHECK = "make release-check"  # it builds first


def test_a_release_is_checked_built_by_make_and_published_by_identity() -> None:
    path = GITHUB / "workflows" / "release.yml"
    assert read(path)["on"] == {"push": {"tags": ["v*"]}}
    found = jobs(path)
    assert found["checks"]["uses"] == "./.github/workflows/ci.yml"
    assert "workflow_call" in read(GITHUB / "workflows" / "ci.yml")["on"]
    assert [step["run"] for step in found["build"]["steps"] if "run" in step] == [CHECK]
    publish = found["publish"]
    assert set(publish["needs"]) == {"checks", "build"}
    assert publish["environment"]["name"] == "pypi"
    assert publish["permissions"] == {"id-token": "write"}
    last = publish["steps"][-1]
    assert last["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert last["with"] == {"attestations": True}, "no password: PyPI trusts the workflow"
    assert not [step for step in publish["steps"] if "run" in step]


def test_a_release_is_refused_whose_tag_differs_from_the_version() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    build = re.search(r"^build:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert build is not None
    assert "arcp_client-$${RELEASE_TAG#v}-py3-none-any.whl" in build[1]
    steps_of_build = jobs(GITHUB / "workflows" / "release.yml")["build"]["steps"]
    (step,) = [step for step in steps_of_build if step.get("run") == CHECK]
    assert step["env"] == {"RELEASE_TAG": "${{ github.ref_name }}"}


def test_the_slow_tests_run_each_week() -> None:
    path = GITHUB / "workflows" / "weekly.yml"
    (schedule,) = read(path)["on"]["schedule"]
    minute, hour, day, month, weekday = schedule["cron"].split()
    assert (day, month) == ("*", "*")
    assert all(field.isdigit() for field in (minute, hour, weekday))
    assert {"make test", "make test-all", "make test-loops", CHECK} <= set(commands(path))
    (slow,) = [step for step in steps(path) if step.get("run") == "make test"]
    assert slow["env"] == {"ARCP_SLOW": "1"}


def test_the_documentation_is_built_by_make() -> None:
    first, *others = read(ROOT / ".readthedocs.yaml")["build"]["commands"]
    assert asked_of_make(first) == ["docs"]
    assert all(shlex.split(command)[0] in {"mkdir", "cp"} for command in others)


# ------------------------------------------------------------------ hooks and templates


def test_hooks_run_the_tools_that_the_lock_names() -> None:
    """A hook is a target of make, which installs the lock; so no hook has a version of its own."""
    found = [
        (repository, hook)
        for repository in read(ROOT / ".pre-commit-config.yaml")["repos"]
        for hook in repository["hooks"]
    ]
    assert {target for _, hook in found for target in asked_of_make(hook["entry"])} >= {
        "lint",
        "types",
        "contracts",
    }
    for repository, hook in found:
        assert repository["repo"] == "local"
        assert "rev" not in repository
        assert hook["language"] == "system"
        assert set(asked_of_make(hook["entry"])) <= make_targets()


@pytest.mark.parametrize(
    "path", [p for p in TEMPLATES if p.stem != "config"], ids=lambda path: path.stem
)
def test_an_issue_form_has_what_github_asks_of_one(path: Path) -> None:
    form = read(path)
    assert form["name"]
    assert form["description"]
    fields = [element for element in form["body"] if element["type"] != "markdown"]
    assert fields
    assert all(f["type"] in {"input", "textarea", "dropdown", "checkboxes"} for f in fields)
    assert all(element["attributes"]["label"] for element in fields)
    assert len({element["id"] for element in fields}) == len(fields)
    assert any(f.get("validations", {}).get("required") for f in fields)


def test_the_chooser_of_issues_links_to_the_documentation() -> None:
    links = read(GITHUB / "ISSUE_TEMPLATE" / "config.yml")["contact_links"]
    assert [link["url"] for link in links] == [DOCS_URL]
    assert all(link["name"] and link["about"] for link in links)


def test_a_pull_request_is_reminded_of_checks_tests_and_changelog() -> None:
    text = (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")
    assert re.search(r"^- \[ \] `\.ci/run` passes", text, re.MULTILINE)
    assert "test" in text
    assert "`CHANGELOG.md`" in text


def test_pinned_actions_are_kept_up_to_date() -> None:
    (update,) = read(GITHUB / "dependabot.yml")["updates"]
    assert update["package-ecosystem"] == "github-actions"
    assert update["schedule"]["interval"] == "weekly"


# ------------------------------------------------------------------ the groups


def module_imports(path: Path) -> Iterator[str]:
    """The modules that are imported with a module, as far as one can see without running it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported(left: list[Path]) -> set[str]:
    """The top-level modules that test files import, also through other test files."""
    seen, found = set(), set()
    while left:
        path = left.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for name in module_imports(path):
            found.add(name.partition(".")[0])
            if name.startswith("tests."):
                left.append(ROOT / f"{name.replace('.', '/')}.py")
    return found - sys.stdlib_module_names - {"tests", "arcp_client"}


def installed(names: Iterable[str]) -> set[str]:
    """Distributions and all that they depend on."""
    left, found = list(names), set()
    while left:
        name = canonicalize_name(left.pop())
        if name not in found and name != PROJECT["project"]["name"]:
            found.add(name)
            with contextlib.suppress(metadata.PackageNotFoundError):
                needs = map(Requirement, metadata.requires(name) or ())
                left += [one.name for one in needs if not one.marker or one.marker.evaluate()]
    return found


def test_the_group_test_has_all_that_its_tests_import() -> None:
    """`make test-all` makes environments with the extras and with that group alone."""
    roots = [path for part in LOOP_PARTS for path in (ROOT / part).rglob("*.py")]
    names = imported([*roots, *(ROOT / "tests").glob("*.py")])
    assert len(names) > 10
    declared = list(PROJECT["project"]["dependencies"]) + list(PROJECT["dependency-groups"]["test"])
    for extra in PROJECT["project"]["optional-dependencies"].values():
        declared += extra
    have = installed(Requirement(text).name for text in declared)
    owners = metadata.packages_distributions()
    assert [
        name for name in sorted(names) if not have & set(map(canonicalize_name, owners[name]))
    ] == []


# ------------------------------------------------------------------ the lock


def requirements() -> Iterator[Requirement]:
    """All that developing needs: dependencies, extras and groups."""
    texts = list(PROJECT["project"]["dependencies"])
    for extra in PROJECT["project"]["optional-dependencies"].values():
        texts += extra
    for group in PROJECT["dependency-groups"].values():
        texts += [entry for entry in group if isinstance(entry, str)]
    for text in texts:
        if (requirement := Requirement(text)).name != PROJECT["project"]["name"]:
            yield requirement


def locked(python: str, platform: str) -> dict[str, Version]:
    """What the lock installs on a Python and a platform."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": platform,
        "platform_system": PLATFORMS[platform],
        "os_name": "nt" if platform == "win32" else "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": "x86_64",
    }
    found: dict[str, Version] = {}
    for name, version, marker in LOCKED.findall(LOCK):
        if not marker or Marker(marker).evaluate(environment):
            assert name not in found, f"{name} has two versions on {python}, {platform}"
            found[name] = Version(version)
    return found


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_lock_has_each_requirement_within_its_bounds(python: str, platform: str) -> None:
    versions = locked(python, platform)
    for requirement in requirements():
        marker = requirement.marker
        environment = {"sys_platform": platform, "implementation_name": "cpython"}
        if marker is not None and not marker.evaluate(environment):
            continue
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{requirement} is not locked: run `make lock`"
        assert requirement.specifier.contains(versions[name], prereleases=True), (
            f"{name} {versions[name]} is locked, {requirement} is asked for: run `make lock`"
        )


def test_the_lock_names_nothing_that_the_project_no_longer_asks_for() -> None:
    """What uv notes as asked for by pyproject.toml is asked for there."""
    block = re.compile(r"^([a-z0-9-]+)==.*\n((?:    #.*\n)+)", re.MULTILINE)
    direct = {name for name, notes in block.findall(LOCK) if "(pyproject.toml" in notes}
    assert direct == {canonicalize_name(requirement.name) for requirement in requirements()}


def test_make_installs_what_the_lock_says() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"--group dev --constraint \$\(LOCK\)$", text, re.MULTILINE)
    assert re.search(r"^LOCK +:= requirements-dev\.lock$", text, re.MULTILINE)


# ------------------------------------------------------------------ pages outside the documentation


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_is_also_shown_elsewhere_has_no_relative_link(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "pyproject.toml"])
def test_each_page_of_the_documentation_that_is_linked_to_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in re.findall(re.escape(DOCS_URL) + r"([\w/-]+)\.html", text):
        assert (ROOT / "docs" / f"{found}.md").is_file(), found


def test_the_rules_that_the_threat_model_names_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    groups = re.findall(r"\(([ADIRS]\d+(?:, [ADIRS]\d+)*)\)", text)
    quoted = {rule for group in groups for rule in group.split(", ")}
    rules = (ROOT / "docs" / "explanation" / "rules.md").read_text(encoding="utf-8")
    assert len(quoted) > 10
    assert quoted <= set(re.findall(r"^\*\*([ADIRS]\d+)\*\*", rules, re.MULTILINE))


def test_the_changelog_has_each_entry_once() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = [" ".join(entry.split())[:60] for entry in re.split(r"^- ", text, flags=re.M)[1:]]
    assert len(entries) > 100
    assert [entry for entry, count in Counter(entries).items() if count > 1] == []
