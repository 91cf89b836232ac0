# SPDX-License-Identifier: Apache-2.0
"""What the three services agree on; imports none of them.

Vocabulary: a *host* is a service host name, a *node* is one hypervisor on it (most hosts have one), an *instance* is
one virtual machine, a *build* is an instance on its way to ACTIVE, an *attempt* is one host tried for it, a *claim* is
what a host holds for an instance, a *selection* is the scheduler's answer, an *alternate* is its second best.

Read in this order: ``states`` (the life of a build), ``capacity`` (the one arithmetic), ``errors``, ``objects``
(values on the wire), ``rpc`` (the contract), ``db`` (tables and the change feed), ``service`` (daemon life).
"""

import warnings

# oslo's libraries import eventlet where it is installed, and it warns each process; nothing here runs on it.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")

from oslo_service import backend  # noqa: E402

# Before anything imports oslo.messaging: native threads, no eventlet. Must be the first choice a process makes.
backend.init_backend(backend.BackendType.THREADING)
