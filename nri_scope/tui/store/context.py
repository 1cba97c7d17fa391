# SPDX-License-Identifier: Apache-2.0
"""The restriction shared by all views, and its history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nri_scope.events import Container, Pod
from nri_scope.filter import Filter, TimeSpan, parse
from nri_scope.filter.tree import quote
from nri_scope.text.escape import safe
from nri_scope.text.quantities import SHORT_ID

_MAX_COLUMNS = 60
"""Maximum columns of a name or filter."""
_SLOW = " (slow: >50% of the deadline)"
_MAX_HISTORY = 100
"""Maximum number of steps back."""


@dataclass(frozen=True, slots=True)
class _Restriction:
    text: str
    where: Filter | None
    about: Pod | Container | None


class Context:
    """A filter and an optional pod or container, with the previous ones."""

    def __init__(
        self,
        where: Filter | None = None,
        marked: Callable[[Filter | None], Filter] | None = None,
    ) -> None:
        """Create the context. ``where``: the initial filter. ``marked`` adds the condition
        that events are marked.
        """
        self._current = _Restriction(where.text if where is not None else "", where, None)
        # The initial filter can be undone like any other.
        self._previous = [_Restriction("", None, None)] if where is not None else []
        self._marked = marked
        self._span: Callable[[], TimeSpan | None] = lambda: None
        self.only_marked = False
        """Whether only marked events are shown."""
        self.grouped = True
        """Whether the list has one row for each operation, instead of each event."""

    def bind(self, span: Callable[[], TimeSpan | None]) -> None:
        """Use the times of the recording that ``span`` returns, also for the initial filter.

        Raises FilterError if a time of it is ambiguous.
        """
        self._span = span
        where = self._current.where
        if where is not None:
            self._current = replace(self._current, where=where.within(span()))

    @property
    def where_text(self) -> str:
        """The filter as typed; "" for none."""
        return self._current.text

    @property
    def about(self) -> Pod | Container | None:
        """The pod or container to which all views are restricted, for `Store.view`."""
        return self._current.about

    def narrow(self, about: Pod | Container) -> None:
        """Restrict to a pod or container; keep the filter."""
        self._set(replace(self._current, about=about))

    def filter_by(self, text: str) -> None:
        """Replace the filter; "" removes it. Raises FilterError, and then changes nothing."""
        where = parse(text, self._span()) if text.strip() else None
        self._set(replace(self._current, text=text.strip(), where=where))

    def everything(self) -> None:
        """Remove all restrictions: filter, pod, container and marks."""
        self.only_marked = False
        self._set(_Restriction("", None, None))

    def back(self) -> bool:
        """Go back to the previous restriction; return False if there is none."""
        if not self._previous:
            return False
        self._current = self._previous.pop()
        return True

    def where(self) -> Filter | None:
        """Return the filter without ``about`` and marks; None for no filter."""
        return self._current.where

    def shown(self) -> Filter | None:
        """Return the filter including marks but not ``about``, for `Store.view`; None for none."""
        if self.only_marked and self._marked is not None:
            return self._marked(self._current.where)
        return self._current.where

    def marked(self) -> Filter | None:
        """Return a filter for the marked events; None if events cannot be marked."""
        return self._marked(None) if self._marked is not None else None

    @property
    def is_narrowed(self) -> bool:
        """Whether some events are hidden."""
        return self.about is not None or self.shown() is not None

    def filter(self) -> Filter | None:
        """Return filter and ``about`` as one filter for ``log --where``; None for everything."""
        where = self._current.where
        if self.about is None:
            return where
        named = _filter_term(self.about)
        # Not the typed text: its times may depend on when it is parsed.
        return parse(named if where is None else f"{named} ({where})")

    def words(self) -> str:
        """Return the pod or container, safe to show, as ``shop/web/app`` or ``pod shop/web``."""
        match self.about:
            case None:
                return ""
            case Pod():
                return f"pod {_pod(self.about)}"
            case Container(name=name, id=container_id, pod=pod) as about:
                own = safe(name, _MAX_COLUMNS) or f"container {safe(container_id[:SHORT_ID])}"
                return own if pod is None or about.is_alone else f"{_pod(pod)}/{own}"

    def description(self) -> str:
        """Describe the restriction, including filter and marks; "" if there is none."""
        threshold = _SLOW if "problem:slow" in self.where_text else ""
        parts = [self.limits(), f"{safe(self.where_text, _MAX_COLUMNS)}{threshold}"]
        return " · ".join(part for part in parts if part)

    def limits(self) -> str:
        """Describe the restriction without the filter; "" if there is none."""
        parts = [self.words(), "marked" if self.only_marked else ""]
        return " · ".join(part for part in parts if part)

    def _set(self, restriction: _Restriction) -> None:
        if restriction == self._current:
            return
        self._previous.append(self._current)
        del self._previous[:-_MAX_HISTORY]
        self._current = restriction


def _pod(pod: Pod) -> str:
    name = safe(pod.name, _MAX_COLUMNS) or f"pod {safe(pod.id[:SHORT_ID])}"
    return f"{safe(pod.namespace, _MAX_COLUMNS)}/{name}" if pod.namespace else name


def _filter_term(about: Pod | Container) -> str:
    """Return a filter term for the pod or container."""
    if about.id:
        return f"id:{quote(about.id)}"
    if isinstance(about, Pod):
        return f"ns:{quote(about.namespace)} pod:{quote(about.name, is_name=True)}"
    return f"container:{quote(about.name, is_name=True)}"
