# SPDX-License-Identifier: Apache-2.0
"""Rights that ``fleet-api`` grants to a caller by its policy, and that conductors hold: marks among the caller's roles.

The roles are signed with the message. A key of a project cannot grant, and no user has a role with such a name.
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "fleet:"
#: The caller may give sizes, image properties, hosts to leave out and queries with a build.
FREE_CHOICE = f"{PREFIX}free-choice"


def without(roles: Iterable[str]) -> list[str]:
    """Roles of a user, without those that only ``fleet-api`` may add."""
    return [role for role in roles if not role.startswith(PREFIX)]


def named(roles: object) -> bool:
    """Return True if the roles of a message have a grant."""
    return isinstance(roles, list) and any(isinstance(role, str) and role.startswith(PREFIX) for role in roles)
