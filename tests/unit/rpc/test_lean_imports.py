# SPDX-License-Identifier: Apache-2.0
"""The lean driver uses public parts of its libraries, and two modules that every driver of oslo.messaging implements."""

from __future__ import annotations

import ast
import importlib.metadata
import pathlib

from fleet.rpc.rabbit import lean

#: The releases whose ``_drivers.base`` and ``_drivers.common`` the driver was tested with.
TESTED = ("17.", "18.")
ALLOWED = {"base", "common"}


def test_private_modules_of_oslo_messaging() -> None:
    """Nothing of ``oslo_messaging._drivers`` but ``base`` and ``common``, and no name with an underscore of others."""
    found = set()
    for file in pathlib.Path(lean.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("oslo_messaging._drivers"):
                found |= {alias.name for alias in node.names}
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                owner = node.value
                assert isinstance(owner, ast.Name), ast.unparse(node)
                assert owner.id in ("self", "cls") or owner.id in ALLOWED, ast.unparse(node)
    assert found <= ALLOWED


def test_the_tested_releases() -> None:
    """A new major release of oslo.messaging is looked at before it is used."""
    assert importlib.metadata.version("oslo.messaging").startswith(TESTED)
