# SPDX-License-Identifier: Apache-2.0
"""Passwords for guests whose clients send none. :mod:`fleet_api.application` hands it to the resources of servers."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable

from oslo_config import cfg

#: Without letters and digits that look alike.
_LETTERS = "".join(each for each in string.ascii_letters + string.digits if each not in "0O1lI")
#: 70 bits.
_LENGTH = 12


def source(conf: cfg.ConfigOpts) -> Callable[[], str] | None:
    """Return a function that makes passwords; None if answers have none."""
    return _generate if conf.api.enable_instance_password else None


def _generate() -> str:
    return "".join(secrets.choice(_LETTERS) for _number in range(_LENGTH))
