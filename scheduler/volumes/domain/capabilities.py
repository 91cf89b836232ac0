# SPDX-License-Identifier: Apache-2.0
"""The report of a pool, split so that pools of one kind share one value.

Called by the modules beside it and those of :mod:`scheduler.volumes.filters`. Most of a report is the same for many
pools: vendor, protocol, flags. Its numbers and names differ from pool to pool. A filter judges the shared part once
per distinct value.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import NamedTuple

from fleet import stored_json
from fleet.json_codec import JSONMapping, JSONObject

#: Texts that differ from pool to pool. Numbers always belong to the pool.
_OWN_TEXTS = frozenset(("pool_name", "location_info", "timestamp"))
_PROTOCOLS = (
    ("iSCSI", "iscsi"),
    ("FC", "fibre_channel", "fc"),
    ("NFS", "nfs"),
    ("NVMe-oF", "NVMeOF", "nvmeof"),
)
#: All names of a storage protocol, by each of them. An extra spec may use any.
VARIANTS: Mapping[str, tuple[str, ...]] = {name: family for family in _PROTOCOLS for name in family}
#: Pools with equal texts share one parsed value.
_PARSED = 16_384


class Kind:
    """The part of a report that pools share. Equal if its JSON text is."""

    def __init__(self, values: JSONMapping) -> None:
        self.values = values
        self._text = json.dumps(values, sort_keys=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


class Report(NamedTuple):
    """``own``: numbers and names of the one pool."""

    kind: Kind
    own: Mapping[str, object]

    @property
    def whole(self) -> JSONObject:
        return {**self.kind.values, **self.own}


@functools.lru_cache(_PARSED)
def parse(text: str) -> Report:
    """Return the capabilities of a row of ``storage_pools``, which are a JSON object."""
    return split(stored_json.read(text))


def split(capabilities: Mapping[str, object]) -> Report:
    values = {**capabilities, "storage_protocol": variants(capabilities.get("storage_protocol"))}
    if values["storage_protocol"] is None:
        del values["storage_protocol"]
    own = {name: value for name, value in values.items() if name in _OWN_TEXTS or _is_number(value)}
    return Report(Kind({name: value for name, value in values.items() if name not in own}), own)


def variants(protocol: object) -> object:
    """Return all names of a protocol that has several; any other value as it is."""
    return list(VARIANTS[protocol]) if isinstance(protocol, str) and protocol in VARIANTS else protocol


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
