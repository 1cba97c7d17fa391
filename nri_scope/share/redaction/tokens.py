# SPDX-License-Identifier: Apache-2.0
"""Tokens: the replacements of originals, their scopes, and the user's key.

A token is recognized by its form, regardless of its key, so that text which was already redacted
stays unchanged. It has the form of its original as far as programs require this: an address becomes
an address, a host name a host name, a path a path, and a plain token is valid as a DNS label, a
file name, a key or a value.

Tokens belong to a scope: the containers of one name in the pods of one workload of a namespace, so
that these can be compared. Equal originals have equal tokens within the scope, and tokens of two
scopes cannot be linked. A user who can write a value into one container sees its token. If the same
value had the same token in another workload, the user could verify guesses about values there.

The user's key makes tokens stable across runs, and never leaves the machine.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import stat
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nri_scope._gen.nri.api_pb2 import Container
from nri_scope.errors import UsageError, reason_of
from nri_scope.nri.request_subject import name_of_container, workload_of
from nri_scope.process.private_folders import make_private_folder
from nri_scope.recording.cache import RecentlyUsed
from nri_scope.recording.file.trusted_location import (
    folder_access,
    name_of,
    trusted_users,
    write_atomically,
)

from .harmless import ENDINGS

KEY_BYTES = 32

_MAX_CONTAINERS = 10_000
"""Number of containers whose pods are remembered."""

TOKEN_PREFIX = "redacted-"
PLAIN_TOKEN = TOKEN_PREFIX + "[a-z2-7]{12}"
"""Pattern of the plain token; all other tokens contain one, except addresses."""
HOST_SUFFIX = ".invalid"
MAIL_SUFFIX = "@redacted.invalid"
# Reserved for documentation and benchmarks (RFC 2544, RFC 3849): no host has such an address.
TOKEN_NETWORK4 = ipaddress.IPv4Network("198.18.0.0/15")
TOKEN_NETWORK6 = ipaddress.IPv6Network("2001:db8::/32")

_NAMES_UNIT = ""
"""The scope of names and ids, whose tokens must be the same in a whole recording."""

_NETWORK_PREFIXES = ("198.18.", "198.19.", "2001:")
"""The beginnings of all addresses in these networks, in any spelling."""
_ATTEMPTS = 64
_RESERVED4 = TOKEN_NETWORK4.num_addresses // 8
"""Number of IPv4 addresses left unused per scope: a search for the last free ones takes long."""
_CACHED_MAX = 256
"""Maximum number of characters of an original whose token is cached. A token is made in
microseconds, and each of 2,000 containers may have the same long values."""
_TOKEN = re.compile(f"/?{PLAIN_TOKEN}(?:{re.escape(HOST_SUFFIX)}|{re.escape(MAIL_SUFFIX)})?")
_HOST = re.compile(r"(?=.{4,253}$)(?:[A-Za-z0-9_-]{1,63}\.)+[A-Za-z][A-Za-z0-9-]{1,62}\.?")
_MAIL = re.compile(r"[^\s@/:]{1,64}@[A-Za-z0-9.-]{3,253}")


def is_token(text: str) -> bool:
    """Return whether the whole ``text`` is a token."""
    return (TOKEN_PREFIX in text and _TOKEN.fullmatch(text) is not None) or is_token_address(text)


def is_token_address(text: str) -> bool:
    """Return whether ``text`` is an address of the networks for tokens."""
    if not text.startswith(_NETWORK_PREFIXES):
        return False
    address = address_of(text)
    return address is not None and address in (
        TOKEN_NETWORK4 if address.version == 4 else TOKEN_NETWORK6
    )


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return ``text`` as an IP address, or None if it contains anything else."""
    if (
        len(text) > 45
        or not text
        or text[0] not in "0123456789abcdefABCDEF:"
        or ("." not in text and ":" not in text)
    ):
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_local(text: str) -> bool:
    """Return whether ``text`` is an address that means the same on each machine."""
    address = address_of(text)
    return address is not None and (
        address.is_loopback or address.is_unspecified or text.startswith("255.")
    )


