# SPDX-License-Identifier: Apache-2.0
"""Replacing what is secret or personal, the same way wherever a recording is written or shown.

A `Redactor` takes messages, texts and names, and gives the same with tokens in place of what its
`Rules` name. Tokens are made with a key, so originals cannot be tried out without it, and for one
container each (see `scope`), so a guess that was planted in another container cannot be compared.
What was once seen as a secret is replaced wherever it is met in the same pod; see `owners`. For a
finished recording, let the redactor see all of it first (`Redactor.learn`), and then change it.
"""

from .known_values import Original
from .name_kinds import Kind
from .redactor import Redactor
from .rules import Rules
from .tally import Count, Tally
from .user_key import derive, local_key

__all__ = ["Count", "Kind", "Original", "Redactor", "Rules", "Tally", "derive", "local_key"]
