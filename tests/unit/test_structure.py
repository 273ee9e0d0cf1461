"""The structure of the package, read from its sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "arcp_client"


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def tree_of(module: str) -> ast.Module:
    return ast.parse(SOURCES[module].read_text(encoding="utf-8"))


def imported_by(module: str, tree: ast.AST, known: set[str]) -> Iterator[str]:
    """The known modules that one imports: at the top, in functions, and for the types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports relatively"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, if any do."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_module_imports_itself_through_others_at_whatever_time() -> None:
    """Imports in functions and under TYPE_CHECKING count as well."""
    known = set(SOURCES)
    graph = {module: set(imported_by(module, tree_of(module), known)) for module in SOURCES}
    assert sum(map(len, graph.values())) > len(graph), "the walk finds the imports"
    assert circle(graph) == []


def test_a_circle_through_a_late_import_and_one_for_the_types_is_found() -> None:
    sources = {
        "a": "if TYPE_CHECKING:\n    from b import B",
        "b": "def later():\n    import c",
        "c": "from a import A",
    }
    graph = {
        name: set(imported_by(name, ast.parse(text), set(sources)))
        for name, text in sources.items()
    }
    assert set(circle(graph)) == {"a", "b", "c"}


SHARED_NAMES = {
    **dict.fromkeys(
        ("Client", "EventIterator", "Job", "JobHandle", "JobView", "Registration"),
        "public: asynchronous, and blocking in `arcp_client.sync`",
    ),
    "EventMethods": "the methods of both clients that receive events",
    "Child": "public: a job that an agent delegated, and what a projection shows of one",
    "Drop": "public: a step of a script, and a fault of frames",
    "Fault": "public: what a projection shows of an error, and a fault of a proxy",
    "Gap": "public: missing events of ARCP, and missing updates of ACP",
    "Server": "public: of a runtime, and of a dashboard",
    "SessionInfo": "public: of ARCP, and the generated schema of ACP",
    "ToolCall": "public: of ARCP, and the generated schema of ACP",
    "Unknown": "public: an event of ARCP, and a value of ACP, that this version does not know",
}
"""Names of two classes, with the reason. A private class gets a name of its own."""

VERSIONS = {"arcp_client.acp.schema", "arcp_client.acp.schema_v2"}
"""The generated types of two versions of one protocol: a name is that of the specification."""


def test_a_class_has_a_name_of_its_own() -> None:
    homes: dict[str, list[str]] = {}
    for module in SOURCES:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    homes = {name: where for name, where in homes.items() if set(where) != VERSIONS}
    assert {name: where for name, where in homes.items() if len(where) > 2} == {}
    assert {name for name, where in homes.items() if len(where) > 1} == set(SHARED_NAMES)
