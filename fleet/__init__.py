# SPDX-License-Identifier: Apache-2.0
"""What the three services agree on; imports none of them.

Vocabulary: a *host* is a service host name, a *node* is one hypervisor on it (most hosts have one), an *instance* is
one virtual machine, a *build* is an instance on its way to ACTIVE, an *attempt* is one host tried for it, a *claim* is
what a host holds for an instance, a *selection* is the scheduler's answer, an *alternate* is its second best.

Read in this order: ``states`` (the life of a build), ``capacity`` (the one arithmetic), ``errors``, ``objects``
(values on the wire), ``rpc`` (the contract), ``db`` (tables and the change feed), ``service`` (daemon life).
"""

import contextlib
import os
import warnings

# oslo's libraries import eventlet where it is installed, and warn each process of its end; nothing here runs on it.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
warnings.filterwarnings("ignore", message="eventletutils module is deprecated", category=DeprecationWarning)
# Nor is its own name resolution wanted, which takes as long to import as all that the scheduler is.
os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")

from oslo_service import backend

# Native threads, chosen before anything imports oslo.messaging. A program that has chosen already (it only uses our
# values, or tests a filter) is left alone.
with contextlib.suppress(backend.exceptions.BackendAlreadySelected):
    backend.init_backend(backend.BackendType.THREADING)
