# SPDX-License-Identifier: Apache-2.0
"""Compare replies with goldens, which are the expected replies of plugins as YAML.

In: the text of a golden, which may be untrusted, and the replies of a replay. Out: mismatches, and
updated goldens that keep comments and matchers. This package never runs a plugin and never reads a
recording.
"""

from __future__ import annotations

from .compare import Mismatch as Mismatch
from .compare import MismatchKind as MismatchKind
from .entries import SESSION as SESSION
from .entries import Origin as Origin
from .entries import ReplyKey as ReplyKey
from .entries import fingerprint as fingerprint
from .golden import Golden as Golden
from .render import as_data as as_data
from .render import lines as lines
from .reply_values import plain_reply as plain_reply
