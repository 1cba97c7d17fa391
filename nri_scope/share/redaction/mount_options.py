# SPDX-License-Identifier: Apache-2.0
"""Find credentials in options of mounts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .credentials import redact_keyed, redact_login, replace_credential
from .key_names import Certainty
from .tokens import PLAIN_TOKEN, is_token
from .word_lists import words

if TYPE_CHECKING:
    from .engine import Engine

_KEY = re.compile(r"(?:^|,)([A-Za-z_][A-Za-z0-9_.-]*)=")
_TRAILING_TOKEN = re.compile(f"=.*{PLAIN_TOKEN}$")
_USER_KEYS = frozenset({"user", "username"})
_CREDENTIAL_KEYS = words("key")
"""Option names that mean a credential only in mount options."""
_FLAGS = words(
    "async atime auto bg bind defaults dev diratime dirsync discard exec fg group hard iversion "
    "lazytime loud mand mfsymlinks noac noacl noatime noauto nobrl nocase nocto nodev nodiratime "
    "nodiscard noexec nofail noiversion nolock nomand noperm norelatime noserverino nosetuids "
    "nosharesock nostrictatime nosuid nouser nounix nouser_xattr owner perm private rbind rdma rec "
    "relatime remount resilienthandles ro rprivate rro rshared rslave runbindable rw seal "
    "serverino setuids shared silent slave soft strictatime suid sync tcp tmpcopyup udp unbindable "
    "user user_xattr users acl _netdev forceuid forcegid noforceuid noforcegid cifsacl dynperm "
    "persistenthandles sfu idmap ridmap"
)
"""Options without a value; any other text after a credential belongs to it."""


def redact_options(engine: Engine, options: Sequence[str], place: str) -> list[str]:
    """Redact a mount's options: ``key=value``, or several separated by commas."""
    redacted: list[str] = []
    is_after_credential = False
    for number, option in enumerate(options):
        if engine.is_exhausted():
            redacted.append(engine.replace_rest(options[number:], place))
            break
        if is_after_credential and "=" not in option and option not in _FLAGS:
            # A part of a credential with commas, which the runtime has split.
            redacted.append(
                option if is_token(option) else replace_credential(engine, option, place)
            )
            continue
        shown = redact_credentials(engine, option, place)
        is_after_credential = _TRAILING_TOKEN.search(shown) is not None
        redacted.append(engine.redact_text(shown, place))
    return redacted


def redact_credentials(engine: Engine, option: str, place: str) -> str:
    """Redact the credentials in ``key=value``, or in a comma-separated list of them."""
    pieces: list[str] = []
    position = 0
    found = list(_KEY.finditer(option))
    for number, match in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(option)
        value = option[match.end() : end]
        certainty = Certainty.LIKELY if match[1].lower() in _CREDENTIAL_KEYS else Certainty.NONE
        redacted = redact_keyed(engine, match[1], value, place, certainty)
        if redacted is None and match[1].lower() in _USER_KEYS and "%" in value:
            # Documented in CIFS manuals: user%password
            redacted = redact_login(engine, value, place, "%")
        if redacted is not None:
            pieces += option[position : match.end()], redacted
            position = end
    return "".join((*pieces, option[position:]))
