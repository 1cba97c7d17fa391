# SPDX-License-Identifier: Apache-2.0
"""The installed command."""

from __future__ import annotations

import sys
from pathlib import Path

NRI_SCOPE = str(Path(sys.executable).parent / "nri-scope")
