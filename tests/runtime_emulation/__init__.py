# SPDX-License-Identifier: Apache-2.0
"""Tests of the emulated runtime with plugins in the same process."""
