# SPDX-License-Identifier: Apache-2.0
"""Several variables of one name, as CRI-O's PATH and that of the image, when one is added."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.owner import RUNTIME
from nri_scope.events import Role
from nri_scope.nri import merging
from nri_scope.specs.json_spec import key_of

from ..chains import POD, traffic

_VARIABLES = st.lists(st.tuples(st.sampled_from(["PATH", "TERM", "HOME"]), st.sampled_from("123")))


@given(_VARIABLES)
def test_the_runtime_merges_them_when_a_plugin_adds_another(
    variables: list[tuple[str, str]],
) -> None:
    env = [f"{name}={value}" for name, value in variables]
    container = api.Container(id="app-id", name="app", args=["run"], env=env)
    chain = traffic(p00_a=Role.LOGGER)
    chain.send("00-a", "CreateContainer", api.CreateContainerRequest(pod=POD, container=container))
    adjustment = api.ContainerAdjustment(env=[api.KeyValue(key="ADDED", value="1")])
    post_create = api.StateChangeEvent(
        event=api.POST_CREATE_CONTAINER,
        pod=POD,
        container=merging.adjusted(container, adjustment),
    )
    chain.send("00-a", "StateChange", post_create, event="PostCreateContainer")
    steps = [step for one in chain.end() for step in one.steps]
    of_runtime = {key_of(step.change.path) for step in steps if step.owner == RUNTIME}
    counts = Counter(name for name, _ in variables)
    several = {f"/process/env/{name}" for name, count in counts.items() if count > 1}
    assert of_runtime == several
    (added,) = (step.change.path for step in steps if step.owner != RUNTIME)
    assert added == "/process/env/ADDED"
