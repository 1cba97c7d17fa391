# SPDX-License-Identifier: Apache-2.0
"""Replace what is not known to be harmless, wherever a recording is written or shown.

In: messages, texts, names and paths, one at a time. Out: the same with tokens in place of
everything that is neither known to be harmless (`harmless`) nor a name of the recording; what
follows a key that names a credential is always replaced. Tokens are made with a key, so originals
cannot be guessed without it, and for each container separately (`tokens.TokenScope`), so a guess
planted in another container cannot be compared. This package never knows files or tables.
"""

from .engine import ELSEWHERE as ELSEWHERE
from .engine import REPEATED as REPEATED
from .engine import ReplacementCounts as ReplacementCounts
from .names import NameKind as NameKind
from .redactor import Redactor as Redactor
from .rules import Rules as Rules
from .tokens import derive as derive
from .tokens import local_key as local_key
