# SPDX-License-Identifier: Apache-2.0
"""Python runs this before any program of a shaken run: it sets the conditions of the daemons that tests start.

Programs of other virtual environments are left alone.
"""

import os
import pathlib
import runpy
import sys

_seed, _prefix = os.environ.get("FLEET_SHAKE_SEED"), os.environ.get("FLEET_SHAKE_PREFIX")
# The plugin sets the conditions of pytest's own process.
if _seed and _prefix == sys.prefix and not os.environ.pop("FLEET_SHAKE_LANE_PROCESS", None):
    _conditions = runpy.run_path(str(pathlib.Path(__file__).parents[1] / "conditions.py"))
    _conditions["shake"](f"{_seed}/{pathlib.Path(sys.argv[0] if sys.argv else '').name}")
