# SPDX-License-Identifier: Apache-2.0
"""The filters of an installed nova, run by its own Python with its own configuration file.

:mod:`scheduler.nova.check` compares with them.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
from collections.abc import Sequence

from fleet import errors
from scheduler.nova.request import Offers

_PROGRAM = pathlib.Path(__file__).with_name("run_nova_filters.py")
_LONGEST_S = 600


@dataclasses.dataclass(frozen=True)
class NovaFilters:
    """``python``: the interpreter that nova is installed for; ``nova_file``: the configuration file of nova-scheduler."""

    python: str
    nova_file: str

    def passing(self, requests: Sequence[tuple[object, Offers]]) -> list[frozenset[str]]:
        """Return, for each (RequestSpec as nova stores it, placement's offers), the compute nodes that pass.

        :raises errors.ConfigError: nova cannot be run, or fails
        """
        asked = json.dumps([{"spec": spec, "offers": dict(offers)} for spec, offers in requests])
        command = [self.python, str(_PROGRAM), "--config-file", self.nova_file]
        try:
            done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, timeout=_LONGEST_S)
            if done.returncode:
                raise self._failed((done.stderr.strip().splitlines() or ["no message"])[-1])
            return [frozenset(each) for each in json.loads(done.stdout)]
        except (OSError, ValueError, subprocess.TimeoutExpired) as failure:
            raise self._failed(str(failure)) from None

    def _failed(self, problem: str) -> errors.ConfigError:
        return errors.ConfigError(
            option="--nova-python", reason=f"is {self.python}, which cannot run nova's filters: {problem}"
        )
