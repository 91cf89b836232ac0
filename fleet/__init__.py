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

import contextlib
import warnings

# oslo.service still mentions eventlet's end to everybody who imports it, also to those who do not use it.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated", category=DeprecationWarning)
warnings.filterwarnings("ignore", message="eventletutils module is deprecated", category=DeprecationWarning)

from oslo_service import backend

# Native threads, chosen before anything imports oslo.messaging. A program that has chosen already (it only uses our
# values, or tests a filter) is left alone.
with contextlib.suppress(backend.exceptions.BackendAlreadySelected):
    backend.init_backend(backend.BackendType.THREADING)
