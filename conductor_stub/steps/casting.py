# SPDX-License-Identifier: Apache-2.0
"""Casts to the queue of a host. The message is a hint: a lost one is repeated by the sweeper.

Called by the intakes and the placements of all domains.
"""

from __future__ import annotations

from collections.abc import Callable

import oslo_messaging
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def reaches(host: str, cast: Callable[[], None]) -> bool:
    """Cast; return False if the agent of ``host`` has no queue. Any other loss is logged and left to the sweeper."""
    try:
        cast()
    except oslo_messaging.MessageUndeliverable:
        return False
    except oslo_messaging.MessagingException as lost:
        LOG.warning("Could not cast to host %s (%s); the sweeper will try again", host, lost)
    return True
