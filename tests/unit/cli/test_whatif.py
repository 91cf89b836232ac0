# SPDX-License-Identifier: Apache-2.0
"""``fleet whatif`` of hosts that are not there."""

from __future__ import annotations

import argparse

import pytest

from fleet import errors
from fleet.objects.whatif import Change
from fleet_cli.planning import whatif
from tests.unit.cli import fakes


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


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--volume", "1", "--ratio", "cpu=2"], "--ratio cpu is not one of volume"),
        (["--flavor", "f", "--ratio", "volume=2"], "--ratio volume is not one of cpu, ram, disk"),
        (["--volume", "1", "--trace", "x"], "--volume goes neither with --trace nor with --flavor"),
        (["--volume", "1", "--flavor", "f"], "--volume goes neither with --trace nor with --flavor"),
        (["--volume", "1", "--lose", "m1@disks"], "--lose is for hosts with instances"),
        (["--volumes", "--more-hosts", "1"], "--more-hosts and --like go together"),
    ],
)
def test_arguments_that_do_not_go_together(run, argv: list[str], told: str) -> None:
    """Refused before the database is read."""
    status, _, complaint = run(fakes.Conductor(), "-q", "whatif", *argv)
    assert (1, f"{told}\n") == (status, complaint)


@pytest.mark.parametrize("text", ["disk", "cpu=0", "volume=nan", "net=1"])
def test_a_ratio_has_a_name_and_a_number(text: str) -> None:
    """Of a host or of a pool."""
    with pytest.raises(argparse.ArgumentTypeError):
        whatif.ratio(text)
    assert ("volume", 2.5) == whatif.ratio("volume=2.5")
