from oslo_log import log as logging
from scheduler.compute import filters
LOG = logging.getLogger(__name__)
class SpecifiedHostFilter(filters.BaseHostFilter):
    def __init__(self):
        LOG.info("SpecifiedHostFilter is initialized!")
    def host_passes(self, host_state, filter_properties):
        requested_host = filter_properties.get('scheduler_hints', {}).get('requested_host', None)
        if requested_host:
            return requested_host == host_state.host
        return True
