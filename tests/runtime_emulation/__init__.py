# SPDX-License-Identifier: Apache-2.0
"""The runtime's role, against plugins of our own in the same process."""