class Tokens:
    """Generator of tokens: one per original and scope, different for different originals."""

    def __init__(self, key: bytes, max_tokens: int = 200_000) -> None:
        """Create a cache of about ``max_tokens``; others are computed again."""
        self._key = key
        self._most = max_tokens
        self._cache: RecentlyUsed[tuple[str, str], str] = RecentlyUsed(max_tokens)
        self._taken: OrderedDict[str, dict[str, str]] = OrderedDict()
        self._taken_count = 0

    def token_for(self, original: str, scope: str = _NAMES_UNIT) -> str:
        """Return the token for ``original`` in ``scope``."""
        token = self._cache.get((scope, original))
        if token is None:
            token = self._made(original, scope)
            if len(original) <= _CACHED_MAX:
                self._cache.put((scope, original), token)
        return token

    def _made(self, original: str, scope: str) -> str:
        address = address_of(original)
        if address is not None:
            if address.version == 4:
                token = self._address4(original, scope)
                if token is not None:
                    return token
            else:
                return _address_in(TOKEN_NETWORK6, self._digest(original, scope))
        plain = _plain_token(self._digest(original, scope))
        if original.startswith("/"):
            return "/" + plain
        if "@" in original and _MAIL.fullmatch(original):
            return plain + MAIL_SUFFIX
        if (
            "." in original
            and _HOST.fullmatch(original)
            and original.rpartition(".")[2].lower() in ENDINGS
        ):
            return plain + HOST_SUFFIX
        return plain

    def _address4(self, original: str, scope: str) -> str | None:
        """Return an address that no other original in the scope has, or None if few are left.

        There are only 2^17 addresses, so originals may collide. The plain token used in this case
        is not a valid address, so no program can mistake it for a host's.
        """
        in_use = self._taken.get(scope)
        if in_use is None:
            while self._taken and self._taken_count > self._most:
                self._taken_count -= len(self._taken.popitem(last=False)[1])
            in_use = self._taken[scope] = {}
        for attempt in range(_ATTEMPTS):
            token = _address_in(TOKEN_NETWORK4, self._digest(original, scope, attempt))
            owner = in_use.get(token)
            if owner == original:
                return token
            if owner is None:
                if len(in_use) >= TOKEN_NETWORK4.num_addresses - _RESERVED4:
                    break
                in_use[token] = original
                self._taken_count += 1
                return token
        return None

    def _digest(self, original: str, scope: str, attempt: int = 0) -> bytes:
        encoded_scope = scope.encode("utf-8", "surrogatepass")
        content = original.encode("utf-8", "surrogatepass")
        # The length prefix separates the scope from the original.
        message = b"".join(
            (bytes([attempt]), len(encoded_scope).to_bytes(4, "big"), encoded_scope, content)
        )
        return hmac.digest(self._key, message, hashlib.sha256)


def _plain_token(digest: bytes) -> str:
    return TOKEN_PREFIX + base64.b32encode(digest[:10])[:12].decode().lower()


def _address_in(network: ipaddress.IPv4Network | ipaddress.IPv6Network, digest: bytes) -> str:
    hosts = network.num_addresses - 2
    return str(network[1 + int.from_bytes(digest, "big") % hosts])


class TokenScope(NamedTuple):
    """The unit to which a text belongs for the choice of tokens."""

    name: str
    """The scope for `Tokens.token_for`."""
    pod: str
    """The pod whose visible names may be shown; the text's own unit if its pod is unknown."""

    @property
    def subject(self) -> str:
        """The container or pod, for people; "" for text about none."""
        return self.name if self.name.startswith(("container ", "pod ", "pods ")) else ""


NAMES_SCOPE = TokenScope(_NAMES_UNIT, "names")
"""The scope of all names and ids."""


