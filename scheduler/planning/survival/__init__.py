# SPDX-License-Identifier: Apache-2.0
"""Finds a place on other hosts for every guest of hosts that are lost: proved with a plan, or refuted.

``room`` is what is read of the fleet. ``distinct`` finds a host of its own for each guest, for all losses at once;
``packing`` puts several guests on one host, or shows that no arrangement exists; ``proof`` puts them in order; ``standing``
keeps what is proved while the fleet changes::

    a guest fits nowhere, even alone ──▶ UNSAFE
    each guest gets a host of its own ──▶ SAFE      the filters passed each of them
    the decision code places them all ──▶ SAFE      one after the other, on a copy
    no integer solution exists ──▶ UNSAFE           sums of vcpus, memory and disk alone forbid it
    a solution passes the decision code ──▶ SAFE
    otherwise ──▶ NOT_PROVED

Nothing is called safe by arithmetic alone: the filters have accepted each guest on its host, beside the others.
"""
