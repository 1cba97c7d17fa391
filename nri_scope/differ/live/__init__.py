# SPDX-License-Identifier: Apache-2.0
"""Follow a recording that probes are writing, ask the CRI about its containers, and place probes.

In: the path of the growing file, messages of the recorder's process, answers of the CRI. Out:
rounds for a renderer, and commands for the recorder's process. It runs in a process of its own, the
viewer, and never answers a runtime.
"""

from __future__ import annotations
