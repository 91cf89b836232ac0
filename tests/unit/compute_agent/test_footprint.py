# SPDX-License-Identifier: Apache-2.0
"""What an agent process loads: it runs on every host, so its memory is taken from guests."""

from __future__ import annotations

import json
import subprocess
import sys

_LOADED = "import json, sys, compute_agent.main; print(json.dumps(sorted(sys.modules)))"


def test_an_agent_loads_no_database_and_no_arrays():
    """An agent calls a conductor for everything in the ledger, and claims with plain numbers."""
    loaded = json.loads(subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, check=True).stdout)
    assert set() == {"alembic", "numpy", "psycopg2", "pymysql", "sqlalchemy"} & set(loaded)
