# SPDX-License-Identifier: Apache-2.0
"""The weighers: each rates the hosts that passed, one concern a file.

Vocabulary: a *raw* weight is what a weigher says of a host, in its own unit; the *normalised* one lies in 0..1 between
the worst and the best host of the request; times the *multiplier* it is the weigher's *contribution*; their sum is the
host's weight.

Read ``base`` for the two forms, then ``ram`` for an example. A new weigher is a file here and a line in ``CLASSES``.
One of your own needs neither: subclass :class:`BaseHostWeigher` and name its dotted path in
``scheduler_weight_classes``.
"""

from fleet.objects import RequestSpec
from scheduler.compute.weights.affinity import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher
from scheduler.compute.weights.alignment import AlignmentWeigher
from scheduler.compute.weights.base import BaseHostWeigher, ColumnWeigher, WeighedHost
from scheduler.compute.weights.build_failure import BuildFailureWeigher
from scheduler.compute.weights.cpu import CPUWeigher
from scheduler.compute.weights.disk import DiskWeigher
from scheduler.compute.weights.failure_domain import FailureDomainWeigher
from scheduler.compute.weights.fragmentation import FragmentationWeigher
from scheduler.compute.weights.handler import HostWeightHandler, normalize
from scheduler.compute.weights.hypervisor_version import HypervisorVersionWeigher
from scheduler.compute.weights.image_properties import ImagePropertiesWeigher
from scheduler.compute.weights.io_ops import IoOpsWeigher
from scheduler.compute.weights.metrics import MetricsWeigher
from scheduler.compute.weights.num_instances import NumInstancesWeigher
from scheduler.compute.weights.pci import PCIWeigher
from scheduler.compute.weights.ram import RAMWeigher

__all__ = [
    "AlignmentWeigher",
    "BaseHostWeigher",
    "BuildFailureWeigher",
    "CLASSES",
    "CPUWeigher",
    "ColumnWeigher",
    "DiskWeigher",
    "FailureDomainWeigher",
    "FragmentationWeigher",
    "HostWeightHandler",
    "HypervisorVersionWeigher",
    "IoOpsWeigher",
    "ImagePropertiesWeigher",
    "MetricsWeigher",
    "NumInstancesWeigher",
    "PCIWeigher",
    "RAMWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
    "WeighedHost",
    "all_weighers",
    "normalize",
]

#: Nova's CrossCellWeigher is not among them: there are no cells.
CLASSES: tuple[type[BaseHostWeigher[RequestSpec]], ...] = (
    RAMWeigher,
    DiskWeigher,
    CPUWeigher,
    IoOpsWeigher,
    PCIWeigher,
    MetricsWeigher,
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
    FailureDomainWeigher,
    BuildFailureWeigher,
    HypervisorVersionWeigher,
    NumInstancesWeigher,
    ImagePropertiesWeigher,
    FragmentationWeigher,
    AlignmentWeigher,
)

HostWeightHandler.built_in = CLASSES


def all_weighers() -> list[type[BaseHostWeigher[RequestSpec]]]:
    """The default of ``scheduler_weight_classes``: every weigher that comes with the scheduler."""
    return list(CLASSES)
