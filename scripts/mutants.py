"""Changes lines of the package one at a time and reports the changes that no test notices.

``make mutants MODULES="arcp_client/_link" SAMPLE=20 SEED=1`` takes 20 changes of that folder, runs
for each one the tests that reach its line, and prints those after which every test still passes.
It works in copies of the tree. In each, one process loads pytest and the libraries and forks for
each run of tests; the fork imports the package. Which tests reach a line is measured once for a
state of the tree and kept in ``build/mutants``.

A change that alters nothing a test could see is an equivalent: `EQUIVALENTS` names it and says why.

Exit codes: 0 each change was noticed, 1 one was not, 2 the arguments or the tests are at fault.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Self

import coverage

ROOT = Path(__file__).parents[1]
EQUIVALENTS = Path(__file__).with_name("equivalent_mutants.toml")
TESTS = ("tests/unit", "tests/property", "tests/contract", "tests/faults")
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "__pycache__", "_build", ".*_cache", ".hypothesis"
)
_FIRST = 40
"""How many of the closest tests are run before the others."""
_GRACE = 60.0
"""Seconds that tests may take beyond four times what they have taken before."""
OUTCOMES = "MUTANTS_OUTCOMES"
"""The environment variable that names the file for outcomes and durations of tests."""
FORKS = "MUTANTS_FORKS"
"""The environment variable with the descriptor on which a process is asked to fork."""
LIBRARIES = (
    *("aiohttp.web", "hypothesis.stateful", "msgspec.json", "pydantic.fields", "pydantic.main"),
    "reactivex",
)
"""What is imported before the forks: the imports of many tests that take the longest."""
_PYTEST = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]

# ------------------------------------------------------------------------- changes

_COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_COUNTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
}


class Mutant(NamedTuple):
    """One change of one file.

    Attributes:
        path: of the file, relative to the root.
        line: the first line that changes.
        lines: one of these must run for the change to show.
        start: where the replaced bytes begin.
        end: where they end.
        text: what replaces them.
        kind: of change.
    """

    path: str
    line: int
    lines: tuple[int, ...]
    start: int
    end: int
    text: str
    kind: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def difference(self, source: bytes) -> tuple[str, str]:
        """The lines that change, before and after."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.end)
        last = len(source) if last < 0 else last
        after = source[first : self.start] + self.text.encode() + source[self.end : last]
        return source[first:last].decode(), after.decode()


class _Finder(ast.NodeVisitor):
    """Finds the changes that can be made to one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines: tuple[int, ...] = ()

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            before, self._lines = self._lines, (node.lineno,)
            super().visit(node)
            self._lines = before
        else:
            super().visit(node)

    # what has no meaning at run time, or is worded differently each time

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in ("__repr__", "__str__"):
            return
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self._negate(node.test)
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    # changes

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left: ast.expr = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if (pair := _COMPARED.get(type(operator))) is not None:
                self._between(left, right, *pair, "comparison")
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        pair = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self._between(node.values[0], node.values[1], *pair, "and/or")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if (pair := _COUNTED.get(type(node.op))) is not None and not _textual(node):
            self._between(node.left, node.right, *pair, "arithmetic")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._delete(node)
        if (pair := _COUNTED.get(type(node.op))) is not None:
            old, new = pair
            self._between(node.target, node.value, f"{old}=", f"{new}=", "arithmetic")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._delete(node)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._delete(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        called = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(called, ast.Call):
            self._delete(node)
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace(node, "pass", "raise")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        value = node.value.value if isinstance(node.value, ast.Constant) else ...
        if not isinstance(value, bool) and value is not None:
            self._replace(node.value, "None", "return")
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value), "constant")
        elif isinstance(node.value, int):
            self._replace(node, str(node.value + 1), "constant")
            if node.value > 0:
                self._replace(node, str(node.value - 1), "constant")

    def _negate(self, test: ast.expr) -> None:
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            bounds = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
            if not isinstance(test.ops[0], bounds):
                return  # the comparison's own change is the same
        self._replace(test, f"not ({self._text(test)})", "condition")

    def _delete(self, node: ast.stmt) -> None:
        self._replace(node, "pass", "deleted")

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _replace(self, node: ast.expr | ast.stmt, text: str, kind: str) -> None:
        self._add(*self._span(node), text, kind, node.lineno)

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str) -> None:
        _, start = self._span(left)
        end, _ = self._span(right)
        at = self._source.find(old.encode(), start, end)
        if at >= 0:
            line = left.lineno + self._source.count(b"\n", self._span(left)[0], at)
            self._add(at, at + len(old), new, kind, line)

    def _add(self, start: int, end: int, text: str, kind: str, line: int) -> None:
        lines = (*self._lines, line) if line not in self._lines else self._lines
        self.found.append(Mutant(self._path, line, lines, start, end, text, kind))


def _textual(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


def mutants(path: str, source: bytes) -> list[Mutant]:
    """Every change of a file that this knows how to make."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return finder.found


