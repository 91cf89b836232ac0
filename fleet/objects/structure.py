# SPDX-License-Identifier: Apache-2.0
"""Decodes structured values that arrive as JSON text or in nova's object envelope.

The parsers of NUMA cells, PCI devices and nova's messages call it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from fleet import errors

_ENVELOPE = "nova_object.data"


def plain(data: object, field: str) -> object:
    """Return ``data`` without JSON text around it, and without envelopes at any depth.

    :raises errors.InvalidInput: naming ``field``: the text is not JSON
    """
    if isinstance(data, str):
        try:
            opened = json.loads(data)
        except (ValueError, RecursionError):
            raise errors.InvalidInput(field=field, reason="is not JSON") from None
        # A walk through every number of a large topology costs more than parsing it.
        return _opened(opened) if _ENVELOPE in data else opened
    return _opened(data)


def _opened(data: object) -> object:
    if isinstance(data, Mapping):
        content = data.get(_ENVELOPE, data)
        return {key: _opened(value) for key, value in content.items()} if isinstance(content, Mapping) else content
    return [_opened(each) for each in data] if isinstance(data, list) else data
