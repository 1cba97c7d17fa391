# SPDX-License-Identifier: Apache-2.0
"""Follow a recording that probes are writing.

In: the path of the growing file, messages of the recorder process. Out: rounds for a renderer, and
messages to the recorder process. This package runs in a process of its own, the
viewer, and never replies to a runtime.
"""

from __future__ import annotations
