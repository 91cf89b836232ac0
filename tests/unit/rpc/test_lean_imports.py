# SPDX-License-Identifier: Apache-2.0
"""The driver for RabbitMQ uses public parts of its libraries, and what ``oslo_drivers`` takes from oslo.messaging."""

from __future__ import annotations

import ast
import importlib.metadata
import pathlib

from fleet.rpc import oslo_drivers, rabbit

#: The releases whose private interface for drivers ``oslo_drivers`` was tested with.
TESTED = ("17.", "18.")
#: What a class of the library has for those that are derived from it.
INHERITED = {"super()._create_listener", "super()._process_incoming"}


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


def test_the_tested_releases() -> None:
    """A new major release of oslo.messaging is looked at before it is used."""
    assert importlib.metadata.version("oslo.messaging").startswith(TESTED)
    assert oslo_drivers.BaseDriver.__module__ == "oslo_messaging._drivers.base"
