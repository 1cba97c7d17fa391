# SPDX-License-Identifier: Apache-2.0
"""Goldens: the replies that plugins are expected to give, as YAML that reads well in a diff."""

from __future__ import annotations

from .entries import SESSION, Key, entries_of, fingerprint
from .file_layout import Origin
from .golden import Golden
from .mismatch import Kind, Mismatch
from .render import as_data, lines
from .reply_values import NameOf, plain_reply

__all__ = [
    "SESSION",
    "Golden",
    "Key",
    "Kind",
    "Mismatch",
    "NameOf",
    "Origin",
    "as_data",
    "entries_of",
    "fingerprint",
    "lines",
    "plain_reply",
]
