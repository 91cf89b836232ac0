# SPDX-License-Identifier: Apache-2.0
"""Follows README.md and docs/install.md to the letter, in a root of its own: ``make install`` (as root, on Linux).

``blocks`` reads the commands out of a page. ``root`` is an overlay over this machine's files, in namespaces without a
network: nothing that the commands change is left, and no port of the machine is used. ``systemctl`` stands in for systemd
there: it verifies the units, and runs what ExecStart says as the unit's user.
"""
