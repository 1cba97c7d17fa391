# SPDX-License-Identifier: Apache-2.0
"""Contradicting evidence: both claims are shown."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import Claim, Evidence, OutcomeKind
from nri_scope.differ.attribution.owner import plugin
from nri_scope.events import Role

from .chains import POD, Traffic, traffic

FOO = "/process/env/FOO"
CHAIN = ("00-a", "10-w", "20-x", "99-b")


def create(**env: str) -> api.CreateContainerRequest:
    variables = [f"{key}={value}" for key, value in env.items()]
    container = api.Container(id="app-id", name="app", args=["run"], env=variables)
    return api.CreateContainerRequest(pod=POD, container=container)


def setting(value: str) -> api.CreateContainerResponse:
    reply = api.CreateContainerResponse()
    reply.adjust.env.add(key="FOO", value=value)
    return reply


def validate(chain: Traffic, *, value: str, owner: str) -> None:
    """Send a validation request with `owner` as the owner of FOO, set to `value`."""
    request = api.ValidateContainerAdjustmentRequest(pod=POD, container=create().container)
    request.adjust.env.add(key="FOO", value=value)
    request.owners.owners["app-id"].compound[api.Env].owners["FOO"] = owner
    for each in CHAIN:
        request.plugins.add(index=each[:2], name=each[3:])
    chain.send("99-b", "ValidateContainerAdjustment", request)


def test_a_reply_disputed_by_the_validation_request() -> None:
    chain = traffic(p00_a=Role.PROBE, p20_x=Role.TAP, p99_b=Role.PROBE)
    chain.send("00-a", "CreateContainer", create())
    chain.send("20-x", "CreateContainer", create(), setting("1"))
    chain.send("99-b", "CreateContainer", create(FOO="1"))
    validate(chain, value="1", owner="10-w")
    (one,) = chain.end()
    (step,) = one.steps
    assert (step.change.path, step.owner, step.evidence) == (FOO, plugin("20-x"), (Evidence.TAP,))
    assert step.disputed == (Claim(Evidence.VALIDATOR, plugin("10-w"), "1"),)


def test_a_validated_value_that_later_connections_did_not_see() -> None:
    chain = traffic(p00_a=Role.PROBE, p99_b=Role.PROBE)
    chain.send("00-a", "CreateContainer", create())
    chain.send("99-b", "CreateContainer", create())
    validate(chain, value="1", owner="10-w")
    (one,) = chain.end()
    (step,) = one.steps
    assert (step.owner, step.evidence) == (plugin("10-w"), (Evidence.VALIDATOR,))
    (claim,) = step.disputed
    assert (claim.evidence, claim.value) == (Evidence.PROBES, None)


def test_setting_an_equal_value_again_is_no_dispute() -> None:
    chain = traffic(p00_a=Role.PROBE, p10_w=Role.TAP, p99_b=Role.PROBE)
    chain.send("00-a", "CreateContainer", create())
    chain.send("10-w", "CreateContainer", create(), setting("1"))
    chain.send("99-b", "CreateContainer", create(FOO="1"))
    validate(chain, value="1", owner="20-x")
    (one,) = chain.end()
    (step,) = one.steps
    assert (step.owner, step.disputed) == (plugin("10-w"), ())
    assert step.note == "set again by 20-x to the same value"


def test_an_ignored_conflict_drops_an_update_instead_of_inventing_its_removal() -> None:
    update = api.ContainerUpdate(container_id="app-id", ignore_failure=True)
    update.linux.resources.hugepage_limits.add(page_size="1GB", limit=3)
    reply = api.UpdateContainerResponse(update=[update])
    chain = traffic(p10_a=Role.TAP, p20_b=Role.TAP, p30_c=Role.PROBE)
    request = api.UpdateContainerRequest(pod=POD, container=api.Container(id="app-id", name="app"))
    chain.send("10-a", "UpdateContainer", request, reply)
    request.linux_resources.hugepage_limits.add(page_size="1GB", limit=3)
    chain.send("20-b", "UpdateContainer", request, reply)
    chain.send("30-c", "UpdateContainer", request)
    found = [step for one in chain.end() for step in one.steps if step.owner.plugins == ("20-b",)]
    assert [(one.change.path, one.outcome.kind) for one in found] == [
        ("/linux/resources", OutcomeKind.DROPPED)
    ]
    assert "ignore_failure is set, and plugins" in found[0].outcome.reason


def test_an_update_that_conflicts_with_itself_fails_a_stop() -> None:
    reply = api.StopContainerResponse()
    update = reply.update.add(container_id="app-id")
    for limit in (3, 4):
        update.linux.resources.hugepage_limits.add(page_size="1GB", limit=limit)
    chain = traffic(p10_a=Role.TAP)
    chain.send("10-a", "CreateContainer", create())
    request = api.StopContainerRequest(pod=POD, container=create().container)
    chain.send("10-a", "StopContainer", request, reply)
    stopped = chain.end()[-1]
    assert stopped.failure == 'plugins "10-a" and "10-a" both tried to set HugepageLimits 1GB'
    assert {step.outcome.kind for step in stopped.steps} == {OutcomeKind.REFUSED}


def test_a_chain_that_continued_had_no_conflict() -> None:
    chain = traffic(p10_a=Role.TAP, p30_c=Role.TAP, p99_d=Role.PROBE)
    chain.send("10-a", "CreateContainer", create(), setting("1"))
    # A plugin in between removed the variable.
    chain.send("30-c", "CreateContainer", create(), setting("3"))
    chain.send("99-d", "CreateContainer", create(FOO="3"))
    (one,) = chain.end()
    assert one.failure == ""
    assert [(str(step.owner), step.change.after, step.outcome.kind) for step in one.steps] == [
        ("10-a", "1", OutcomeKind.SUPERSEDED),
        ("one of 11–29", None, OutcomeKind.SUPERSEDED),
        ("30-c", "3", OutcomeKind.REQUESTED),
    ]
