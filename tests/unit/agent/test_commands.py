# SPDX-License-Identifier: Apache-2.0
"""Programs that agents run."""

from __future__ import annotations

import pytest

from fleet.agent import commands


def test_what_a_program_prints_need_not_be_utf8() -> None:
    """Names of files and devices may be any bytes. An error is an OSError with the reason: the caller undoes its work."""
    assert "disk \\xe9\n" == commands.run("printf", r"disk \351\n")
    with pytest.raises(OSError, match=r"^sh ended with status 3: no disk \\xe9$"):
        commands.run("sh", "-c", r"printf 'no disk \351' >&2; exit 3")
