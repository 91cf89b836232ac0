# SPDX-License-Identifier: Apache-2.0
"""The use of a fleet over the time of a trace: figures, and drawings of them.

``sample`` measures the hosts, and ``pools`` the storage pools, at one moment; ``history`` collects samples and makes
the figures of ``fleet whatif`` and ``fleet replay``, and ``plot`` draws them (it needs matplotlib, the extra
``plot``). ``hours`` counts amounts times hours.
"""
