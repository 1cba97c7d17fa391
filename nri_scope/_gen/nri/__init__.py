# SPDX-License-Identifier: Apache-2.0
"""NRI v1alpha1 messages (protobuf)."""
