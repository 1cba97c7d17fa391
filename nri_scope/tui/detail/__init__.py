# SPDX-License-Identifier: Apache-2.0
"""The details of the selected row in tabs, and the comparison of two events."""
