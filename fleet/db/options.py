# SPDX-License-Identifier: Apache-2.0
"""The options of group ``[database]``, which are oslo.db's."""

from __future__ import annotations

from oslo_config import cfg
from oslo_db import options


def register_opts(conf: cfg.ConfigOpts) -> None:
    options.set_defaults(conf)
