# SPDX-License-Identifier: Apache-2.0
"""The service of `nri-scope agent` (betterproto2 and grpclib)."""
