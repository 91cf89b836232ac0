# SPDX-License-Identifier: Apache-2.0
"""The choice of this scheduler for one request. The shadows of our own trio and of nova make it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping


@dataclasses.dataclass(frozen=True)
class Verdict:
    """:param flavor: its name
    :param hosts: the chosen hosts, one for each instance; empty if the request would be refused
    :param objection: host → the filter that dropped it, or another reason; "" if it passed
    :param refusal: reason code of the refusal
    :param sources: instance → the host that it was on already
    """

    flavor: str
    hosts: tuple[str, ...] = ()
    objection: Callable[[str], str] = lambda _host: ""
    refusal: str = ""
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
