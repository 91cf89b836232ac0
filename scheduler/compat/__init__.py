# SPDX-License-Identifier: Apache-2.0
"""The modules that filters and weighers import of nova and cinder, with our classes behind the names.

Vocabulary: an *alias* is a module of a name such as ``nova.scheduler.filters`` that holds objects of ours. Aliases are
there only while ``scheduler_plugin_directories`` is set (:mod:`scheduler.loading.plugin_files` puts them in place), and
never beside an installed nova or cinder.

Read ``nova_names`` and ``cinder_names``, the tables of all aliases, first; the other modules have what is more than a
name: ``configuration`` (CONF), ``nova_helpers``, ``nova_hardware``, ``cinder_helpers`` and ``pools_at_hand``.
"""
