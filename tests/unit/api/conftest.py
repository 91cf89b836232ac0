# SPDX-License-Identifier: Apache-2.0
"""``client`` sends requests to the application over the ``conductor`` of a test's module."""

from __future__ import annotations

import pytest
from falcon import testing

from fleet.api import conf as api_conf
from fleet.api.application import application
from fleet.api.conductor import Conductor
from tests.configuration import configuration


@pytest.fixture
def client(conductor: Conductor) -> testing.TestClient:
    """Everybody is the administrator."""
    conf = configuration(api_conf.register_opts)
    conf.set_override("host_names", ["falconframework.org"], group="api")
    return testing.TestClient(application(conductor, conf))
