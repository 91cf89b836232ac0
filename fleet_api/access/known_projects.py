# SPDX-License-Identifier: Apache-2.0
"""Asks keystone whether a project that an administrator names exists: a quota for a wrong id would have no effect.

Without keystone any name is a project. Called by :mod:`fleet_api.application` and
:mod:`fleet_api.block_storage.routes`.
"""

from __future__ import annotations

import functools
import urllib.parse
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from fleet import errors
from fleet_api.access import tokens
from fleet_api.conf import KEYSTONE

LOG = logging.getLogger(__name__)

#: Seconds to wait for keystone.
_TIMEOUT_S = 10

#: Raises errors.InvalidInput for a project that is not there.
Require = Callable[[str], None]


def source(conf: cfg.ConfigOpts) -> Require:
    """Return a function that checks a project. Its user is that of ``[keystone_authtoken]``."""
    if conf.api.auth_strategy != KEYSTONE:
        return lambda _project_id: None
    return _Keystone(conf).require


class _Keystone:
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def require(self, project_id: str) -> None:
        """A project that keystone does not show to this user may exist, as one may while keystone does not answer.

        :raises errors.InvalidInput: keystone answers that there is none
        """
        exceptions = tokens.imported("keystoneauth1.exceptions")
        try:
            found = self._adapter.get(f"/projects/{urllib.parse.quote(project_id, safe='')}", raise_exc=False)
        except exceptions.ClientException as failure:
            LOG.warning("keystone cannot be asked about project %s: %s", project_id, failure)
            return
        if found.status_code == 404:
            raise errors.InvalidInput(field="project_id", reason=f"is no project of keystone: {project_id[:100]!r}")
        if found.status_code != 200:
            LOG.debug("keystone does not show project %s: %d", project_id, found.status_code)

    @functools.cached_property
    def _adapter(self) -> Any:
        loading, adapter = tokens.imported("keystoneauth1.loading"), tokens.imported("keystoneauth1.adapter")
        auth = loading.load_auth_from_conf_options(self._conf, tokens.GROUP)
        verify = False if self._conf[tokens.GROUP].insecure else self._conf[tokens.GROUP].cafile or True
        session = tokens.imported("keystoneauth1.session").Session(auth=auth, verify=verify, timeout=_TIMEOUT_S)
        interface = self._conf[tokens.GROUP].interface
        return adapter.Adapter(session, service_type="identity", interface=interface, min_version=(3, 0))