class Scopes:
    """Finds the scopes of a recording's parts."""

    def __init__(self) -> None:
        self._containers: RecentlyUsed[str, TokenScope] = RecentlyUsed(_MAX_CONTAINERS)
        self._workloads: RecentlyUsed[str, str] = RecentlyUsed(_MAX_CONTAINERS)
        """By id of a pod."""

    def note_pod(self, pod: str, namespace: str, name: str) -> None:
        """Note the names of a pod: the pods of one workload have one scope, and their containers
        of one name, too.
        """
        if pod and namespace and name:
            self._workloads.put(pod, f"{namespace}/{workload_of(name)}")

    def pod(self, pod: str) -> TokenScope:
        """Return the scope of a pod without its containers."""
        return TokenScope(self._of_pod(pod), f"pod {pod}")

    def container(self, container: str, pod: str = "", name: str = "") -> TokenScope:
        """Return the scope of a container; its first ``pod`` (an id) and ``name`` are remembered:
        some texts contain only the container's id, and plugins can change a name in annotations.
        """
        known = self._containers.get(container) if container else None
        if known is not None:
            return known
        # iSulad has no id when a container is being created, and changes the name afterwards.
        bare = name_of_container(Container(name=name))
        if pod and name and (bare != name or not container or self._workloads.get(pod)):
            unit = f"container {bare} of {self._of_pod(pod)}"
        else:
            unit = f"container {container}"
        scope = TokenScope(unit, f"pod {pod}" if pod else f"container {container}")
        if container and pod:
            self._containers.put(container, scope)
        return scope

    def content(self, place: str, content: bytes) -> TokenScope:
        """Return a scope for text about no container; only identical content shares it."""
        name = f"{place} {hashlib.sha256(content).hexdigest()}"
        return TokenScope(name, name)

    def _of_pod(self, pod: str) -> str:
        workload = self._workloads.get(pod)
        return f"pod {pod}" if workload is None else f"pods of {workload}"


def key_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the key according to the XDG Base Directory Specification."""
    folder = environ.get("XDG_STATE_HOME", "")
    # The specification requires ignoring a relative path.
    base = Path(folder) if folder.startswith("/") else Path("~/.local/state").expanduser()
    return base / "nri-scope"


def local_key(folder: Path | None = None) -> bytes:
    """Return the user's key on this machine, created on first use. Raises UsageError.

    Only the owner may read the file: with the key, guesses of a token's original can be verified.
    """
    path = (folder if folder is not None else key_folder()) / "redaction.key"
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        make_private_folder(path.parent)
        return _make(path)
    except OSError as error:
        raise _unusable(path, error) from error


def derive(key: bytes, purpose: bytes) -> bytes:
    """Return a key for ``purpose``, e.g. one recording; tokens of two purposes cannot be linked."""
    return hmac.digest(key, b"nri-scope redaction\0" + purpose, hashlib.sha256)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path}: the redaction key is not a regular file", "remove it")
        _check_owners(path, status.st_uid)
        if status.st_mode & 0o077:
            raise UsageError(
                f"{path}: users other than the owner can read this key",
                "remove it: the next run makes a new key and other tokens",
            )
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise UsageError(f"{path}: not a key of {KEY_BYTES} bytes", "remove it")
    return key


def _check_owners(path: Path, owner: int) -> None:
    """Raise UsageError if another user owns the key or could replace it with a known one.

    Also raises OSError.
    """
    problem = folder_access(Path(os.path.realpath(path.parent))).problem
    if owner not in trusted_users():
        problem = f"it belongs to another user ({name_of(owner)})"
    if problem:
        raise UsageError(
            f"{path}: the redaction key cannot be trusted: {problem}",
            "set XDG_STATE_HOME to a folder of your own",
        )


def _make(path: Path) -> bytes:
    _check_owners(path, os.geteuid())
    key = secrets.token_bytes(KEY_BYTES)
    try:
        write_atomically(path, key, only_new=True)
    except FileExistsError:
        # Another process was faster.
        return _read(path)
    return key


def _unusable(path: Path, error: OSError) -> UsageError:
    words = reason_of(error)
    return UsageError(f"{path}: the redaction key cannot be used: {words}", "check its folder")
