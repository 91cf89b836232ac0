# SPDX-License-Identifier: Apache-2.0
"""The options of ``[notifications]``, as in nova.conf. Called by the modules beside it.

All daemons read the options of each other at their start, so no module of options imports more than options.
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = "notifications"
UNVERSIONED, VERSIONED, BOTH = "unversioned", "versioned", "both"
OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "notification_format",
        default=UNVERSIONED,
        choices=[
            (UNVERSIONED, "only the older form"),
            (VERSIONED, "only versioned notifications"),
            (BOTH, "both"),
        ],
        help="[notifications] notification_format of nova.conf: the form of scheduler.select_destinations.start and .end, "
        "which are sent in the place of nova-scheduler if [oslo_messaging_notifications] driver is set.",
    ),
    cfg.ListOpt(
        "versioned_notifications_topics",
        default=["versioned_notifications"],
        help="[notifications] versioned_notifications_topics of nova.conf.",
    ),
]
