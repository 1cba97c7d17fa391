# SPDX-License-Identifier: Apache-2.0
"""What the terminal user interface shows and does, free of Textual."""

from __future__ import annotations
