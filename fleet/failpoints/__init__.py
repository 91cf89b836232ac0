# SPDX-License-Identifier: Apache-2.0
"""Deliberate failures at named points of the code, for tests.

Read ``names`` (every point, and where it is), then ``injection`` (what happens there).
"""

from fleet.failpoints.injection import (
    OPTS,
    Action,
    DatabaseFault,
    Failpoint,
    FailpointReached,
    after_commit,
    arm,
    before_commit,
    commits,
    commits_all,
    commits_inherited,
    hit,
    list_opts,
    parse,
    register_opts,
)

__all__ = [
    "Action",
    "DatabaseFault",
    "Failpoint",
    "FailpointReached",
    "OPTS",
    "after_commit",
    "arm",
    "before_commit",
    "commits",
    "commits_all",
    "commits_inherited",
    "hit",
    "list_opts",
    "parse",
    "register_opts",
]
