# SPDX-License-Identifier: Apache-2.0
"""``many_files``: what a process opens in a test has a number above 1023, the last one that select() takes."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

_MOST_OF_SELECT = 1024


@pytest.fixture
def many_files() -> Iterator[None]:
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MOST_OF_SELECT
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"a process may open {hard} files only")
    if before != resource.RLIM_INFINITY and before < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while opened[-1] < _MOST_OF_SELECT:
            opened.append(os.dup(opened[0]))
        yield
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
