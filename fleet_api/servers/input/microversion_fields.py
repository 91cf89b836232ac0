# SPDX-License-Identifier: Apache-2.0
"""Fields of bodies that came with later versions of the API.

The parsers of bodies about servers use it to refuse fields that are newer than the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import falcon

from fleet import errors
from fleet_api.requests.microversions import Version


def require_known(request: falcon.Request, part: str, given: Iterable[str], since: Mapping[str, Version]) -> None:
    """:param given: fields that the request has
    :param since: by field, the version that introduced it

    :raises errors.InvalidInput: the version of the request does not know one of them
    """
    for name in given:
        if request.context.version < since[name]:
            reason = f"is known from version {'.'.join(map(str, since[name]))} on"
            raise errors.InvalidInput(field=f"{part}.{name}", reason=reason)
