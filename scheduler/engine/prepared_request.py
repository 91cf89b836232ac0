# SPDX-License-Identifier: Apache-2.0
"""A request with the plugins that judge it: everything a decision needs besides the hosts.

:mod:`scheduler.engine.pipeline` makes it, and :mod:`scheduler.engine.decide` reads it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.domain import Normalisation
from scheduler.engine.names import Properties, Request
from scheduler.engine.plugins import BaseHostFilter, BaseHostWeigher, ColumnWeigher
from scheduler.engine.supervision.supervision import PluginWatch, Supervision

#: Key of ``filter_properties`` that holds the parsed request (nova's name for it).
PARSED = "spec_obj"


@dataclasses.dataclass
class PreparedRequest:
    """One request. ``request`` and ``properties`` change as its instances are placed.

    :param filters: none if the request forces its hosts
    :param properties: ``filter_properties`` for plugins of one host at a time
    :param supervision: calls the plugins
    :param consumption: what one instance takes of its host
    :param cache_key: equal for requests that the plugins cannot tell apart; None if the result must not be cached
    :param reading: the weighers that read the fleet as a whole
    """

    request: Request
    filters: Sequence[BaseHostFilter] = ()
    weighers: Sequence[BaseHostWeigher] = ()
    properties: Properties = dataclasses.field(default_factory=dict)
    supervision: Supervision = dataclasses.field(default_factory=lambda: PluginWatch().begin())
    consumption: Consumption = dataclasses.field(default_factory=lambda: Consumption({}))
    cache_key: Hashable | None = None
    normalisation: Normalisation = "clamp"
    reading: Sequence[ColumnWeigher] = ()
