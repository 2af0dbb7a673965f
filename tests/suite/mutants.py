"""Which mistakes would the tests notice? `python -m tests.suite.mutants`, by hand; see CONTRIBUTING.md.

A copy of the code in build/mutants/tree is changed in one place at a time, by a generated mutant or a planted bug, and
the tests that cover that place run until one fails. Which tests cover a line, and how long each takes, is measured
once, folder by folder, with compiled twins off, and kept in build/mutants/map beside the copy; `--map` copies and
measures anew. Processes that tests start are not measured: a line that runs only there is "not covered".
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import coverage
import pytest
from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "mutants"
TREE, MAP = BUILD / "tree", BUILD / "map"

MUTATED = ("hub", "peers/wire", "peers/websocket", "peers/journal", "peers/zeek")

TWINS = "uvloop,hub.messages._runs,hub.journal._packing,hub.requests._block,peers.client._plain,peers.zeek.zmtp._zmtp"

BUDGET_S = 60.0  # Tests of one mutant are taken, the fastest first, until they take so long together

HANGS_S = 25  # A test that takes so long hangs, which counts as failed: the usual limit of a test is ten times as long

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip

SWAPPED: dict[type[ast.operator], ast.operator] = {ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.FloorDiv()}


class Mutant(NamedTuple):
    """One change of the code. Its key does not name line and file, so that it survives moved code."""

    path: str
    line: int
    last_line: int
    kind: str
    function: str
    change: str
    start: int
    end: int
    text: str
    key: str


# Making mutants.


def mutants_of(path: str, source: str) -> list[Mutant]:
    starts = [0]
    for row in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    seen: Counter[str] = Counter()
    found: list[Mutant] = []
    for function, node, kind, text in _changes(ast.parse(source), ""):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before = ast.unparse(node)
        name = f"{kind} in {function}: {before} -> {text}"
        seen[name] += 1
        key = f"{name} #{seen[name]}"
        change = f"{before} -> {text}"
        last = node.end_lineno or node.lineno
        found.append(Mutant(path, node.lineno, last, kind, function, change, start, end, text, key))
    return found


Change = tuple[str, ast.expr | ast.stmt, str, str]


def _changes(node: ast.AST, function: str) -> Iterator[Change]:
    """Yield the function, the node, the kind and the new text of each change below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{function}.{child.name}".lstrip(".")
            if not _is_stub(child):
                yield from _changes(child, name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and child in node.body:
            yield from _below(child, function)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.If) and isinstance(child, ast.If | ast.Try):
            yield from _changes(child, function)


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    names = {ast.unparse(each).rpartition(".")[2].partition("[")[0] for each in node.decorator_list}
    return "overload" in names or (
        isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases)
    )


def _below(node: ast.AST, function: str) -> Iterator[Change]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _changes(node, f"{function}.{node.name}")
        return
    if _is_left_alone(node):
        return
    for kind, new in _new_forms(node):
        assert isinstance(node, ast.expr | ast.stmt)
        yield function, node, kind, ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
    for child in ast.iter_child_nodes(node):
        is_negated = isinstance(node, ast.If | ast.While | ast.IfExp) and child is node.test
        if is_negated and isinstance(child, ast.expr) and not isinstance(child, ast.Compare):
            yield function, child, "negated condition", f"(not ({ast.unparse(child)}))"
        if not (isinstance(node, ast.AnnAssign) and child is node.annotation):
            yield from _below(child, function)


def _is_left_alone(node: ast.AST) -> bool:
    """Return whether tests need not notice a change: documentation, logging, texts of errors, what is for types."""
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Constant):
            return True
        text = ast.unparse(node.value)
        return bool(re.match(r"(self\.)?_?(log|logger|\w*_log)\b", text))
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in {"cast", "assert_never", "TypeVar"}
    return isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.arguments | ast.Global | ast.Nonlocal)


def _new_forms(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt]]:  # noqa: C901 -- a table
    changed: Any = copy.copy(node)
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in FLIPPED:
            changed.ops = [FLIPPED[type(op)](), *node.ops[1:]]
            yield "comparison", changed
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "boundary", ast.Constant(value + 1)
        case ast.Constant(value=str(value) | bytes(value)) if value:
            yield "constant", ast.Constant(value[:0])
        case ast.BoolOp(op=op):
            changed.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "operator", changed
        case ast.BinOp(op=op) if type(op) in SWAPPED:
            changed.op = SWAPPED[type(op)]
            yield "operator", changed
        case ast.Return(value=ast.expr()) if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "returned None", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete() | ast.Continue():
            yield "deleted statement", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "deleted statement", ast.Pass()
        case ast.Call(args=[first, second, *rest]) if not any(isinstance(each, ast.Starred) for each in node.args[:2]):
            if ast.dump(first) != ast.dump(second):
                changed.args = [second, first, *rest]
                yield "swapped arguments", changed


