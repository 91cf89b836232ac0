# SPDX-License-Identifier: Apache-2.0
"""The two base classes of weighers for volumes: cinder's form, and the form over columns.

Called by the modules beside it and those of :mod:`scheduler.volumes`.
"""

from __future__ import annotations

from typing import ClassVar, Self

from oslo_config import cfg

from scheduler.engine import plugins
from scheduler.engine.plugins import WeighedHost
from scheduler.volumes.domain import one_pool
from scheduler.volumes.domain.request import VolumeRequest

__all__ = ["BaseHostWeigher", "ColumnWeigher", "WeighedHost"]


class BaseHostWeigher(plugins.BaseHostWeigher[VolumeRequest]):
    """A weigher of one pool at a time: define ``_weigh_object(pool_state, weight_properties)``.

    Raw weights are normalised to 0..1 over the pools of the request, multiplied and added up. ``minval`` and ``maxval`` fix
    a bound of that range; a raw weight beyond a bound widens it. Cinder's older name of the multiplier,
    ``_weight_multiplier``, works too.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        older = vars(cls).get("_weight_multiplier")
        if older is not None and cls.weight_multiplier is plugins.BaseHostWeigher.weight_multiplier:
            cls.weight_multiplier = older  # type: ignore[method-assign]


class ColumnWeigher(plugins.ColumnWeigher[VolumeRequest]):
    __doc__ = plugins.ColumnWeigher.__doc__

    one_host: ClassVar[plugins.OneHost] = one_pool
    cacheable = True

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Make the weigher with the multiplier of its option, which is in group ``[volume]``."""
        return cls(conf.volume[cls.option]) if cls.option else cls()
