# SPDX-License-Identifier: Apache-2.0
"""The schemas of answers that Tempest's released package has. Only its files are read: nothing of it is imported here
but the modules of ``tempest.lib.api_schema``, which import nothing else.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

_ROOT = pathlib.Path(__file__).parents[2]
#: Virtual environments that may have the package: ``make client`` and ``make tempest`` create them.
_VENVS = (os.environ.get("FLEET_CLIENT_VENV", str(_ROOT / ".venv-client")), str(_ROOT / ".venv-tempest"))
_RESPONSES = "tempest.lib.api_schema.response"
Version = tuple[int, int]


def package() -> pathlib.Path | None:
    """Return the directory that holds the package ``tempest``, or None if it is not installed."""
    for venv in _VENVS:
        for found in sorted(pathlib.Path(venv).glob("lib/python*/site-packages/tempest/lib/api_schema")):
            return found.parents[2]
    return None


class Schemas:
    """:param directory: see :func:`package`"""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._responses = directory / _RESPONSES.replace(".", "/")

    def of(self, service: str, module: str, name: str, version: Version) -> dict[str, Any] | None:
        """Return the schema of an answer: the newest one that is no newer than the version; None: there is none.

        :param service: ``compute`` or ``volume``
        :param module: of the package, such as ``servers``
        """
        for _, path in sorted(self._files(service, module, version), reverse=True):
            found = getattr(self._module(path), name, None)
            if found is not None:
                return dict(found)
        return None

    def _files(self, service: str, module: str, version: Version) -> Iterator[tuple[Version, str]]:
        for file in (self._responses / service).glob(f"v*/{module}.py"):
            major, _, minor = file.parent.name.removeprefix("v").partition("_")
            if (since := (int(major), int(minor))) <= version:
                yield since, f"{_RESPONSES}.{service}.{file.parent.name}.{module}"
        if (self._responses / service / f"{module}.py").exists():
            yield (0, 0), f"{_RESPONSES}.{service}.{module}"

    def _module(self, name: str) -> types.ModuleType:
        sys.path.append(str(self._directory))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(str(self._directory))
