# SPDX-License-Identifier: Apache-2.0
"""Owners of changes, only as precise as the evidence, and those that validators receive."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nri_scope.oci.runtime_rules import POD_SPEC

CRI_REQUEST = "CRI request"
"""Beginning of the name of the owner of changes that a CRI client requested."""
POD_SPEC_MEANING = (
    "there before any plugin, from the pod spec, the image, the client or the runtime; nothing "
    "tells them apart"
)


class OwnerKind(StrEnum):
    """Kinds of owners."""

    PLUGIN = "plugin"
    """Exactly the plugin in ``plugins``; several plugins for hooks, which runtimes concatenate."""
    ONE_OF = "one of"
    """One or more of ``plugins``; if that is empty, one or more plugins between two indices, or any
    unrecorded plugin."""
    SPEC = "spec"
    """There before any plugin: from the pod spec, the image, the CRI client or the runtime; nothing
    tells them apart."""
    RUNTIME = "runtime"
    """The runtime, after or between the plugins."""
    REQUEST = "request"
    """The client that requested an update over CRI, usually the kubelet."""
    UNKNOWN = "unknown"
    """Not observed."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a change. Create it with the functions below."""

    who: OwnerKind
    plugins: tuple[str, ...] = ()
    """Names of plugins (``NN-name``), in call order."""
    first: str = ""
    """For ONE_OF without names: the lowest possible index, two digits. For REQUEST: a plugin in
    this range may also have made the change."""
    last: str = ""
    """The highest possible index."""
    ties: tuple[str, ...] = ()
    """Indices of the observed connections at the ends of that range. A second plugin with such an
    index may be called before or after the connection, so it may also be the owner."""
    or_runtime: bool = False
    """Whether the owner may be the runtime and not a plugin."""
    or_spec: bool = False
    """With `or_runtime`: the value may have been there before any plugin, as for SPEC."""
    origin: str = POD_SPEC
    """Name of the source of what was there before any plugin."""

    @property
    def index(self) -> str:
        """The index or indices as text: ``30``, ``01–29``, ``20, 25`` or ""."""
        if self.plugins:
            return ", ".join(dict.fromkeys(plugin[:2] for plugin in self.plugins))
        return index_range(self.first, self.last) if self.first else ""

    @property
    def is_unrecorded(self) -> bool:
        """Whether any plugin without a recorded connection may be the owner."""
        return self.who is OwnerKind.ONE_OF and not self.plugins and not self.first

    @property
    def may_be_plugin(self) -> bool:
        """Whether a plugin may be the owner, or the owner is not known."""
        return self.who not in (OwnerKind.RUNTIME, OwnerKind.REQUEST)

    @property
    def place(self) -> str:
        """The place in the chain, as text for the time between two connections."""
        return "unrecorded, if any" if self.is_unrecorded else self.index

    @property
    def exact(self) -> bool:
        """Whether the owner is certain."""
        certain = (OwnerKind.PLUGIN, OwnerKind.SPEC, OwnerKind.RUNTIME, OwnerKind.REQUEST)
        return self.who in certain and not (self.or_runtime or self.first or self.ties)

    def may_be(self, name: str) -> bool:
        """Return whether this may be the plugin `name` (``NN-name``)."""
        if self.plugins:
            return name in self.plugins
        if self.who is OwnerKind.ONE_OF and self.first:
            return self.first <= name[:2] <= self.last or name[:2] in self.ties
        return self.who in (OwnerKind.UNKNOWN, OwnerKind.ONE_OF)

    def is_before(self, name: str) -> bool:
        """Return whether the plugin `name` was called after all that this may be."""
        highest = max(each[:2] for each in self.plugins) if self.plugins else self.last
        return bool(highest) and name[:2] >= highest

    def __str__(self) -> str:
        match self.who:
            case OwnerKind.PLUGIN:
                text = ", ".join(self.plugins)
            case OwnerKind.ONE_OF if self.plugins:
                text = f"one of {', '.join(self.plugins)}"
            case OwnerKind.ONE_OF if self.is_unrecorded:
                text = "an unrecorded plugin"
            case OwnerKind.ONE_OF if self.first == self.last:
                text = f"a plugin at {self.first}"
            case OwnerKind.ONE_OF:
                text = f"one of {index_range(self.first, self.last)}"
            case OwnerKind.REQUEST if self.first:
                text = f"{CRI_REQUEST}, or one of {index_range(self.first, self.last)}"
            case OwnerKind.REQUEST:
                text = CRI_REQUEST
            case OwnerKind.SPEC:
                text = self.origin
            case who:
                text = str(who)
        other = self.origin if self.or_spec else "the runtime"
        return f"{text}, or {other}" if self.or_runtime else text


RUNTIME = Owner(OwnerKind.RUNTIME)
REQUEST = Owner(OwnerKind.REQUEST)
SPEC = Owner(OwnerKind.SPEC)
BEFORE_ALL = Owner(OwnerKind.SPEC, ties=("00",))
"""As seen by a connection at 00; a second plugin at 00 may have been called before it."""
AFTER_ALL = Owner(OwnerKind.RUNTIME, ties=("99",))
"""The runtime, by a connection at 99; a second plugin at 99 may have been called after it."""
ASKED_BEFORE_ALL = Owner(OwnerKind.REQUEST, ties=("00",))
"""The CRI request, by a connection at 00; a second plugin at 00 may have been called before it."""
UNKNOWN = Owner(OwnerKind.UNKNOWN)


def plugin(*names: str) -> Owner:
    """Return a plugin (``NN-name``) as owner; several for hooks, which plugins append."""
    return Owner(OwnerKind.PLUGIN, names)


def one_of(*names: str, or_runtime: bool = False) -> Owner:
    """Return one of several plugins as owner; exactly that plugin if there is only one."""
    kind = OwnerKind.PLUGIN if len(names) == 1 and not or_runtime else OwnerKind.ONE_OF
    return Owner(kind, names, or_runtime=or_runtime)


def index_range(first: str, last: str) -> str:
    """Return a range of indices as text: ``01–29``, or ``50`` for a single index."""
    return first if first == last else f"{first}–{last}"
