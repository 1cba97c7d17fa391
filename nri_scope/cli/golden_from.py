# SPDX-License-Identifier: Apache-2.0
"""``replay --golden-from``: compare replies with those recorded in production."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nri_scope.replay.golden import Mismatch
from nri_scope.replay.recorded_replies import Model, Production
from nri_scope.replay.run import Job
from nri_scope.text.escape import safe

if TYPE_CHECKING:
    from nri_scope.nri.plain import Plain
    from nri_scope.replay.result import Replayed

WHAT = "the tap in"
"""A description of the file with which replies are compared."""
NOTES_MAX = 5
"""Maximum number of notes of one session that are shown."""
WIDTH_MAX = 400


class GoldenFrom:
    """Compares one replay with a recording: use `prepared` before, `compare` after the replay."""

    def __init__(self, path: Path, job: Job) -> None:
        """Open the recording. Raise `RecordingError`, and `UsageError` if no plugin matches."""
        self.path = path
        self._production = Production.of(path, job.recording)
        self._models: Mapping[str, Model] = {}
        # The names of plugins that connect later are not known yet.
        known = [] if job.casting.listen is not None else [one.id for one in job.casting.plugins]
        session = self._production.session_for(known, job.choice)
        self._choice = replace(job.choice, session=session)
        if known:
            self._models = self._production.models(known, self._choice)

    def prepared(self, job: Job) -> Job:
        """Return the replay with the tapped session, unless another one was named."""
        return replace(job, choice=self._choice)

    def compare(self, replayed: Replayed) -> list[Mismatch]:
        """Return the differences between the replies and those in production.

        Raises `RecordingError`, and `UsageError` if no recorded plugin matches.
        """
        if not self._models:
            plugins = [one.plugin for one in replayed.plugins]
            self._models = self._production.models(plugins, self._choice)
        return self._production.compare(replayed, self._models, self._choice)

    def warnings(self) -> Iterator[str]:
        """Yield the recording's notes on the sessions with the compared replies."""
        for model in self._models.values():
            for session in model.sessions:
                for note in self._production.notes.get(session, ())[:NOTES_MAX]:
                    yield safe(f"note in {self.path}, session {session}: {note}", WIDTH_MAX)

    def verdict(self, mismatches: Sequence[Mismatch]) -> Iterator[str]:
        """Yield a line for each plugin: the recorded plugin and whether the replies are equal."""
        for plugin, model in self._models.items():
            alike = not any(one.key.plugin == plugin for one in mismatches)
            whose = model.plugin if plugin == model.plugin else f"{model.plugin} (for {plugin})"
            sessions = ", ".join(map(str, model.sessions[:20]))
            number = f"session{'s' if len(model.sessions) > 1 else ''} {sessions}"
            as_it_did = "as" if alike else "not as"
            yield f"{as_it_did} {safe(whose)} answered in {safe(str(self.path))}, {number}"

    def data(self) -> list[Plain]:
        """Return the compared plugins and sessions for programs."""
        return [
            {"plugin": plugin, "tapped": model.plugin, "sessions": list(model.sessions)}
            for plugin, model in self._models.items()
        ]
