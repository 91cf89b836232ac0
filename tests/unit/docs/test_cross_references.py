# SPDX-License-Identifier: Apache-2.0
"""Docstrings and comments name modules, classes and functions that exist: a reference that is dead misleads its reader."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import importlib.util
import inspect
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PACKAGES = (
    "compute_agent", "conductor_stub", "fleet", "fleet_api", "fleet_cli", "fleet_trial", "scheduler", "volume_agent",
)  # fmt: skip
#: Alembic runs its env.py itself; it cannot be imported.
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.name != "env.py")
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([\w.]+)`")
#: The callers that a module names in the first lines of its docstring
_CALLERS = re.compile(r"Called by ((?:and |modules of |:mod:`[\w.]+`(?:,\s*|\s*))+)\.")
#: First words of a docstring that leave its subject open
_QUESTIONS = "How|Why|Where|Which|When|Whenever|What|Whatever|Who|Whoever|Whose|Whether|Those"
_DOTTED = re.compile(rf"``((?:{'|'.join(PACKAGES)})(?:\.\w+)+)(?:\(\))?``")
#: Names of files, and the placeholder NAME
_NO_MODULE = re.compile(r"\.(?:service|sample|conf|yaml|json|ini|d|NAME)$")


@pytest.mark.parametrize("package", PACKAGES)
def test_references_of_docstrings_lead_somewhere(package: str) -> None:
    dead = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        if path.relative_to(ROOT).parts[0] == package
        for name in _dead(path)
    ]
    assert not dead, "\n".join(dead)


def test_a_dead_reference_is_found() -> None:
    assert not _is_there("fleet.states.NO_SUCH_STATE", "fleet", {})
    assert not _is_there("no_such_function", "fleet.states", {})
    assert _is_there("fleet.states", "fleet", {})
    assert _is_there("ACTIVE", "fleet.states", {})


def test_a_caller_that_a_module_names_imports_it() -> None:
    """By its name, or by a name of its package: a caller that has gone misleads the reader."""
    gone = [
        f"{path.relative_to(ROOT)}: {caller}"
        for path in MODULES
        if "Called by" in _text(path)
        for callers in _CALLERS.findall(" ".join(_docstring(path).split()))
        for caller in _ROLE.findall(callers)
        if not any(re.search(rf"\b{path.stem}\b", _text(each)) for each in _files(caller))
    ]
    assert not gone, "\n".join(gone)


@functools.cache
def _text(path: pathlib.Path) -> str:
    return path.read_text()


@functools.cache
def _docstring(path: pathlib.Path) -> str:
    return ast.get_docstring(ast.parse(_text(path))) or ""


def _files(module: str) -> list[pathlib.Path]:
    """The file of a module, or those of a package."""
    path = ROOT.joinpath(*module.split("."))
    return sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def _dead(path: pathlib.Path) -> list[str]:
    text = _text(path)
    named = {*_ROLE.findall(text), *(name for name in _DOTTED.findall(text) if not _NO_MODULE.search(name))}
    if not named:
        return []
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    imported = _imports(ast.parse(text))
    return sorted(name for name in named if not _is_there(name, module, imported))


def _imports(tree: ast.Module) -> dict[str, str]:
    """Name in the module → dotted path, also of what is imported for types only."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
        elif isinstance(node, ast.Import):
            found.update({(each.asname or each.name): each.name for each in node.names})
    return found


def _is_there(name: str, module: str, imported: dict[str, str]) -> bool:
    package = module.rpartition(".")[0]
    if name.startswith("."):
        return _resolves(f"{package}{name}")
    first, _, rest = name.partition(".")
    if hasattr(builtins, first):
        return True
    near = imported[first] + (f".{rest}" if rest else "") if first in imported else f"{module}.{name}"
    return any(_resolves(path) for path in (near, name, f"{package}.{name}")) or _is_member(name, module)


@functools.cache
def _resolves(path: str) -> bool:
    parts = path.split(".")
    for number in range(len(parts), 0, -1):
        module = ".".join(parts[:number])
        try:
            there = importlib.util.find_spec(module) is not None
        except (ImportError, ValueError):
            continue
        if there:
            return _has(importlib.import_module(module), parts[number:])
    return False


def _has(value: object, names: list[str]) -> bool:
    for name in names:
        if not hasattr(value, name):
            fields = (*getattr(value, "__annotations__", ()), *getattr(value, "__dataclass_fields__", ()))
            return name in fields or f"self.{name}" in _source(value)
        value = getattr(value, name)
    return True


def _source(value: object) -> str:
    """Return the text of the module that defines a class or function; "" for other values."""
    file = getattr(inspect.getmodule(value), "__file__", None) if callable(value) else None
    return _text(pathlib.Path(file)) if file and file.endswith(".py") else ""


def _is_member(name: str, module: str) -> bool:
    """A method or field of a class in the module may be named without its class."""
    return "." not in name and any(
        _has(value, [name]) for value in vars(importlib.import_module(module)).values() if isinstance(value, type)
    )


def test_a_docstring_names_its_subject() -> None:
    """A docstring that begins with a question word leaves the reader to guess what the thing is or does."""
    vague = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in MODULES
        for number, line in enumerate(_text(path).splitlines(), 1)
        if re.match(rf'\s*"""({_QUESTIONS})\b', line)
    ]
    assert not vague, "\n".join(vague)


def test_the_docstring_of_a_module_has_a_second_sentence() -> None:
    """The first sentence describes the module, and the second one its callers. Short modules and options need none."""
    alone = [
        str(path.relative_to(ROOT))
        for path in MODULES
        if path.name not in ("__init__.py", "conf.py") and "versions" not in path.parts
        if len(_text(path).splitlines()) > 25
        if not re.search(r"\.\s+\S", _docstring(path))
    ]
    assert not alone, "\n".join(alone)
