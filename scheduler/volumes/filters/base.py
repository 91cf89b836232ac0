# SPDX-License-Identifier: Apache-2.0
"""The two base classes of filters for volumes: cinder's form, and the form over columns.

Called by the modules beside it and those of :mod:`scheduler.volumes`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from fleet.json_codec import JSONObject
from scheduler.engine import plugins
from scheduler.volumes.domain import one_pool
from scheduler.volumes.domain.request import VolumeRequest

__all__ = ["BaseBackendFilter", "BaseHostFilter", "ColumnFilter"]


class _CinderForm(plugins.BaseHostFilter[VolumeRequest]):
    """Accepts both of cinder's names for the one method of a filter. A ``host_passes`` that a class has wins."""

    def __init_subclass__(cls, is_base: bool = False) -> None:
        super().__init_subclass__()
        inherited = cls.host_passes in (plugins.BaseHostFilter.host_passes, plugins.ColumnFilter.host_passes)
        if "backend_passes" in vars(cls) and inherited and not is_base:
            cls.host_passes = cls.backend_passes  # type: ignore[method-assign,assignment]

    def backend_passes(self, backend_state: Any, filter_properties: JSONObject) -> bool:
        """Return True if the pool may take the volume."""
        return self.host_passes(backend_state, filter_properties)


class BaseBackendFilter(_CinderForm):
    """A filter of one pool at a time: define ``backend_passes(backend_state, filter_properties)``, or ``host_passes``.

    It is made anew for each request, so it may keep what it finds on itself. ``filter_properties`` has the keys of
    cinder's: ``context``, ``request_spec``, ``volume_type``, ``resource_type``, ``size``, ``config_options`` and others.
    """

    def _filter_one(self, obj: Any, filter_properties: JSONObject) -> bool:
        # Only the truth of the answer counts, as in cinder.
        return bool(super()._filter_one(obj, filter_properties))


class ColumnFilter(_CinderForm, plugins.ColumnFilter[VolumeRequest], is_base=True):
    __doc__ = plugins.ColumnFilter.__doc__

    one_host: ClassVar[plugins.OneHost] = one_pool
    cacheable = True

    def backend_passes(self, backend_state: object, filter_properties: Any) -> bool:
        """Return the judgement of one pool. For subclasses that add to it, and for tests."""
        return plugins.ColumnFilter.host_passes(self, backend_state, filter_properties)


#: Cinder's name before Newton.
BaseHostFilter = BaseBackendFilter
