# SPDX-License-Identifier: Apache-2.0
"""No test of this room depends on a disk."""

from tests.in_memory import tmp_path as tmp_path
