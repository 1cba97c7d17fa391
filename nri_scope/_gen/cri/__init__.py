# SPDX-License-Identifier: Apache-2.0
"""The part of Kubernetes CRI v1 that we call (betterproto2 and grpclib)."""
