# SPDX-License-Identifier: Apache-2.0
"""Keeps the promises of ``fleet.objects.tolerance``: any lost host, or rack, leaves its guests a place elsewhere.

``scheduler.compute.planning.losses.promises`` proves them again and again beside the decisions, as ``fleet drill`` does.
What its plans need becomes the ``guard``. ``admission`` asks the guard about each host that was chosen: a build may not take
what a plan needs, and needs a place for itself in the plan of its own host. That is a comparison of a few numbers
(``amounts``); the next proof checks it with all filters. Before it refuses a move, ``clearing`` looks for other plans that
leave it the room.
"""
