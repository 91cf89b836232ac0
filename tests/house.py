# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.house`` describes the house in figures: its rooms, its sizes, and what is not typed or not its own.

A room is a module or a package directly inside of a package; an arrow is that one room imports another; the floors are the
rooms on the longest way of arrows.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping

import grimp

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = (
    *("fleet", "fleet_api", "fleet_cli", "fleet_trial"),
    *("scheduler", "conductor_stub", "compute_agent", "volume_agent"),
)
#: Packages whose rooms are counted.
_BUILDINGS = ("scheduler", "fleet", "fleet.db", "fleet_api", "fleet_cli")
#: Names that only stand for what is elsewhere, for files of operators that know nova's or cinder's paths.
_FACES = frozenset(
    "filters weights filter_scheduler driver host_manager chance caching_scheduler".split()  # noqa: SIM905
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def main() -> None:
    graph = grimp.build_graph(*PACKAGES)
    for building in _BUILDINGS:
        rooms, arrows = plan(graph, building)
        print(
            f"{building}: {len(rooms)} rooms on {floors(rooms, arrows)} floors, {sum(map(len, arrows.values()))} arrows"
        )
    total, untyped = 0, 0
    for package in PACKAGES:
        texts = [file.read_text() for file in sorted((ROOT / package).rglob("*.py"))]
        lines, words = sum(text.count("\n") for text in texts), sum(len(re.findall(r"\bAny\b", text)) for text in texts)
        print(f"{package}: {len(texts)} files, {lines} lines, {100 * words / lines:.2f} Any per 100 lines")
        total, untyped = total + lines, untyped + words
    print(f"together: {total} lines, {100 * untyped / total:.2f} Any per 100 lines")
    files = {str(file.relative_to(ROOT)): file.read_text() for name in PACKAGES for file in (ROOT / name).rglob("*.py")}
    print("longest file:", *max((text.count("\n"), name) for name, text in files.items()))
    of_now = {name: text for name, text in files.items() if "/migrations/" not in name}
    for what, kinds in (("function", _FUNCTIONS), ("class", (ast.ClassDef,))):
        print(f"longest {what}:", *max(each for name, text in of_now.items() for each in _sizes(name, text, kinds)))
    private = sorted({each for name, text in files.items() for each in _imports_of_private_modules(name, text)})
    print(f"imports from private modules of others: {len(private)}", *private, sep="\n  ")


def plan(graph: grimp.ImportGraph, building: str) -> tuple[Collection[str], Mapping[str, Collection[str]]]:
    """Return the rooms of a package, and to which others the arrows of each lead."""
    rooms = {each for each in graph.find_children(building) if each.rpartition(".")[2] not in _FACES}
    within = {room: graph.find_descendants(room) | {room} for room in rooms}
    home = {module: room for room, modules in within.items() for module in modules}
    arrows: dict[str, set[str]] = {room: set() for room in rooms}
    for module, room in home.items():
        imported = graph.find_modules_directly_imported_by(module)
        arrows[room] |= {home[each] for each in imported if each in home} - {room}
    return rooms, arrows


def floors(rooms: Collection[str], arrows: Mapping[str, Collection[str]]) -> int:
    """:raises RecursionError: the arrows lead in a circle"""

    @functools.cache
    def height(room: str) -> int:
        return 1 + max(map(height, arrows[room]), default=0)

    return max(map(height, rooms))


def _sizes(name: str, text: str, kinds: tuple[type[ast.AST], ...]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{name} {node.name}"


def _imports_of_private_modules(name: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and "._" in (node.module or ""):
            yield from (f"{name}: {node.module}.{each.name}" for each in node.names)


if __name__ == "__main__":
    main()
