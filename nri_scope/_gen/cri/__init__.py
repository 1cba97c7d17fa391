# SPDX-License-Identifier: Apache-2.0
"""A subset of Kubernetes CRI v1 (betterproto2 and grpclib)."""
