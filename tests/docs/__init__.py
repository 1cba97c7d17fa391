# SPDX-License-Identifier: Apache-2.0
"""Tests that the documentation matches the code."""
