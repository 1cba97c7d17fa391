# SPDX-License-Identifier: Apache-2.0
"""The terminal user interface: screens and widgets over a model that knows nothing of them."""

from __future__ import annotations