def _compiles(mutant: Mutant, source: bytes) -> bool:
    try:
        compile(mutant.applied(source), mutant.path, "exec")
    except SyntaxError:
        return False
    return True


class Equivalents:
    """Changes that alter nothing a test could see, each by its file and its changed lines.

    ``was``, the lines before the change, is for changes whose result other lines have too.
    """

    def __init__(self, path: Path) -> None:
        entries = tomllib.loads(path.read_text()).get("mutant", []) if path.exists() else []
        self._known = {
            (entry["file"], _squeezed(entry.get("was", "")), _squeezed(entry["becomes"]))
            for entry in entries
        }

    def __contains__(self, found: tuple[str, str, str]) -> bool:
        path, before, after = found[0], _squeezed(found[1]), _squeezed(found[2])
        return (path, "", after) in self._known or (path, before, after) in self._known


def _squeezed(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------------- tests


class Test(NamedTuple):
    """A test that passes on the tree as it is, and the seconds that it takes."""

    name: str
    seconds: float


class Reach:
    """Which tests run a line.

    Attributes:
        passed: the tests that can be used, by name.
    """

    def __init__(self, data: Path, outcomes: Path) -> None:
        self.passed: dict[str, Test] = {}
        for row in outcomes.read_text().splitlines():
            name, passed, seconds = json.loads(row)
            if passed:
                self.passed[name] = Test(name, seconds)
        self._data = coverage.CoverageData(basename=str(data))
        self._data.read()
        self._lines: dict[str, dict[int, set[str]]] = {}

    def of(self, mutant: Mutant) -> list[Test]:
        """Those that run its lines; for what runs on import, all that run any line of the file."""
        lines = self._of_file(mutant.path)
        names: set[str] = set()
        for line in mutant.lines:
            names |= lines.get(line, set())
        if "" in names:
            names = set().union(*lines.values())
        return [self.passed[name] for name in names if name in self.passed]

    def _of_file(self, path: str) -> dict[int, set[str]]:
        if path not in self._lines:
            found = {
                line: {context.partition("|")[0] for context in contexts}
                for name in self._data.measured_files()
                if name.endswith(path)
                for line, contexts in self._data.contexts_by_lineno(name).items()
            }
            self._lines[path] = found
        return self._lines[path]


def chosen(tests: Iterable[Test], path: str, budget: float) -> list[Test]:
    """Tests of at most so many seconds: those of the module first, then those of its folder."""
    part = path.removeprefix("arcp_client/").partition("/")[0].strip("_").removesuffix(".py")
    own = f"test_{Path(path).stem.strip('_')}.py"

    def rank(test: Test) -> tuple[bool, bool, float]:
        file = test.name.partition("::")[0]
        return not file.endswith(own), part not in file, test.seconds

    taken: list[Test] = []
    for test in sorted(tests, key=rank):
        budget -= test.seconds
        if taken and budget < 0:
            break
        taken.append(test)
    return taken


class Copy:
    """A copy of the tree in which tests are run."""

    def __init__(self, root: Path, where: Path) -> None:
        self.path = where
        self._clock = time.time_ns()
        shutil.copytree(root, where, ignore=LEFT_OUT, symlinks=True)

    def write(self, path: str, source: bytes) -> None:
        """Write a file so that no compiled form of an earlier one is taken for it."""
        self._clock += 10**10
        (self.path / path).write_bytes(source)
        os.utime(self.path / path, ns=(self._clock, self._clock))

    def environment(self) -> dict[str, str]:
        """What tests in this copy see; compiled files are kept for the next run."""
        left_out = ("PYTEST_XDIST", "PYTHONDONTWRITEBYTECODE")
        outer = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        return {**outer, "PYTHONPATH": str(self.path), "HYPOTHESIS_PROFILE": "dev"}


class Forks:
    """Runs tests of a copy in forks of a process that has pytest and the libraries loaded.

    The process has not imported the package: a fork finds it as it then is, like a new process.
    """

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self._said = copy.path / ".said"
        shutil.copy(__file__, copy.path / "mutants_plugin.py")
        self._asked, theirs = Pipe()
        # To a file: processes that a test leaves behind must not hold a pipe open.
        with theirs, self._said.open("a") as said:
            self._process = subprocess.Popen(
                [*_PYTEST, "-x", "--timeout=30", "-p", "mutants_plugin", "."],
                cwd=copy.path, env={**copy.environment(), FORKS: str(theirs.fileno())},
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.close()
        self._process.wait()

    def passes(self, tests: Sequence[Test]) -> tuple[int | None, str]:
        """Run tests until one fails: the exit code, None after a time-out, and what pytest said."""
        os.truncate(self._said, 0)
        try:
            self._asked.send(sorted(test.name for test in tests))
            fork: int = self._asked.recv()
            in_time = self._asked.poll(_GRACE + 4 * sum(test.seconds for test in tests))
            if not in_time:
                os.killpg(fork, signal.SIGKILL)
            code: int = self._asked.recv()
        except (EOFError, OSError):
            said = self._said.read_text()
            raise SystemExit(f"the tests cannot be run:\n{said[-4000:]}") from None
        return code if in_time else None, self._said.read_text()


def pytest_collection(session: Any) -> None:
    """As a plugin of pytest: fork for each list of tests that is asked for, and run it there."""
    if FORKS not in os.environ:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in LIBRARIES:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    if any(name.partition(".")[0] == "arcp_client" for name in sys.modules):
        print("the package has been imported before the tests are collected", flush=True)
        os._exit(1)
    gc.freeze()
    with Connection(int(os.environ.pop(FORKS))) as asking:
        while True:
            try:
                tests = asking.recv()
            except EOFError:
                os._exit(0)
            if (fork := os.fork()) == 0:
                os.setsid()
                session.config.args = tests
                return
            asking.send(fork)
            os.waitid(os.P_PID, fork, os.WEXITED | os.WNOWAIT)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(fork, signal.SIGKILL)  # what the tests have left behind
            asking.send(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]))


