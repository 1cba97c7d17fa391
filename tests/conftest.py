# SPDX-License-Identifier: Apache-2.0
"""For all tests."""

from __future__ import annotations

from hypothesis import settings

# No deadlines: how long an example takes is a matter of the machine, not of the code.
settings.register_profile("nri-scope", deadline=None)
settings.load_profile("nri-scope")
