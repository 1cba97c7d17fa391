# SPDX-License-Identifier: Apache-2.0
"""The differ while it happens: follow the recording that the probes write, ask the CRI, aim probes.

All of it is for a process of its own: the one that answers the runtime has no time for it.
"""

from __future__ import annotations
