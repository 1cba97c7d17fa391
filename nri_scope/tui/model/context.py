# SPDX-License-Identifier: Apache-2.0
"""What every view is narrowed to, and the way back."""

from __future__ import annotations

from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Container, Pod


class Context:
    """A filter and perhaps a pod or a container; remembers what it was before."""

    where_text: str
    about: Pod | Container | None

    @property
    def pod(self) -> Pod | None:
        """The pod that everything is narrowed to."""
        raise NotImplementedError

    @property
    def container(self) -> Container | None:
        """The container that everything is narrowed to."""
        raise NotImplementedError

    def narrow(self, about: Pod | Container) -> None:
        """Narrow to a pod or a container; the filter stays."""
        raise NotImplementedError

    def filter_by(self, text: str) -> None:
        """Another filter; "" for none. Raises FilterError, and changes nothing then."""
        raise NotImplementedError

    def back(self) -> bool:
        """To what it was before; False where there is nothing before."""
        raise NotImplementedError

    def where(self) -> Filter | None:
        """The filter alone, for `Store.view` together with ``about``; None for no filter."""
        raise NotImplementedError

    def filter(self) -> Filter | None:
        """Both in one filter: what ``log --where`` takes; None where nothing is narrowed."""
        raise NotImplementedError

    def words(self) -> str:
        """What it is narrowed to, safe to show; "" for nothing."""
        raise NotImplementedError
