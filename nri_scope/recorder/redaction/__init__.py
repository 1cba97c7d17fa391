# SPDX-License-Identifier: Apache-2.0
"""Replacing what is secret or personal, the same way wherever a recording is written or shown.

A `Redactor` takes messages, texts and names, and gives the same with tokens in place of what its
`Rules` name. Tokens are made with a key, so originals cannot be tried out without it, and for one
container each (see `scope`), so a guess that was planted in another container cannot be compared.
What was once seen as a secret is replaced wherever it is met. For a finished recording, let the
redactor see all of it first (`Redactor.learn`), and then change it.
"""

from nri_scope.recorder.redaction.key import derive, local_key
from nri_scope.recorder.redaction.kind import Kind
from nri_scope.recorder.redaction.known import Original
from nri_scope.recorder.redaction.redactor import Redactor
from nri_scope.recorder.redaction.rules import Rules
from nri_scope.recorder.redaction.tally import Count, Tally

__all__ = ["Count", "Kind", "Original", "Redactor", "Rules", "Tally", "derive", "local_key"]
