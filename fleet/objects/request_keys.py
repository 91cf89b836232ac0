# SPDX-License-Identifier: Apache-2.0
"""Finds unknown keys of a build request: a misspelt key is an error, any other unknown key a warning.

Called by the managers of conductors that accept builds and volumes.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping

from fleet import errors
from fleet.objects.build_request import BuildRequest
from fleet.objects.flavor import Flavor
from fleet.objects.image import Image

#: Arguments of nova's ``create`` that fleet ignores, with the reason.
UNSUPPORTED: Mapping[str, str] = {
    "injected_files": "fleet writes no files into a guest",
    "personality": "fleet writes no files into a guest",
    "config_drive": "fleet makes no config drive",
    "requested_networks": "fleet reads networks",
    "security_groups": "fleet has no firewalls",
    "block_device_mapping_v2": "fleet reads block_device_mapping, volumes that exist",
}
#: Similarity from which an unknown key counts as a misspelt one (1 is equal).
_SIMILAR = 0.75


def examine(request: Mapping[str, object], field: str = "request") -> list[str]:
    """Return a warning for each key that is ignored, in the request, its flavor and its image.

    :raises errors.InvalidInput: a key looks like a known one; the message names both
    """
    warnings = unknown(request, BuildRequest, field)
    for name, cls in (("flavor", Flavor), ("image", Image)):
        value = request.get(name)
        if isinstance(value, Mapping):
            warnings += unknown(value, cls, f"{field}.{name}")
    return warnings


def unknown(given: Mapping[str, object], cls: type, field: str) -> list[str]:
    """Return a warning for each key that the dataclass ``cls`` does not have.

    :raises errors.InvalidInput: a key looks like a known one; the message names both
    """
    known = [each.name for each in dataclasses.fields(cls)]
    warnings = []
    for key in given:
        if key in known:
            continue
        path = f"{field}.{key}"[:255]
        if key in UNSUPPORTED:
            warnings.append(f"{path} is ignored: {UNSUPPORTED[key]}")
            continue
        meant = difflib.get_close_matches(str(key).lower(), known, n=1, cutoff=_SIMILAR)
        if meant:
            raise errors.InvalidInput(field=path, reason=f"is not known; did you mean {meant[0]}?")
        warnings.append(f"{path} is not known and is ignored")
    return warnings