def measured(root: Path, tests: Sequence[str], kept: Path, processes: int) -> Reach:
    """Which tests reach which line, from what is kept or by a run of them all."""
    kept.mkdir(parents=True, exist_ok=True)
    name = _digest(root, tests)
    data, outcomes = kept / f"{name}.coverage", kept / f"{name}.jsonl"
    if not (data.exists() and outcomes.exists()):
        print(f"measuring which lines {' '.join(tests)} reach", flush=True)
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            copy = Copy(root, Path(folder) / "tree")
            settings = copy.path / ".mutants-coverage"
            settings.write_text(f"[run]\nsource_pkgs = arcp_client\ndata_file = {folder}/data\n")
            shutil.copy(__file__, copy.path / "mutants_plugin.py")
            spread = ["--numprocesses", str(processes), "--dist", "loadfile"] if processes else []
            run = subprocess.run(
                [
                    *_PYTEST, *tests, *spread, "-p", "mutants_plugin", "--cov",
                    "--cov-context=test", f"--cov-config={settings}", "--cov-report=",
                ],
                cwd=copy.path, env={**copy.environment(), OUTCOMES: f"{folder}/outcomes"},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            )  # fmt: skip
            code, said = run.returncode, run.stdout + run.stderr
            if code not in (0, 1):
                raise SystemExit(f"the tests cannot be run:\n{said[-4000:]}")
            if code:
                print(said[-2000:], "\nthose that failed are left out", flush=True)
            shutil.move(f"{folder}/outcomes", outcomes)
            shutil.move(f"{folder}/data", data)
    return Reach(data, outcomes)


