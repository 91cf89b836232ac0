# SPDX-License-Identifier: Apache-2.0
"""``fleet whatif`` of hosts that are not there."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.cli import whatif
from fleet.whatif import Change


@pytest.mark.parametrize("change", [Change(without_hosts=["h1", "nope"]), Change(more_hosts=1, like="nope")])
def test_an_unknown_host(change: Change) -> None:
    """It is named, and not taken for a host without instances."""
    with pytest.raises(errors.NotFound, match="Host nope could not be found"):
        whatif._require_known(change, {"h1"})
