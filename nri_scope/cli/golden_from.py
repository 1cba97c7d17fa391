# SPDX-License-Identifier: Apache-2.0
"""``replay --golden-from``: compare replies with a tapped plugin's recorded ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.replay.golden import Mismatch
from nri_scope.replay.recorded_replies import TappedPlugin, TappedPlugins
from nri_scope.replay.run import Job
from nri_scope.text.escape import safe

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain
    from nri_scope.replay.result import Replayed

SOURCE_LABEL = "the tap in"
"""Label printed before the recording's path, where a golden's label is used otherwise."""
SESSIONS_LISTED = 20
"""Maximum number of sessions listed in a verdict."""
NOTES_MAX = 5
"""Maximum number of notes printed for one session."""
NOTE_WIDTH_MAX = 400
"""Maximum number of columns of a note."""


class TapComparison:
    """Comparison of one replay with a tap's recording: `prepared` before it, `compare` after it."""

    def __init__(self, path: Path, job: Job) -> None:
        """Open the recording.

        Raises `RecordingError` if it cannot be read, and `UsageError` if no plugin matches.
        """
        self.path = path
        self._tapped = TappedPlugins.of(path, job.recording)
        self._models: Mapping[str, TappedPlugin] = {}
        # Names of external plugins are unknown until they connect.
        plugin_set = job.plugin_set
        known = [] if plugin_set.has_externals else [one.id for one in plugin_set.plugins]
        session = self._tapped.session_for(known, job.selection)
        self._selection = replace(job.selection, session=session)
        if known:
            self._models = self._tapped.models(known, self._selection)

    def prepared(self, job: Job) -> Job:
        """Return the job with the tapped session selected, unless --session selects another."""
        return replace(job, selection=self._selection)

    def compare(self, replayed: Replayed) -> list[Mismatch]:
        """Return the differences between the replies and the recorded ones.

        Raises `RecordingError`, and `UsageError` if no recorded plugin matches.
        """
        if not self._models:
            plugins = [one.plugin for one in replayed.plugins]
            self._models = self._tapped.models(plugins, self._selection)
        return self._tapped.compare(replayed, self._models, self._selection)

    def warnings(self) -> Iterator[str]:
        """Yield the recording's notes on the compared sessions."""
        for model in self._models.values():
            for session in model.sessions:
                for note in self._tapped.notes.get(session, ())[:NOTES_MAX]:
                    yield safe(f"note in {self.path}, session {session}: {note}", NOTE_WIDTH_MAX)

    def verdict(self, mismatches: Sequence[Mismatch]) -> Iterator[str]:
        """Yield a line for each plugin: whether its replies equal the recorded plugin's."""
        for plugin, model in self._models.items():
            is_equal = not any(one.key.plugin == plugin for one in mismatches)
            subject = "replies" if plugin == model.plugin else f"replies of {plugin}"
            verdict = "equal those of" if is_equal else "differ from those of"
            numbers = ", ".join(map(str, model.sessions[:SESSIONS_LISTED]))
            sessions = f"session{'s' if len(model.sessions) > 1 else ''} {numbers}"
            yield safe(f"{subject} {verdict} {model.plugin} in {self.path}, {sessions}")

    def data(self) -> list[Plain]:
        """Return the compared plugins and sessions for JSON output."""
        return [
            {"plugin": plugin, "tapped": model.plugin, "sessions": list(model.sessions)}
            for plugin, model in self._models.items()
        ]
