# SPDX-License-Identifier: Apache-2.0
"""Attachments: a guest gets a volume, or gives it back. ``fleet.volume_states`` draws their life.

An attachment is a row beside those of the instance and the volume, and changes together with the volume's status. Its host
only receives a notice to read the attachments of an instance (``advance_attachments``): a repeated, late or lost notice
does no harm. What does not end within ``attach_timeout`` is undone.

An instance that is built with volumes has reserved them when its build is accepted. Their attachments follow the build.

Read ``intake`` (what users ask for), ``connections`` (where the data are), ``reservations``
(volumes of builds), ``machine`` (the shared machine, over attachment rows), ``progress`` (what hosts read
and report), ``sweeper`` (steps that are overdue).
"""
