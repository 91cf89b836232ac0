# SPDX-License-Identifier: Apache-2.0
"""``etc/fleet`` has the samples that ``make sample`` makes of the options and rules."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("generator", "chosen", "sample"),
    [
        ("oslo-config-generator", ["--config-file", "etc/fleet/oslo-config-generator.conf"], "fleet.conf.sample"),
        ("oslopolicy-sample-generator", ["--namespace", "fleet"], "policy.yaml.sample"),
    ],
)
def test_a_sample_is_made_of_what_the_code_declares(
    generator: str, chosen: list[str], sample: str, tmp_path: pathlib.Path
) -> None:
    made = tmp_path / sample
    command = [pathlib.Path(sys.executable).parent / generator, *chosen, "--output-file", made]
    subprocess.run(command, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    assert (ROOT / "etc" / "fleet" / sample).read_text() == made.read_text()
