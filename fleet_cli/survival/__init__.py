# SPDX-License-Identifier: Apache-2.0
"""Commands about losses of hosts: ``drill`` plays one, ``tolerance`` promises to survive them."""
