# SPDX-License-Identifier: Apache-2.0
"""Compare replies with goldens: the replies that plugins are expected to give, as YAML.

In: the text of a golden, which may be untrusted, and the replies of a replay. Out: mismatches, and
updated goldens that keep comments and matchers. This package never runs a plugin and never reads a
recording.
"""

from __future__ import annotations

from .entries import SESSION, Key, entries_of, fingerprint
from .file_layout import Origin
from .golden import Golden
from .mismatch import Mismatch, MismatchKind
from .render import as_data, lines
from .reply_values import NameOf, plain_reply

__all__ = [
    "SESSION",
    "Golden",
    "Key",
    "Mismatch",
    "MismatchKind",
    "NameOf",
    "Origin",
    "as_data",
    "entries_of",
    "fingerprint",
    "lines",
    "plain_reply",
]
