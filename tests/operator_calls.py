# SPDX-License-Identifier: Apache-2.0
"""Lets a fake that answers calls by their names be called as the product calls it: by a method for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.rpc.clients import OperatorCalls


class Asked:
    """A fake connection of a command: it has ``ask(method, **arguments)``."""

    ask: Callable[..., Any]

    @property
    def operator(self) -> OperatorCalls:
        return OperatorCalls(self.ask)
