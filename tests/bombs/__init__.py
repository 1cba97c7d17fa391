# SPDX-License-Identifier: Apache-2.0
"""Small files that would take up much memory, and how much each command takes of it."""
