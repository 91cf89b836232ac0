# SPDX-License-Identifier: Apache-2.0
"""One file a filter or family of filters: tables of cases with prose names."""
