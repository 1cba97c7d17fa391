# SPDX-License-Identifier: Apache-2.0
"""Feeding a recording to a plugin under development, and judging what it answers."""
