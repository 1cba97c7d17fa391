# SPDX-License-Identifier: Apache-2.0
"""Replace secret and personal values, in the same way wherever a recording is written or shown.

In: messages, texts, names and paths, one at a time. Out: the same with tokens in place of what the
`Rules` cover. Tokens are made with a key, so originals cannot be guessed without it, and for each
container separately (see `scope`), so a guess planted in another container cannot be compared. A
value once identified as a secret is replaced wherever it occurs in the same pod; see
`value_owners`. For a finished recording, let the redactor read all of it first (`Redactor.learn`),
and then change it. This package never knows files or tables.
"""

from .known_values import Original as Original
from .name_kinds import NameKind as NameKind
from .redactor import Redactor as Redactor
from .rules import Rules as Rules
from .tally import Tally as Tally
from .user_key import derive as derive
from .user_key import local_key as local_key
