# SPDX-License-Identifier: Apache-2.0
"""ttRPC's request and response (protobuf)."""
