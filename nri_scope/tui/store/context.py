# SPDX-License-Identifier: Apache-2.0
"""The filters of every view, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nri_scope.events import Container, Pod
from nri_scope.filter import Filter, parse
from nri_scope.filter.tree import quote
from nri_scope.recording.display import SHORT_ID
from nri_scope.text.escape import safe

_SHOWN = 60
"""Maximum columns of a name."""
_KEPT = 100
"""Maximum number of steps back."""


@dataclass(frozen=True, slots=True)
class _Narrowing:
    text: str
    where: Filter | None
    about: Pod | Container | None


class Context:
    """A filter and an optional pod or container; remembers the previous ones."""

    def __init__(
        self,
        where: Filter | None = None,
        marked: Callable[[Filter | None], Filter] | None = None,
    ) -> None:
        """Set up the context. ``where``: the initial filter. ``marked``: returns a filter that also
        requires a mark.
        """
        self._place = _Narrowing(where.text if where is not None else "", where, None)
        # The initial filter can be undone like any other.
        self._before = [_Narrowing("", None, None)] if where is not None else []
        self._marked = marked
        self.only_marked = False
        """Whether only marked events are shown."""

    @property
    def where_text(self) -> str:
        """The filter as it was typed; "" for none."""
        return self._place.text

    @property
    def about(self) -> Pod | Container | None:
        """The pod or container of all views, for `Store.view`."""
        return self._place.about

    def narrow(self, about: Pod | Container) -> None:
        """Narrow to a pod or a container; keep the filter."""
        self._go(replace(self._place, about=about))

    def filter_by(self, text: str) -> None:
        """Set another filter; "" for none. Raises FilterError without changing anything."""
        where = parse(text) if text.strip() else None
        self._go(replace(self._place, text=text.strip(), where=where))

    def everything(self) -> None:
        """Show everything: no filter, no pod, no container; unmarked events, too."""
        self.only_marked = False
        self._go(_Narrowing("", None, None))

    def back(self) -> bool:
        """Go back to the previous narrowing; return False if there is none."""
        if not self._before:
            return False
        self._place = self._before.pop()
        return True

    def where(self) -> Filter | None:
        """Return the filter alone, for `Store.view` together with ``about``; None for no filter."""
        return self._place.where

    def shown(self) -> Filter | None:
        """Return the combined filter for shown events, from all sources; None if all are shown."""
        if self.only_marked and self._marked is not None:
            return self._marked(self._place.where)
        return self._place.where

    @property
    def is_narrowed(self) -> bool:
        """Whether some events are hidden."""
        return self.about is not None or self.shown() is not None

    def filter(self) -> Filter | None:
        """Return filter and ``about`` as one filter for ``log --where``; None for everything."""
        if self.about is None:
            return self._place.where
        named = _term(self.about)
        return parse(f"{named} ({self._place.text})" if self._place.where is not None else named)

    def words(self) -> str:
        """Return the pod or container, safe to show: ``shop/web/app``, ``pod shop/web``; "" for
        none.

        The filter is not included.
        """
        match self.about:
            case None:
                return ""
            case Pod():
                return f"pod {_pod(self.about)}"
            case Container(name=name, id=container_id, pod=pod):
                own = safe(name, _SHOWN) or f"container {safe(container_id[:SHORT_ID])}"
                return f"{_pod(pod)}/{own}" if pod is not None else own

    def told(self) -> str:
        """Describe the current restriction, including filter and marks; "" for everything."""
        marked = "marked" if self.only_marked else ""
        parts = [self.words(), marked, safe(self.where_text, _SHOWN)]
        return " · ".join(part for part in parts if part)

    def _go(self, place: _Narrowing) -> None:
        if place == self._place:
            return
        self._before.append(self._place)
        del self._before[:-_KEPT]
        self._place = place


def _pod(pod: Pod) -> str:
    name = safe(pod.name, _SHOWN) or f"pod {safe(pod.id[:SHORT_ID])}"
    return f"{safe(pod.namespace, _SHOWN)}/{name}" if pod.namespace else name


def _term(about: Pod | Container) -> str:
    """Return a filter term for the pod or container."""
    if about.id:
        return f"id:{quote(about.id)}"
    if isinstance(about, Pod):
        return f"ns:{quote(about.namespace)} pod:{quote(about.name)}"
    return f"container:{quote(about.name)}"
