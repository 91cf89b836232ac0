# SPDX-License-Identifier: Apache-2.0
"""A storage backend as its agent knows it: ``backend`` has its driver, its reports and its strays."""
