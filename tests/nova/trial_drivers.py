# SPDX-License-Identifier: Apache-2.0
"""Compute drivers of the cloud: nova's fake driver with a node that is the same after a restart. Loaded by nova-compute."""

from nova.virt import fake


class Host(fake.FakeDriverWithoutFakeNodes):
    """A host of 10 vcpus, 8 GB and 1 TB."""

    vcpus = 10
    memory_mb = 8192
    local_gb = 1028


class FailingHost(fake.FakeRescheduleDriver, fake.FakeDriverWithoutFakeNodes):
    """A host with far more memory, on which the first attempt of every build fails."""
