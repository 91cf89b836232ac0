# SPDX-License-Identifier: Apache-2.0
"""Functions that services offer to commands as entry points: commands import no service.

Called by the commands that plan, and by those that look at a nova cloud.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

from fleet.client.calls import CommandFailed


def load(group: str, name: str | None = None) -> Callable[..., Any]:
    """Return the function that a service offers in this group, or in this group by this name.

    :raises CommandFailed: no installed service offers it, or several do
    """
    offered = [each for each in metadata.entry_points(group=group) if name in (None, each.name)]
    if len(offered) != 1:
        offer = group if name is None else f"{group} {name}"
        number = (
            f"{len(offered)} packages offer {offer}" if offered else f"nothing that is installed here offers {offer}"
        )
        raise CommandFailed(f"{number}: install the package fleet again, and nothing else that has its name")
    found: Callable[..., Any] = offered[0].load()
    return found
