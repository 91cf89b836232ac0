# SPDX-License-Identifier: Apache-2.0
"""The two base classes of filters for virtual machines: nova's form, and the form over columns.

All filters beside it derive from one of them.
"""

from __future__ import annotations

from typing import ClassVar

from fleet.objects import RequestSpec
from scheduler.compute.domain import nova_form
from scheduler.engine import plugins
from scheduler.engine.plugins import BaseHostFilter

__all__ = ["BaseHostFilter", "ColumnFilter"]


class ColumnFilter(plugins.ColumnFilter[RequestSpec]):
    __doc__ = plugins.ColumnFilter.__doc__

    one_host: ClassVar[plugins.OneHost] = nova_form