def generated(count: int, seed: int) -> list[Mutant]:
    everything: list[Mutant] = []
    for folder in MUTATED:
        for file in sorted((TREE / folder).rglob("*.py")):
            everything += mutants_of(str(file.relative_to(TREE)), file.read_text())
    return sorted(everything, key=lambda one: hashlib.sha256(f"{seed} {one.key}".encode()).digest())[:count]


def planted(folder: Path) -> list[Mutant]:
    """Return the planted bugs of a folder: patches, each of one file, named by what breaks."""
    found: list[Mutant] = []
    for file in sorted(folder.glob("*.patch")):
        patch = file.read_text()
        (path,) = re.findall(r"^\+\+\+ b/(.*)$", patch, re.MULTILINE)
        rows = (TREE / path).read_text().splitlines()
        body = patch.partition("\n@@ ")[2].splitlines()[1:]
        kept = [row for row in body if not row.startswith("+")]
        before = [row[1:] for row in kept]
        start = next(at for at in range(len(rows)) if rows[at : at + len(before)] == before)  # It may have moved
        gone = [place for place, row in enumerate(kept) if row.startswith("-")]
        if not gone:  # Rows are only added: the one before them tells
            gone = [next(place for place, row in enumerate(body) if row.startswith("+")) - 1]
        first, last = start + 1 + gone[0], start + 1 + gone[-1]
        found.append(Mutant(path, first, last, "planted", file.stem, file.stem, 0, 0, patch, f"planted {file.stem}"))
    return found


def change(mutant: Mutant) -> None:
    path = TREE / mutant.path
    if mutant.kind == "planted":
        apart = {"GIT_CEILING_DIRECTORIES": str(BUILD), "GIT_DIR": str(BUILD / "none")}
        subprocess.run(
            ["git", "apply", "-"], cwd=TREE, input=mutant.text, text=True, check=True, env=os.environ | apart
        )
    else:
        data = path.read_bytes()
        path.write_bytes(data[: mutant.start] + mutant.text.encode() + data[mutant.end :])
    compile(path.read_text(), mutant.path, "exec")


# Which tests cover a line.


class _Measuring:
    """Notes for each test which lines it runs, how long it takes, and whether it passes; a plugin of pytest."""

    def __init__(self, name: str, file: Path) -> None:
        self._file = file
        self._times: dict[str, float] = {}
        self._failed: set[str] = set()
        include = [f"{TREE}/hub/*", f"{TREE}/peers/*"]
        self._coverage = coverage.Coverage(data_file=str(MAP / name), include=include, branch=False, config_file=False)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._times[report.nodeid] = self._times.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        times = {test: time_s for test, time_s in self._times.items() if test not in self._failed}
        self._file.write_text(json.dumps(times))


def measure(folders: list[str], timeout_s: float) -> None:
    MAP.mkdir(parents=True, exist_ok=True)
    if not TREE.exists():
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(lambda name: (ROOT / name).is_file(), listed.splitlines()):
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name)
    for folder in track(folders, "measuring", console=Console(stderr=True)):
        name = folder.replace("/", ".")
        times = MAP / f"{name}.json"
        if not times.exists():
            arguments = [folder, "-m", "not slow"]
            if _in_child(arguments, lambda: _Measuring(name, times), timeout_s) is None:  # noqa: B023 -- called at once
                Console(stderr=True).print(f"{folder}: not measured within {timeout_s} s")


class Cover:
    def __init__(self) -> None:
        files = sorted(MAP.glob("*.json"))
        self._times: dict[str, float] = {}
        for file in files:
            self._times |= json.loads(file.read_text())
        self._data = [coverage.CoverageData(str(file.with_suffix(""))) for file in files]
        for data in self._data:
            data.read()

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that run one of the mutant's lines, modules together, as long as the budget lasts."""
        lines = range(mutant.line, mutant.last_line + 1)
        found: set[str] = set()
        for data in self._data:
            contexts = data.contexts_by_lineno(str(TREE / mutant.path))
            found.update(chain.from_iterable(contexts.get(line, ()) for line in lines))
        modules: dict[str, list[str]] = {}
        for test in sorted(found & self._times.keys(), key=lambda test: (self._times[test], test)):
            modules.setdefault(test.partition("::")[0], []).append(test)
        chosen: list[str] = []
        spent_s = 0.0
        mean = {module: sum(map(self._times.__getitem__, tests)) / len(tests) for module, tests in modules.items()}
        for test in chain.from_iterable(modules[module] for module in sorted(modules, key=lambda each: mean[each])):
            spent_s += self._times[test]
            if chosen and spent_s > BUDGET_S:
                break
            chosen.append(test)
        return chosen


# Running tests.


class _Chosen:
    """Runs some tests, in their order, and knows the first that fails; a plugin of pytest."""

    def __init__(self, tests: list[str]) -> None:
        self._order = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            (BUILD / "failed").write_text(report.nodeid)


