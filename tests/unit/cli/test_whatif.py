# SPDX-License-Identifier: Apache-2.0
"""``fleet whatif`` of hosts that are not there."""

from __future__ import annotations

import argparse

import pytest

from fleet import errors
from fleet.cli import whatif
from fleet.objects.whatif import Change


@pytest.mark.parametrize("change", [Change(without_hosts=["h1", "nope"]), Change(more_hosts=1, like="nope")])
def test_an_unknown_host(change: Change) -> None:
    """It is named, and not taken for a host without instances."""
    with pytest.raises(errors.NotFound, match="Host nope could not be found"):
        whatif._require_known(change, {"h1"})


def test_the_number_of_further_hosts_is_bounded() -> None:
    """Each takes memory in this program, so a slip of the finger is refused at once."""
    assert 100_000 == whatif.more_hosts("100000")
    for refused in ("0", "-1", "100001", "999999999", "1.5"):
        with pytest.raises(
            argparse.ArgumentTypeError, match=f"must be a whole number from 1 to 100000, got '{refused}'"
        ):
            whatif.more_hosts(refused)
