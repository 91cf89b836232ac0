# SPDX-License-Identifier: Apache-2.0
"""Names for values that the engine passes on and does not look into.

The modules of the engine are annotated with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: A request as its domain has parsed it
Request = Any
#: A host in the form that plugins of one host at a time read
HostState = Any
#: ``filter_properties`` and ``weight_properties``, as plugins of one host at a time read them
Properties = dict[str, Any]
#: A value of a host → whether it passes, or its number
Judge = Callable[[Any], Any]
#: A part of an answer on the wire
Wire = dict[str, Any]
