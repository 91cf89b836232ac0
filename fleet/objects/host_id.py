# SPDX-License-Identifier: Apache-2.0
"""A host's name for a project that may not see it (``hostId`` of nova's API): the same for all its instances there.

Called by modules of :mod:`conductor_stub.operators`.
"""

from __future__ import annotations

import hmac


def of(key: str, project: str, host: str | None) -> str:
    """Return 56 hexadecimal digits, other ones for each project; empty without a host.

    :param key: a secret of the ledger. Without it, the id of a host whose name was guessed cannot be computed
    """
    return hmac.digest(key.encode(), f"{project}\0{host}".encode(), "sha224").hex() if host else ""
