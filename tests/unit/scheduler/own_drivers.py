# SPDX-License-Identifier: Apache-2.0
"""Drivers and host managers as users write them."""

from __future__ import annotations

from fleet import errors
from scheduler.compute.drivers import driver, filter_scheduler
from scheduler.compute.drivers.host_manager import HostManager


class NovaDriver(driver.Scheduler):
    """Nova's constructor and signature: the most free memory among the hosts that pass."""

    def __init__(self):
        super().__init__()
        self.made_with = self.host_manager

    def select_destinations(self, context, request_spec, filter_properties):
        properties = {**filter_properties, "request_spec": request_spec, "instance_type": request_spec["instance_type"]}
        hosts = self.host_manager.get_all_host_states(context)
        passed = self.host_manager.get_filtered_hosts(hosts, properties, index=0)
        weighed = self.host_manager.get_weighed_hosts(passed, properties)
        if not weighed:
            raise errors.NoValidHost(reason="my driver found none")
        best = weighed[0].obj
        chosen = dict(host=best.host, nodename=best.nodename, limits=best.limits)
        return [chosen for _number in range(request_spec["num_instances"])]


class OneFilterDriver(NovaDriver):
    """Runs a filter that it names itself."""

    def select_destinations(self, context, request_spec, filter_properties):
        properties = {**filter_properties, "request_spec": request_spec}
        hosts = self.host_manager.get_all_host_states(context)
        passed = self.host_manager.get_filtered_hosts(hosts, properties, filter_class_names=["IoOpsFilter"])
        return [{"host": host.host, "nodename": host.nodename, "limits": {}} for host in passed[:1]]


class LoggingFilterScheduler(filter_scheduler.FilterScheduler):
    """Nova's signature over the built-in driver."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = []

    def select_destinations(self, context, request_spec, filter_properties):
        self.seen.append(request_spec["num_instances"])
        answer = super().select_destinations(context, request_spec, filter_properties)
        return [each for each in answer if each["host"]]


class OurFilterScheduler(filter_scheduler.FilterScheduler):
    """Our signature."""

    def select_destinations(self, context, request):
        return super().select_destinations(context, request)


class WrongAnswer(NovaDriver):
    def select_destinations(self, context, request_spec, filter_properties):
        return request_spec["instance_properties"]["answer"]


class NotADriver:
    pass


class Unfinished(driver.Scheduler):
    pass


class WrongSignature(driver.Scheduler):
    def select_destinations(self, context):
        return []


class WrongConstructor(driver.Scheduler):
    def __init__(self, conf):
        super().__init__(conf)

    def select_destinations(self, context, request):
        return []


class CountingHostManager(HostManager):
    """Passes all arguments on."""

    copies = 0

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def copy(self):
        self.copies += 1
        return super().copy()


class LonelyHostManager(HostManager):
    def __init__(self):
        pass
