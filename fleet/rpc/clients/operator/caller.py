# SPDX-License-Identifier: Apache-2.0
"""The function by which clients call methods of the namespace ``operator``. The modules beside it inherit from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Caller:
    """``call(method, **arguments)`` sends a call and returns its answer. An argument that is left out is not sent."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, method: str, **arguments: object) -> object:
        """Make a call by its name, as programs of users do."""
        return self.call(method, **arguments)