def _digest(root: Path, tests: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join(tests).encode())
    for folder in ("arcp_client", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def pytest_runtest_logreport(report: object) -> None:
    """As a plugin of pytest: note outcomes and durations of tests."""
    if OUTCOMES not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
        return
    phases = _phases.setdefault(report.nodeid, [])  # type: ignore[attr-defined]
    phases.append((report.when, report.outcome, report.duration))  # type: ignore[attr-defined]
    if report.when == "teardown":  # type: ignore[attr-defined]
        passed = all(outcome == "passed" for _, outcome, _ in phases)
        seconds = round(sum(duration for *_, duration in phases), 4)
        with Path(os.environ[OUTCOMES]).open("a") as file:
            print(json.dumps([report.nodeid, passed, seconds]), file=file)  # type: ignore[attr-defined]


_phases: dict[str, list[tuple[str, str, float]]] = {}

# ------------------------------------------------------------------------- judgement


class Judged(NamedTuple):
    """What came of one change: ``noticed``, ``survives``, ``not reached`` or ``equivalent``."""

    mutant: Mutant
    verdict: str
    note: str


class Judge:
    """Applies changes to copies of the tree, and runs the tests that reach them."""

    def __init__(self, root: Path, reach: Reach, known: Equivalents, budget: float) -> None:
        self._root = root
        self._reach = reach
        self._known = known
        self._budget = budget

    def of(self, mutant: Mutant, forks: Forks) -> Judged:
        source = (self._root / mutant.path).read_bytes()
        if (mutant.path, *mutant.difference(source)) in self._known:
            return Judged(mutant, "equivalent", "")
        reaching = self._reach.of(mutant)
        if not reaching:
            return Judged(mutant, "not reached", "")
        tests = chosen(reaching, mutant.path, self._budget)
        forks.copy.write(mutant.path, mutant.applied(source))
        try:
            # Most changes are noticed by the first few.
            for some in filter(None, (tests[:_FIRST], tests[_FIRST:])):
                code, said = forks.passes(some)
                if code != 0:
                    return Judged(mutant, "noticed", "time-out" if code is None else _failed(said))
        finally:
            forks.copy.write(mutant.path, source)
        return Judged(mutant, "survives", f"{len(tests)} of {len(reaching)} tests")


def _failed(said: str) -> str:
    for line in reversed(said.splitlines()):  # the summary comes last, behind logs of errors
        if line.startswith(("FAILED ", "ERROR ")):
            return line.partition(" ")[2].partition(" - ")[0]
    return "the tests do not start"


def sampled(root: Path, modules: Sequence[str], size: int, seed: int) -> list[Mutant]:
    """So many changes of each module, or all of them if size is 0; the same ones for a seed."""
    taken: list[Mutant] = []
    for path in _files(root, modules):
        source = (root / path).read_bytes()
        found = mutants(path, source)
        random.Random(f"{seed} {path}").shuffle(found)
        fitting = (mutant for mutant in found if _compiles(mutant, source))
        taken += islice(fitting, size or None)
    return sorted(taken)


def _files(root: Path, modules: Sequence[str]) -> Iterator[str]:
    for module in modules:
        place = root / module
        if not place.exists():
            raise SystemExit(f"{module}: no such file or folder")
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            yield path.relative_to(root).as_posix()


def judged(judge: Judge, root: Path, taken: Sequence[Mutant], processes: int) -> Iterator[Judged]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, contextlib.ExitStack() as stack:
        free: SimpleQueue[Forks] = SimpleQueue()
        for number in range(processes):
            free.put(stack.enter_context(Forks(Copy(root, Path(folder) / str(number)))))

        def one(mutant: Mutant) -> Judged:
            forks = free.get()
            try:
                return judge.of(mutant, forks)
            finally:
                free.put(forks)

        with ThreadPoolExecutor(processes) as pool:
            yield from pool.map(one, taken)


def report(root: Path, found: Iterable[Judged], verbose: bool) -> bool:
    """Print what survives, then a row for each module; True if each change was noticed."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, verdict, note in found:
        counts[mutant.path][verdict] += 1
        if verdict in ("survives", "not reached"):
            before, after = mutant.difference((root / mutant.path).read_bytes())
            print(f"{mutant.path}:{mutant.line}: {mutant.kind}, {verdict} {note}".rstrip())
            for sign, text in (("-", before), ("+", after)):
                print("\n".join(f"  {sign} {line.strip()}" for line in text.splitlines()))
        elif verbose:
            print(f"{mutant.path}:{mutant.line}: {mutant.kind}, {verdict} {note}".rstrip())
        sys.stdout.flush()
    total: Counter[str] = Counter()
    for path, count in sorted(counts.items()):
        total += count
        print(_row(path, count))
    print(_row("in all", total))
    return not total["survives"] and not total["not reached"]


def _row(name: str, count: Counter[str]) -> str:
    of = count["noticed"] + count["survives"] + count["not reached"]
    rate = f"{100 * count['noticed'] / of:.0f} %" if of else "–"
    said = f"{name:44} noticed {count['noticed']:4} of {of:4}  {rate:>5}"
    return f"{said}  equivalent {count['equivalent']}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("modules", nargs="+", help="files or folders below the root")
    parser.add_argument("--sample", type=int, default=10, help="changes of a module; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="+", default=TESTS, help="the tests to choose from")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for one change")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--equivalents", type=Path, default=EQUIVALENTS)
    parser.add_argument("--verbose", action="store_true", help="say too by which test")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    try:
        taken = sampled(root, options.modules, options.sample, options.seed)
        reach = measured(root, options.tests, root / "build" / "mutants", options.processes)
        judge = Judge(root, reach, Equivalents(options.equivalents), options.budget)
        found = judged(judge, root, taken, max(options.processes, 1))
        return 0 if report(root, found, options.verbose) else 1
    except SystemExit as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
