# SPDX-License-Identifier: Apache-2.0
"""The files of guests: disks over cached images, what cloud-init reads, and their ways through a resize and to another host.

Read ``guest_disks`` first; it calls ``image_cache``, ``seed``, ``resize``, ``arrival`` and ``opened``.
"""
