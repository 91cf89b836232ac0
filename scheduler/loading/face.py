# SPDX-License-Identifier: Apache-2.0
"""Older dotted paths of packages, which files of operators and plugins of others name.

:mod:`scheduler.filters` and :mod:`scheduler.weights` are made by it.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType


def show(path: str, package: ModuleType) -> dict[str, ModuleType]:
    """Let the modules of ``package`` be imported by ``path`` too; return them by their names.

    They are the same modules: a class that is imported by either path is one class.
    """
    names = [each.name for each in pkgutil.iter_modules(package.__path__)]
    found = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}
    sys.modules.update({f"{path}.{name}": module for name, module in found.items()})
    return found
