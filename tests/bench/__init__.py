# SPDX-License-Identifier: Apache-2.0
"""Figures, not tests: ``make bench`` prints JSON lines, everything as a ratio within one run beside its seconds.

``figures`` times and prints; ``fleets`` makes hosts in varied states and a feed that changes some of them; each other
module is one part, named on the command line of ``python -m tests.bench`` (all when none is).
"""