def _in_child(arguments: list[str], plugin: Callable[[], object], timeout_s: float) -> int | None:
    """Run pytest in a fork, which knows pytest and nothing of the hub; return its exit code, None for a time-out."""
    child = os.fork()
    if not child:
        code = 3
        try:
            os.setsid()
            os.chdir(TREE)
            sys.path[:] = [str(TREE), *(each for each in sys.path if each not in {"", str(ROOT)})]
            for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.")]:
                del sys.modules[name]
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            code = int(pytest.main([*arguments, "-q", "-p", "no:cacheprovider"], plugins=[plugin()]))
        finally:
            os._exit(code)
    ends_s = time.monotonic() + timeout_s
    while time.monotonic() < ends_s:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def judge(mutant: Mutant, tests: list[str], timeout_s: float) -> dict[str, Any]:
    begun_s = time.monotonic()
    path, failed = TREE / mutant.path, BUILD / "failed"
    sound = path.read_bytes()
    failed.unlink(missing_ok=True)
    outcome, by = "not covered", ""
    if tests:
        try:
            change(mutant)
            modules = sorted({test.partition("::")[0] for test in tests})
            code = _in_child(["-x", "--timeout", str(HANGS_S), *modules], lambda: _Chosen(tests), timeout_s)
        finally:
            path.write_bytes(sound)
        outcome = {0: "survived", 5: "not covered"}.get(-1 if code is None else code, "killed")  # 5: none was found
        if outcome == "killed":
            by = failed.read_text() if failed.exists() else "time-out" if code is None else "import"
    told = {name: getattr(mutant, name) for name in ("path", "line", "kind", "function", "change", "key")}
    return told | {"outcome": outcome, "by": by, "tests": len(tests), "took_s": round(time.monotonic() - begun_s, 2)}


def compare(old: Path, new: Path) -> list[str]:
    """Return the mutants that were killed and are not killed any more; those whose code has gone do not count."""
    killed = {one["key"] for one in _results(old) if one["outcome"] == "killed"}
    return [
        f"{one['path']}:{one['line']}: {one['change']}: {one['outcome']}"
        for one in _results(new)
        if one["outcome"] != "killed" and one["key"] in killed
    ]


def _results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _show(results: Iterable[dict[str, Any]]) -> None:
    table = Table("kind", "mutants", "killed", "survived", "not covered", "median s")
    rows: dict[str, list[dict[str, Any]]] = {}
    for one in results:
        for kind in (one["kind"], "all"):
            rows.setdefault(kind, []).append(one)
    for kind, found in sorted(rows.items()):
        counts = Counter(one["outcome"] for one in found)
        figures = (len(found), *(counts[name] for name in ("killed", "survived", "not covered")))
        table.add_row(kind, *map(str, figures), str(median(one["took_s"] for one in found)))
    Console(width=100).print(table)


def main() -> int:
    """Measure what is not measured, run what has no result yet, show all of it, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="folders of tests to measure; all but slow ones without")
    parser.add_argument("--count", type=int, default=300, help="how many mutants are generated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--planted", type=Path, help="folder of planted bugs, such as tests/suite/planted")
    parser.add_argument("--only", default="", help="planted bugs whose names hold this")
    parser.add_argument("--result", type=Path, default=BUILD / "result.jsonl", help="a line of JSON a mutant; goes on")
    parser.add_argument("--since", type=Path, help="an older result: exit code 1 if a mutant that was killed lives now")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for the tests of one mutant")
    parser.add_argument("--map", action="store_true", help="copy the code and measure it anew")
    given = parser.parse_args()
    if os.environ.get("WITHOUT") != TWINS:  # of a new interpreter, so that nothing is imported yet
        without = {"WITHOUT": TWINS, "PYTHONPATH": str(ROOT / "tests" / "without"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "tests.suite.mutants", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | without)  # noqa: S606 -- this program itself
    if given.map:
        shutil.rmtree(BUILD, ignore_errors=True)
    usual = [f"tests/{path.name}" for path in sorted((ROOT / "tests").iterdir()) if any(path.rglob("test_*.py"))]
    measure([each.rstrip("/") for each in given.tests or usual], 3_600.0)
    cover = Cover()
    wanted = generated(given.count, given.seed)
    if given.planted:
        wanted += [one for one in planted(given.planted.resolve()) if given.only in one.function]
    done = {one["key"] for one in _results(given.result)}
    todo = [one for one in wanted if one.key not in done]
    random.Random(given.seed).shuffle(todo)  # noqa: S311 -- so that what is done so far tells of the whole
    given.result.parent.mkdir(parents=True, exist_ok=True)
    with given.result.open("a") as file:
        for mutant in track(todo, "mutants", console=Console(stderr=True)):
            print(json.dumps(judge(mutant, cover.tests(mutant), given.timeout)), file=file, flush=True)
    keys = {one.key for one in wanted}
    _show(one for one in _results(given.result) if one["key"] in keys)
    worse = compare(given.since, given.result) if given.since else []
    for line in worse:
        Console(width=200).print(line, markup=False, highlight=False)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
