# SPDX-License-Identifier: Apache-2.0
"""Whatever is sent to the topic of volumes is answered with a pool or with a typed error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oslo_messaging.rpc import dispatcher

from fleet import errors
from fleet.context import new_context
from fleet.objects import VolumeType
from scheduler.volumes import conf as volume_conf
from scheduler.volumes import filters, service, weights
from scheduler.volumes.manager import VolumeSchedulerManager
from tests import factories
from tests.clock import FakeClock
from tests.configuration import of_scheduler
from tests.factories import uuid
from tests.unit.scheduler.test_host_manager import FakeFeed
from tests.unit.scheduler.volumes.pools import Pool

METHODS = (
    *("select_backend", "create_volume", "migrate_volume_to_host", "retype", "extend_volume", "manage_existing"),
    *(
        "validate_host_capacity",
        "explain",
        "capacity",
        "get_pools",
        "update_service_capabilities",
        "notify_service_capabilities",
    ),
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "m1@lvm", "m1@lvm#p1", "#", "capabilities", uuid(1), '["=", "$host", 1]', "[", "<or>"]),
    st.text(max_size=5),
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
HINTS = st.dictionaries(
    st.sampled_from(["query", "same_host", "different_host", "local_to_instance"]), JSON, max_size=2
)
SPEC = st.fixed_dictionaries(
    {"volume_properties": st.fixed_dictionaries({"size": st.sampled_from([0, 1, 7])}) | JSON},
    optional={
        "volume_id": st.just(uuid(2)) | JSON,
        "volume_type": st.fixed_dictionaries(
            {"extra_specs": st.dictionaries(st.sampled_from(["a", "capabilities", "capabilities:x:y", ":"]), LEAVES)}
        )
        | JSON,
        "resource_backend": LEAVES,
        "availability_zones": JSON,
        "migration_policy": LEAVES,
        "begin_by": LEAVES,
    },
)
PROPERTIES = st.fixed_dictionaries(
    {}, optional={"scheduler_hints": HINTS | JSON, "retry": JSON, "new_size": LEAVES, "vol_exists_on": LEAVES}
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "request_spec": SPEC | JSON,
        "filter_properties": PROPERTIES | JSON,
        "volume": SPEC.map(lambda spec: spec["volume_properties"]) | JSON,
        "host": LEAVES,
        "backend": LEAVES,
        "new_size": LEAVES,
        "best": LEAVES,
        "group_by": LEAVES | st.just("zone"),
        "filters": st.dictionaries(st.sampled_from(["name", "volume_type", "ssd"]), JSON) | JSON,
        "service_name": LEAVES,
    },
)


def types(name: str) -> VolumeType:
    raise errors.NotFound(kind="Volume type", name=name)


@pytest.fixture(scope="module")
def manager() -> VolumeSchedulerManager:
    """With all filters and weighers."""
    conf = of_scheduler()
    volume_conf.register_opts(conf)
    conf.set_override("scheduler_default_filters", [cls.__name__ for cls in filters.CLASSES], "volume")
    conf.set_override("scheduler_default_weighers", [cls.__name__ for cls in weights.CLASSES], "volume")
    report = {"ssd": True, "x": {"y": 1}, "filter_function": "volume.size < 9", "goodness_function": "stats.total"}
    pools = [Pool(), Pool("m2@nfs", "p2", report=report)]
    feed = FakeFeed(factories.changes(pools, full=True))  # type: ignore[arg-type]
    driver = service.build_driver(conf, feed, FakeFeed(), FakeClock())  # type: ignore[arg-type]
    return VolumeSchedulerManager(driver, lambda instance: None, types, FakeClock())


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(method=st.sampled_from(METHODS), arguments=ARGUMENTS)
def test_no_message_ends_in_a_bug(manager: VolumeSchedulerManager, method: str, arguments: dict[str, Any]) -> None:
    """A wrong field is named; a wrong hint or extra spec is refused, or lets no pool pass."""
    try:
        getattr(manager, method)(new_context(), **arguments)
    except dispatcher.ExpectedException as expected:
        refusal = expected.exc_info[1]
        assert isinstance(refusal, errors.FleetError)
        assert not isinstance(refusal, errors.PluginFailed), refusal.message
