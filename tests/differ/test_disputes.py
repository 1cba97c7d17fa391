# SPDX-License-Identifier: Apache-2.0
"""Contradicting evidence: both claims are shown."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import Claim, Evidence
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
