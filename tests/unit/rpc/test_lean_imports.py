# SPDX-License-Identifier: Apache-2.0
"""The driver for RabbitMQ uses public parts of its libraries, and what ``oslo_drivers`` takes from oslo.messaging."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import pathlib

from fleet import rpc
from fleet.rpc import oslo_drivers, rabbit

#: The releases whose private interface for drivers ``oslo_drivers`` was tested with.
TESTED = ("17.", "18.")
#: What a class of the library has for those that are derived from it.
INHERITED = {"super()._create_listener", "super()._process_incoming"}
#: Private names of the library's classes that ours read or replace.
USED_OF_BASES = {
    *("_create_listener", "_on_incoming", "_process_incoming", "_executor_cls", "_work_executor", "_target"),
    *("_url", "_default_exchange", "_allowed_remote_exmods"),
}


def test_private_names_of_others() -> None:
    """Another module reads what is private of oslo.messaging."""
    found = set()
    for file in pathlib.Path(rabbit.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                found |= {node.module or ""} if "._" in (node.module or "") else set()
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                found |= {ast.unparse(node)} if ast.unparse(node.value) not in ("self", "cls") else set()
    assert INHERITED == found


def test_private_names_of_base_classes() -> None:
    """docs/decisions/driver-of-our-own.md says what classes that derive from those of oslo.messaging use of them."""
    of_base = {
        name
        for module in ("oslo_messaging.server", "oslo_messaging.rpc.server", "oslo_messaging._drivers.base")
        for name in _own_names(inspect.getsource(importlib.import_module(module)))
    }
    package = pathlib.Path(rpc.__path__[0])
    derived = [package / "rabbit/rpc_server.py", package / "rabbit/lean/driver.py", package / "local/driver.py"]
    used = {name for file in derived for name in _own_names(file.read_text())}
    assert USED_OF_BASES == used & of_base


def _own_names(source: str) -> set[str]:
    """Private names that methods read or write of ``self``, and private methods."""
    nodes = list(ast.walk(ast.parse(source)))
    read = {each.attr for each in nodes if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"}
    written = {each.name for each in nodes if isinstance(each, ast.FunctionDef)}
    return {name for name in read | written if name.startswith("_") and not name.startswith("__")}


def test_the_tested_releases() -> None:
    """A new major release of oslo.messaging is looked at before it is used."""
    assert importlib.metadata.version("oslo.messaging").startswith(TESTED)
    assert oslo_drivers.BaseDriver.__module__ == "oslo_messaging._drivers.base"
