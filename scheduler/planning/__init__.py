# SPDX-License-Identifier: Apache-2.0
"""Questions about a fleet that is not asked to place anything.

``capacity_count`` counts how many more instances fit. ``whatif`` places demands on a copy of the fleet, which
``hypothetical`` builds.
"""
