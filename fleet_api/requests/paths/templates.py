# SPDX-License-Identifier: Apache-2.0
"""Paths of routes with the names of their parameters, as policies and the document of the API have them.

Policies and the document of the API name their paths by it.
"""

from __future__ import annotations

import falcon


def plain(path: str) -> str:
    """Return a path of falcon's router without the kinds of its parameters: ``{name:path}`` may have slashes."""
    return path.replace(":path}", "}")


def of(request: falcon.Request) -> str:
    """Return the path of the route that serves a request; empty if there is none."""
    return plain(request.uri_template or "")
