# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.events import PASSIVE_EVENTS, EventKind
from nri_scope.nri.runtime_setup import negotiate
from nri_scope.nri.versions import valid_mask

from .captures import NAMES, exchanges


def configure(name: str = "", version: str = "", nri: str = "") -> api.ConfigureRequest:
    return api.ConfigureRequest(runtime_name=name, runtime_version=version, NRI_version=nri)


OLD = configure("containerd", "1.7.24~ds1")
NEW = configure("containerd", "2.4.0-beta+unknown", "v0.12.2")

CONFIGURES = st.builds(
    configure,
    st.sampled_from(["containerd", "cri-o", "v2", "other", ""]),
    st.sampled_from(["1.7.24~ds1", "2.3.0", "1.33.0", "2.0.0-beta.2+unknown", "", "junk"]),
    st.sampled_from(["", "v0.12.2", "0.0.0-unknown", "(devel)", "junk", "2.0.0"]),
)


@given(CONFIGURES, st.none() | st.frozensets(st.sampled_from(EventKind)), st.booleans())
def test_a_mask_is_never_0_and_has_only_known_events(
    request: api.ConfigureRequest, chosen: frozenset[EventKind] | None, validate: bool
) -> None:
    try:
        result = negotiate(request, chosen, validate=validate)
    except UsageError:
        assert chosen is not None
        return
    assert result.mask != 0
    assert result.mask & ~valid_mask(result.runtime.version) == 0
    assert EventKind.ValidateContainerAdjustment not in result.events or validate
    assert set(result.events) <= (PASSIVE_EVENTS if chosen is None else chosen) | {
        EventKind.ValidateContainerAdjustment
    }


@pytest.mark.parametrize(
    ("name", "version", "inferred", "mask"),
    [
        (NAMES[0], "0.6.1", True, 0x07FF),
        (NAMES[1], "0.8.0", True, 0x07FF),
        (NAMES[2], "0.12.2", False, 0x1FFF),
        (NAMES[3], "0.12.0", False, 0x1FFF),
    ],
)
def test_negotiation_with_real_runtimes(name: str, version: str, inferred: bool, mask: int) -> None:
    first = next(exchange for exchange in exchanges(name) if exchange.method == "Configure")
    result = negotiate(api.ConfigureRequest.FromString(first.request))
    assert (str(result.runtime.version), result.runtime.inferred, result.mask) == (
        version,
        inferred,
        mask,
    )
    assert result.warnings == ()


def test_an_unknown_runtime_has_the_events_common_to_all() -> None:
    result = negotiate(configure("mystery", "7.0"))
    assert (result.runtime.version, result.runtime.inferred, result.mask) == (None, False, 0x07FF)


def test_the_version_of_a_build_without_module_information_is_inferred() -> None:
    result = negotiate(configure("containerd", "2.3.1", "0.0.0-unknown"))
    assert (str(result.runtime.version), result.runtime.inferred) == ("0.12.0", True)


def test_a_runtime_without_nri_version_is_older_than_that_field() -> None:
    result = negotiate(configure("containerd", "2.3.1"))
    assert (str(result.runtime.version), result.runtime.inferred) == ("0.11.0", True)


def test_validation_requires_an_explicit_request() -> None:
    chosen = frozenset({EventKind.CreateContainer, EventKind.ValidateContainerAdjustment})
    without = negotiate(NEW, chosen)
    assert without.events == (EventKind.CreateContainer,)
    assert "ValidateContainerAdjustment is left out" in without.warnings[0]
    assert set(negotiate(NEW, chosen, validate=True).events) == chosen
    assert negotiate(NEW, validate=True).mask == 0x3FFF


def test_events_that_the_runtime_lacks_are_omitted_with_a_warning() -> None:
    result = negotiate(OLD, {EventKind.RunPodSandbox, EventKind.UpdatePodSandbox})
    assert result.events == (EventKind.RunPodSandbox,)
    assert result.warnings == (
        "containerd 1.7.24~ds1 (NRI 0.6.1, inferred) has no UpdatePodSandbox",
    )
    assert "has no ValidateContainerAdjustment" in negotiate(OLD, validate=True).warnings[0]


def test_an_empty_subscription_is_an_error() -> None:
    with pytest.raises(UsageError, match="none of the chosen events; choose others"):
        negotiate(OLD, {EventKind.UpdatePodSandbox})
    with pytest.raises(UsageError):
        negotiate(NEW, {EventKind.ValidateContainerAdjustment})
