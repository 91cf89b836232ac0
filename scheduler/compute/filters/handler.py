# SPDX-License-Identifier: Apache-2.0
"""Nova's ``HostFilterHandler``: runs filters in nova's form over a list of host states.

Called by :mod:`scheduler.compute.filters`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec
from scheduler.compute.domain.host_state import HostState
from scheduler.compute.filters.base import BaseHostFilter
from scheduler.loading import named_classes


class HostFilterHandler:
    """For drivers and tests in nova's form. The scheduler itself filters all hosts at once."""

    #: Set by the package, which names every filter.
    built_in: ClassVar[Sequence[type[BaseHostFilter[RequestSpec]]]] = ()

    def get_all_classes(self) -> list[type[BaseHostFilter[RequestSpec]]]:
        """Return every filter that comes with the scheduler."""
        return list(self.built_in)

    def get_matching_classes(self, loadable_class_names: Iterable[str]) -> list[type[BaseHostFilter]]:
        """Return the filter classes that dotted paths name. :raises errors.ClassNotFound:"""
        built_in = {"scheduler.filters.": self.built_in}
        return named_classes.matching(BaseHostFilter, loadable_class_names, "scheduler_available_filters", built_in)

    def get_filtered_objects(
        self,
        filters: Iterable[BaseHostFilter],
        objs: Iterable[HostState],
        filter_properties: JSONObject,
        index: int = 0,
    ) -> list[HostState] | None:
        """Return the hosts that pass every filter that runs for the instance with this index, from 0.

        None if a filter returned None in place of a list.
        """
        left = list(objs)
        for each in filters:
            if not left:
                break
            if each.run_filter_for_index(index):
                passed = each.filter_all(left, filter_properties)
                if passed is None:
                    return None
                left = list(passed)
        return left
