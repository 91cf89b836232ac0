# SPDX-License-Identifier: Apache-2.0
"""Everything that the services share. This package imports none of them.

Vocabulary: a *host* is a service host name; a *node* is one hypervisor on it (most hosts have one); an *instance* is
one virtual machine; a *build* is an instance on its way to ACTIVE; an *attempt* is one host tried for it; a *claim*
is what a host holds for an instance; a *selection* is the scheduler's answer; an *alternate* is the next best host of
a selection; the *ledger* is the database.

A storage *backend* has *pools*, and a *volume* claims space of one.

Read in this order: ``domains``, ``states`` (the life of a build), ``move_states`` and ``volume_states``, ``capacity`` and
``pool_capacity`` (the arithmetic), ``errors`` and ``reasons``, ``objects`` and ``hardware`` (values), ``rpc`` (the
contract), ``db`` (tables and the change feed), ``service``, ``agent`` and ``telemetry`` (daemon life), ``conf``,
``context``, ``clock``, ``ledger_identity``, ``plugins``, ``checks``, ``failpoints``; for users
``client``.
"""

import contextlib
import os
import warnings

# oslo's libraries import eventlet where it is installed, and warn each process of its end. Nothing here uses it.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
warnings.filterwarnings("ignore", message="eventletutils module is deprecated", category=DeprecationWarning)
# eventlet's name resolution is not used either, and takes as long to import as the whole scheduler.
os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")

from oslo_service import backend

# Native threads, chosen before anything imports oslo.messaging. A program that has already chosen (it only uses these
# values, or tests a filter) keeps its choice.
with contextlib.suppress(backend.exceptions.BackendAlreadySelected):
    backend.init_backend(backend.BackendType.THREADING)
