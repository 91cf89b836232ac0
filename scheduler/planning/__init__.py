# SPDX-License-Identifier: Apache-2.0
"""A copy of the fleet on which a plan may decide, for every domain.

``copied_fleet`` decides as the scheduler would, ``hypothetical`` changes what it starts from, ``readings`` measures it, and
``outcomes`` counts what was placed and refused.
"""
