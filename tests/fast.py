# SPDX-License-Identifier: Apache-2.0
"""``make fast``: the unit tests of what differs from ``main``, for half a minute at most.

The import graph gives the tests that reach a changed module, and the number of imports between them. The nearest tests run,
as many as fit into the time; the last lines count the others. grimp draws the graph, as it does for import-linter, in half
a second from any checkout. pytest-testmon would choose single tests, but needs a traced run of all tests first, and does
not see what a test reads from files or starts as a process.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import grimp

from tests import costs

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = (
    "fleet",
    "scheduler",
    "conductor_stub",
    "compute_agent",
    "volume_agent",
    "fleet_api",
    "fleet_cli",
    "fleet_trial",
    "tests",
)
UNIT = "tests/unit/"
#: CPU seconds of the chosen tests, on two processors.
BUDGET_S = 36.0


def main() -> int:
    changed = sorted(changes(os.environ.get("BASE", "main")))
    sys.path.insert(0, str(ROOT))
    graph = grimp.build_graph(*PACKAGES, cache_dir=str(ROOT / ".import_linter_cache"))
    chosen, others = choose(distances(graph, changed), costs.known())
    _explain(changed, chosen, others)
    if not chosen:
        return 0
    processes = "0" if len(chosen) < 3 else os.environ.get("WORKERS", "2")
    options = [
        "-q",
        f"--numprocesses={processes}",
        "--dist=loadfile",
        "--no-loadscope-reorder",
        "--max-worker-restart=0",
    ]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *chosen], cwd=ROOT, check=False).returncode


def changes(base: str) -> set[str]:
    """Paths that differ between the working tree and its merge base with ``base``."""
    differing = _git("diff", "--name-only", "--no-renames", "--merge-base", base)
    return {*differing, *_git("ls-files", "--others", "--exclude-standard")}


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"make fast: git {arguments[0]} has failed; BASE=BRANCH names what to compare with\n{done.stderr}")
    return done.stdout.splitlines()


def distances(graph: grimp.ImportGraph, changed: Iterable[str]) -> dict[str, int]:
    """Return the files of unit tests that reach a changed path, with the number of imports between them."""
    found: dict[str, int] = {}
    near, steps = {module for path in changed for module in _modules(graph, path)}, 0
    seen = set(near)
    while near:
        for path in filter(_is_test, map(_path, near)):
            found.setdefault(path, steps)
        near = {user for module in near for user in _users(graph, module)} - seen
        seen |= near
        steps += 1
    for path in changed:
        for test in _readers(path):
            found[test] = min(1, found.get(test, 1))
    return {path: steps for path, steps in found.items() if (ROOT / path).exists()}


def _modules(graph: grimp.ImportGraph, path: str) -> list[str]:
    """Return the module of a path; of a path that is no Python file, the package that it lies in."""
    file = pathlib.PurePath(path)
    name = ".".join(
        file.parent.parts if file.suffix != ".py" or file.stem == "__init__" else file.with_suffix("").parts
    )
    return [name] if name in graph.modules else []


def _users(graph: grimp.ImportGraph, module: str) -> Iterator[str]:
    """Yield the modules that import ``module``. pytest imports a conftest for all tests beside it and below."""
    yield from graph.find_modules_that_directly_import(module)
    folder, _, name = module.rpartition(".")
    if name == "conftest":
        yield from (each for each in graph.find_descendants(folder) if _is_test(_path(each)))


def _readers(path: str) -> Iterator[str]:
    """Yield the tests that name a file which is no Python file, and those of the manual for all that it describes."""
    name = pathlib.PurePath(path).name
    if name.endswith(".py"):
        return
    for test in ROOT.glob(f"{UNIT}**/test_*.py"):
        if "docs" in test.relative_to(ROOT).parts or name in test.read_text():
            yield str(test.relative_to(ROOT))


def _path(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def _is_test(path: str) -> bool:
    return path.startswith(UNIT) and pathlib.PurePath(path).name.startswith("test_")


def choose(
    found: Mapping[str, int], seconds: Mapping[str, float], budget_s: float = BUDGET_S
) -> tuple[list[str], list[str]]:
    """Return the files that fit into the budget, nearest first and of equally near ones the cheapest; and the others."""
    chosen: list[str] = []
    left = sorted(found, key=lambda path: (found[path], seconds.get(path, costs.SMALL_S), path))
    while left and seconds.get(left[0], costs.SMALL_S) <= budget_s:
        budget_s -= seconds.get(left[0], costs.SMALL_S)
        chosen.append(left.pop(0))
    return chosen, left


def _explain(changed: Sequence[str], chosen: Sequence[str], others: Sequence[str]) -> None:
    print(
        f"{len(changed)} changed files; {len(chosen)} of {len(chosen) + len(others)} files of unit tests reach them and run"
    )
    if others:
        print(f"Left out for want of time, as farther away: {len(others)} files; make unit runs all")
    more = [path for path in changed if path.startswith("tests/") and "/test_" in path and not _is_test(path)]
    if more:
        print(f"Changed, and no unit tests: {' '.join(more)}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
