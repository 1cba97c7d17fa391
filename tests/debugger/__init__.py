# SPDX-License-Identifier: Apache-2.0
"""Tests of the debugger, on a screen and by lines."""
