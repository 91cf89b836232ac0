# SPDX-License-Identifier: Apache-2.0
"""The libraries that only this driver needs: the extra ``libvirt`` of the package.

Called by the modules of the driver that need one of them.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from fleet import errors

#: Modules, with the packages that have them.
_PACKAGES = {"libvirt": "libvirt-python", "pycdlib": "pycdlib"}


@functools.cache
def module(name: str) -> Any:
    """:raises errors.ConfigError: its package is not installed"""
    try:
        return importlib.import_module(name)
    except ImportError:
        advice = "pip install '.[libvirt]' in the directory of the source"
        reason = f"is libvirt, and the Python package {_PACKAGES[name]} is not installed: {advice}"
        raise errors.ConfigError(option="compute_driver", reason=reason) from None


def require() -> None:
    """:raises errors.ConfigError: one of the libraries is not installed"""
    for name in _PACKAGES:
        module(name)
