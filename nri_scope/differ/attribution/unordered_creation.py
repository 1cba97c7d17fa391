# SPDX-License-Identifier: Apache-2.0
"""Evaluate one CreateContainer of a runtime that calls plugins in no order, as iSulad does."""

from __future__ import annotations

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri import merging
from nri_scope.nri.no_change import is_empty_reply
from nri_scope.oci import isulad_spec

from .attributed_changes import Failure, FailureKind, Shows, dropped, refused
from .creation import CreationEvaluation, Requests
from .history import History
from .observed_round import CONTINUED, GONE
from .owner import RUNTIME, SPEC, plugin
from .round_results import RequestSource, step


class UnorderedCreation(CreationEvaluation):
    """The evaluation of a creation in which all plugins received the original container."""

    __slots__ = ()

    def _evaluate(self, pairs: Requests) -> History:
        if not pairs:
            return super()._evaluate(pairs)
        first, request = pairs[0]
        container = request.container.id
        base = spec = oci.spec_of(request.container)
        merged = merging.IsuladCreation(request, version=first.version)
        if not self.is_replay:
            self.results.note(first.rules.blind_spot)
        for part, _ in pairs:
            event, source = part.event, RequestSource.of(part)
            if event.status_code not in (0, *GONE):
                self.results.note(f"{part.error.text}; {CONTINUED}")
            reply = part.reply_as(api.CreateContainerResponse)
            if reply is None or (part.is_passive and is_empty_reply(reply)):
                continue
            known = len(merged.dropped)
            try:
                merged.apply(reply, part.plugin)
            except AdjustmentRefused as error:
                text = f"{part.plugin}: {error.problem}"
                self.results.fail(Failure(FailureKind.OTHER, text))
                break
            own = isulad_spec.as_requested(merged.applied[-1][1])
            after = isulad_spec.adjust(spec, own)
            for lost in merged.dropped[known:]:
                target, outcome = lost.container_id or container, dropped(lost.reason)
                self.results.ask(target, lost.path, lost.value, source, outcome)
            notes = isulad_spec.notes(merged, part.plugin)
            for change in specs.changes(spec, after):
                note = notes.get(change.path, "")
                self.results.steps.append(step(container, change, source, note))
            spec = after
        refusal = isulad_spec.creation_refusal(merged)
        if refusal is not None:
            text = f"{refusal.plugin}: {refusal.reason}"
            self.results.fail(Failure(FailureKind.REFUSED, text))
        refusal = refusal or isulad_spec.start_refusal(merged)
        if refusal is not None:
            for each in self.results.steps:
                if each.owner == plugin(refusal.plugin) and each.change.path in refusal.paths:
                    each.settle(refused(refusal.reason, Shows.RULE))
                    each.annotate("")
        self.results.supersede()
        tail = RUNTIME if self.is_replay else self.chain.between(None, None, or_runtime=True)
        return History(container, "", base, SPEC, spec, tail=tail)
