# SPDX-License-Identifier: Apache-2.0
"""Checks who may make a request: each responder names its rule of ``fleet_api.access.policies``, or that it needs no user.

All responders use it as a decorator. A responder without a rule stops the program at its start, so nothing is served
by mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Responder = TypeVar("Responder", bound=Callable[..., None])
#: Rule of a request that needs no user.
NOBODY = ""


def by(rule: str) -> Callable[[Responder], Responder]:
    """Declare the rule of a responder. :param rule: one of ``policies.RULES``"""

    def decorate(responder: Responder) -> Responder:
        responder.rule = rule  # type: ignore[attr-defined]
        return responder

    return decorate


def public(responder: Responder) -> Responder:
    """Declare that a request needs no user."""
    return by(NOBODY)(responder)


def rule_of(responder: Callable[..., object]) -> str:
    """Return the rule of a responder. :raises AttributeError: it has none"""
    found: str = responder.rule  # type: ignore[attr-defined]
    return found
