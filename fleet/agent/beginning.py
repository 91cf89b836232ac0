# SPDX-License-Identifier: Apache-2.0
"""The start of an agent: repeated until it succeeds, because conductors may be away or another agent may still serve.

Called by :mod:`fleet.agent.life`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from oslo_log import log as logging

from fleet import errors
from fleet.agent.patience import Unanswered

LOG = logging.getLogger(__name__)

#: Seconds before a retry after an unexpected error at start.
BEGIN_AGAIN_S = 10.0


def begin(begin_once: Callable[[], object], stopping: threading.Event) -> None:
    """Call ``begin_once`` until it succeeds, or the agent stops."""
    while not stopping.is_set():
        try:
            begin_once()
        except Unanswered:
            LOG.info("Stopped before the conductor was reached")
            return
        except (errors.HostTaken, errors.NotTrusted, errors.VersionPinned) as refusal:
            LOG.error("%s The agent does not begin; next try in %s s", refusal.message, BEGIN_AGAIN_S)
            stopping.wait(BEGIN_AGAIN_S)
        except Exception:
            LOG.exception("The agent cannot begin; next try in %s s", BEGIN_AGAIN_S)
            stopping.wait(BEGIN_AGAIN_S)
        else:
            return
