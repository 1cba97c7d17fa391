# SPDX-License-Identifier: Apache-2.0
"""A new recording from a part of another one, or from all of it.

Nothing but rows that belong to the part is written: no page, deleted row or log of the original
gets into it. What the part needs to be replayed and compared comes along, as its context.
"""

from nri_scope.recorder.rebuild.change import Change
from nri_scope.recorder.rebuild.rebuild import rebuild
from nri_scope.recorder.rebuild.rebuilt import Rebuilt
from nri_scope.recorder.rebuild.selection import Selection

__all__ = ["Change", "Rebuilt", "Selection", "rebuild"]
