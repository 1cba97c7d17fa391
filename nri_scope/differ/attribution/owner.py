# SPDX-License-Identifier: Apache-2.0
"""Owners of changes, as exact as the evidence and no more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Who(StrEnum):
    """Kinds of owners."""

    PLUGIN = "plugin"
    """Exactly the one in ``plugins``; several of them for hooks, which are joined."""
    ONE_OF = "one of"
    """One or more of ``plugins``; where these are not known, of those between two indices."""
    RUNTIME = "runtime"
    """No plugin: the runtime, or what it was asked for when the container was created."""
    REQUEST = "request"
    """The client that asked the runtime to update the container over CRI, usually the kubelet."""
    UNKNOWN = "unknown"
    """It was not observed."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a change. Use the functions below to make one."""

    who: Who
    plugins: tuple[str, ...] = ()
    """``NN-name``, in call order."""
    first: str = ""
    """For ONE_OF without names: the smallest index it may have, two digits. For REQUEST: such a
    plugin may have had a hand in it."""
    last: str = ""
    """The largest."""
    ties: tuple[str, ...] = ()
    """Indices at the borders of that range. A second plugin with the index of one that we saw may
    be called before it or after, so it may be meant too, if there is one."""
    or_runtime: bool = False
    """It may have been no plugin but the runtime."""

    @property
    def index(self) -> str:
        """``30``, ``01–29``, ``20, 25`` or ""."""
        if self.plugins:
            return ", ".join(dict.fromkeys(plugin[:2] for plugin in self.plugins))
        return between(self.first, self.last) if self.first else ""

    @property
    def exact(self) -> bool:
        """Whether this is certainly the one that did it."""
        return self.who in (Who.PLUGIN, Who.RUNTIME, Who.REQUEST) and not (
            self.or_runtime or self.first or self.ties
        )

    def __str__(self) -> str:
        match self.who:
            case Who.PLUGIN:
                text = ", ".join(self.plugins)
            case Who.ONE_OF if self.plugins:
                text = f"one of {', '.join(self.plugins)}"
            case Who.ONE_OF if self.first == self.last:
                text = f"a plugin at {self.first}"
            case Who.ONE_OF:
                text = f"one of {between(self.first, self.last)}"
            case Who.REQUEST if self.first:
                text = f"CRI request, or one of {between(self.first, self.last)}"
            case Who.REQUEST:
                text = "CRI request"
            case who:
                text = str(who)
        return f"{text}, or the runtime" if self.or_runtime else text


RUNTIME = Owner(Who.RUNTIME)
REQUEST = Owner(Who.REQUEST)
BEFORE_ALL = Owner(Who.RUNTIME, ties=("00",))
"""The runtime, as far as a connection at 00 can show: a second plugin there may come before it."""
ASKED_BEFORE_ALL = Owner(Who.REQUEST, ties=("00",))
"""The request, before the plugins with index 00."""
UNKNOWN = Owner(Who.UNKNOWN)


def plugin(*names: str) -> Owner:
    """Return this plugin (``NN-name``); more than one for hooks, which plugins add to in turn."""
    return Owner(Who.PLUGIN, names)


def one_of(*names: str, or_runtime: bool = False) -> Owner:
    """Return one of these; exactly that one where there is only one."""
    kind = Who.PLUGIN if len(names) == 1 and not or_runtime else Who.ONE_OF
    return Owner(kind, names, or_runtime=or_runtime)


def between(first: str, last: str) -> str:
    """Return a range of indices as text: ``01–29``, or ``50`` where it is only one."""
    return first if first == last else f"{first}–{last}"
