# SPDX-License-Identifier: Apache-2.0
"""The files of filters and weighers in released wheels of nova and cinder, installed without what they depend on."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import subprocess
import sys
import zipfile
from typing import NamedTuple

import pytest

from scheduler.engine.plugins import BaseHostFilter, BaseHostWeigher, Plugin
from scheduler.loading import plugin_files

#: The oldest release of nova that a package index has, as 12 is not there any more, and the newest ones.
RELEASES = ("nova==15.1.5", "nova==34.0.0", "cinder==29.0.0")
#: Files that are no plugins, but what plugins import.
_NOT_PLUGINS = ("__init__.py", "utils.py", "extra_specs_ops.py", "stochastic.py")


class Named(NamedTuple):
    """A class of a plugin: ``release`` is ``nova15``, ``nova34`` or ``cinder29``."""

    release: str
    name: str


def unpack(directory: pathlib.Path) -> pathlib.Path:
    """Return a directory with a folder of plugin files, unedited, for each release and kind. Skips without an index."""
    wheels = directory / "wheels"
    plugins = directory / "plugins"
    for release in RELEASES:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), release]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            pytest.skip(f"NOT RUN: the wheel of {release} cannot be downloaded: {done.stderr.strip()[-300:]}")
        project, _mark, version = release.partition("==")
        (wheel,) = wheels.glob(f"{project}-{version}-*.whl")
        for kind in ("filters", "weights"):
            _unpack(wheel, f"{project}/scheduler/{kind}/", plugins / f"{project}{version.partition('.')[0]}_{kind}")
    return plugins


def _unpack(wheel: pathlib.Path, prefix: str, to: pathlib.Path) -> None:
    to.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            file = name.removeprefix(prefix)
            if name.startswith(prefix) and "/" not in file and file.endswith(".py") and file not in _NOT_PLUGINS:
                (to / file).write_bytes(archive.read(name))


def classes(plugins: pathlib.Path) -> dict[Named, type[Plugin]]:
    """Return every filter and weigher of the files. Each file is imported as an option would name it."""
    found: dict[Named, type[Plugin]] = {}
    for file in sorted(plugins.glob("*/*.py")):
        module = f"{file.parent.name}.{file.stem}"
        with plugin_files.their_configuration():
            content = vars(importlib.import_module(module))
        for name, each in sorted(content.items()):
            is_plugin = inspect.isclass(each) and issubclass(each, (BaseHostFilter, BaseHostWeigher))
            if (
                is_plugin
                and each.__module__ == module
                and not name.startswith(("_", "Base"))
                and name != "AffinityFilter"
            ):
                found[Named(file.parent.name.partition("_")[0], name)] = each
    return found
