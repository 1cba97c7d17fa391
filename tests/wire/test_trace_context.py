# SPDX-License-Identifier: Apache-2.0
"""W3C Trace Context in the metadata of requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.wire.ttrpc import TraceContext, trace_context, trace_metadata

# From the examples of the specification.
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
HEXADECIMAL = "0123456789abcdef"


def of(*values: str, key: str = "traceparent") -> TraceContext | None:
    return trace_context(tuple((key, value) for value in values))


@pytest.mark.parametrize("key", ["traceparent", "Traceparent", "TRACEPARENT"])
def test_a_traceparent_names_a_span(key: str) -> None:
    assert of(PARENT, key=key) == TraceContext(TRACE, SPAN, 1)


@pytest.mark.parametrize(
    "value",
    [
        f"cc-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-",
        f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like",
        f"fe-{TRACE}-{SPAN}-01-\n",
    ],
)
def test_a_later_version_may_continue(value: str) -> None:
    assert of(value) == TraceContext(TRACE, SPAN, 1)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01-more",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}0-{SPAN}-01",
        f"00-{TRACE}-{SPAN}0-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-011",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN.upper()}-01",
        f"00-{TRACE}-{SPAN}-0A",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE[:-1]}\N{FULLWIDTH DIGIT ONE}-{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
        f" {PARENT}",
        f"{PARENT}\n",
    ],
)
def test_an_invalid_traceparent_names_no_span(value: str) -> None:
    assert of(value) is None


def test_two_traceparents_name_no_span() -> None:
    assert of(PARENT, PARENT) is None
    assert of() is None


def _digits(length: int) -> st.SearchStrategy[str]:
    """Mostly of this length, also zero or with a wrong sign."""
    right = st.text(HEXADECIMAL, min_size=length, max_size=length) | st.just("0" * length)
    return right | right | st.text(f"{HEXADECIMAL}Fg", min_size=length - 1, max_size=length + 1)


@given(
    st.builds(
        "-".join,
        st.tuples(
            *(st.sampled_from(["00", "01", "ff"]) | _digits(2), _digits(32), _digits(16)),
            _digits(2) | st.from_regex(r"[0-9a-f]{2}-\w*", fullmatch=True),
        ),
    )
)
def test_only_the_format_of_the_specification_is_accepted(value: str) -> None:
    parts = value.split("-")
    is_valid = (
        len(parts) >= 4
        and [*map(len, parts[:4])] == [2, 32, 16, 2]
        and all(set(part) <= set(HEXADECIMAL) for part in parts[:4])
        and parts[0] != "ff"
        and (parts[0] != "00" or len(parts) == 4)
        and int(parts[1], 16) != 0 != int(parts[2], 16)
    )
    assert (of(value) is not None) == is_valid


@given(
    version=st.integers(0, 254),
    trace=st.integers(1, (1 << 128) - 1),
    span=st.integers(1, (1 << 64) - 1),
    flags=st.integers(0, 255),
    at=st.integers(0, 54),
    sign=st.sampled_from("0gA-"),
)
def test_a_valid_value_is_read_as_written(
    version: int, trace: int, span: int, flags: int, at: int, sign: str
) -> None:
    value = f"{version:02x}-{trace:032x}-{span:016x}-{flags:02x}"
    assert of(value) == TraceContext(f"{trace:032x}", f"{span:016x}", flags)
    changed = of(f"{value[:at]}{sign}{value[at + 1 :]}")
    if changed is not None:
        assert sign == value[at] or (sign == "0" and value[at] != "-")
    assert of(value[:at]) is None


@pytest.mark.parametrize(
    ("values", "state"),
    [
        (["rojo=00f067aa0ba902b7"], "rojo=00f067aa0ba902b7"),
        (["rojo=1,congo=t61rcWkgMzE"], "rojo=1,congo=t61rcWkgMzE"),
        (["rojo=1", "congo=2"], "rojo=1,congo=2"),
        (["rojo=1 ,\t congo=2,,"], "rojo=1,congo=2"),
        (["fw529a3039@dt=FfAAa;b:c d"], "fw529a3039@dt=FfAAa;b:c d"),
        (["rojo"], ""),
        (["rojo=1,rojo=2"], ""),
        (["Rojo=1"], ""),
        (["rojo=ä"], ""),
        (["rojo=a=b"], ""),
        ([f"rojo={'x' * 257}"], ""),
        ([",".join(f"a{number}=1" for number in range(32))], "a0=1,"),
        ([",".join(f"a{number}=1" for number in range(33))], ""),
    ],
)
def test_an_invalid_tracestate_is_left_out(values: list[str], state: str) -> None:
    pairs = (("traceparent", PARENT), *(("tracestate", value) for value in values))
    found = trace_context(pairs)
    assert found is not None and (found.trace_id, found.span_id) == (TRACE, SPAN)
    assert found.state.startswith(state) if state.endswith(",") else found.state == state


def test_other_metadata_is_not_trace_context() -> None:
    kept = (("traceparent", "invalid"), ("tracestate", "a=1"), ("traceparent", PARENT))
    others = (("containerd-namespace-ttrpc", "k8s.io"), ("baggage", "user=ann"))
    assert trace_metadata((kept[0], *others, *kept[1:])) == kept
    assert trace_metadata(others) == ()
