# SPDX-License-Identifier: Apache-2.0
"""A plugin that still imports nova."""

from nova.scheduler import filters


class Old(filters.BaseHostFilter):
    pass
