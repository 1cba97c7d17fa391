# SPDX-License-Identifier: Apache-2.0
"""Strategies for filters and for events that they often match."""

from __future__ import annotations

from hypothesis import strategies as st

from nri_scope.events import Event, Status
from nri_scope.filter import TimeSpan

# Few and similar pieces, so that filters often match, with the special characters of GLOB, LIKE,
# quotes and regular expressions.
PIECES = [
    "a",
    "A",
    "b",
    "web",
    "-",
    "*",
    "?",
    "[",
    "]",
    "%",
    "_",
    '"',
    "'",
    "\\",
    "\0",
    "é",
    "É",
    "/",
]
names = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
plugins = st.one_of(
    names, names.map("00-".__add__), names.map("07-".__add__), names.map("7-".__add__)
)
numbers = st.integers(0, 5) | st.sampled_from([499, 500, 501, 999, 1000, 1001, 4096, 2**40])
# SQLite's JSON functions end text at a NUL, which no changed path contains.
_texts = names.map(lambda text: text.replace("\0", ""))
known = st.sampled_from(["CreateContainer", "StopContainer", "StateChange(99)"])
paths = st.one_of(_texts, st.lists(_texts, max_size=3).map("/".join).map("/".__add__))

DAY = 86_400 * 10**9
FIRST_NS = 1_760_000_000 * 10**9
SPAN = TimeSpan(FIRST_NS, FIRST_NS + DAY // 2)
"""Span of the recording to which the filters apply."""
_NEAR = st.sampled_from([0, 1, 10**9, 60 * 10**9, DAY // 4, DAY // 2, DAY])
event_times = st.integers(0, 2**60) | st.builds(
    lambda near, more: FIRST_NS + near + more, _NEAR, st.integers(-2, 2)
)

events = st.builds(
    Event,
    id=st.integers(1, 9),
    session=st.integers(1, 3),
    seq=st.integers(1, 9),
    at_ns=event_times,
    mono_ns=st.integers(0, 2**60),
    plugin=plugins,
    runtime=names,
    method=names,
    event=names | known,
    namespace=names,
    pod=names,
    container=names,
    pod_id=names,
    container_id=names,
    took_ns=numbers,
    timeout_ns=numbers,
    size=numbers,
    status=st.sampled_from([*Status]),
    status_code=st.just(0),
    status_message=st.just(""),
    mark=st.just(""),
    changed=st.lists(paths, max_size=2).map(tuple),
    owners=st.lists(_texts | _texts.map("00-".__add__), max_size=2).map(tuple),
)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_values = st.one_of(_texts, _texts.map(_quoted))
_text_fields = st.sampled_from(
    ["event", "plugin", "pod", "ns", "container", "id", "runtime", "changed", "owner"]
)
_number_fields = st.sampled_from(["took", "size", "session", "index"])
moments = st.sampled_from(
    [
        *("+0s", "+1s", "+0.000000001s", "+1m", "-0s", "-6h", "-12h", "09:00", "14:53:20", "23:00"),
        *("2025-10-09", "2025-10-09T08:53:20Z", "2025-10-09 20:53:20Z", "1m", "now", "today", "x"),
    ]
)
"""Texts for points in time, most of them valid."""
_terms = st.one_of(
    _values,
    st.builds("{}:{}".format, _text_fields, _values),
    st.builds("pod:{}/{}".format, _texts, _texts),
    st.builds("container:{}/{}/{}".format, _texts, _texts, _texts),
    st.builds("event:{}".format, known | known.map(str.upper)),
    st.builds("{}:~{}".format, _text_fields, _values),
    st.builds("status:{}".format, st.sampled_from([str(status) for status in Status])),
    st.builds(
        "{}:{}{}{}".format,
        _number_fields,
        st.sampled_from(["", ">", ">=", "<", "<="]),
        st.sampled_from(["0", "1", "2", "7", "500", "0.5", "1.00", "4096"]),
        st.sampled_from(["", "", "ns", "us", "k", "kB"]),
    ),
    st.builds('time:{}"{}"'.format, st.sampled_from(["", ">", ">=", "<", "<="]), moments),
    st.builds('time:"{}..{}"'.format, moments | st.just(""), moments | st.just("")),
)
expressions = st.recursive(
    _terms,
    lambda inner: st.one_of(
        st.builds("{} {}".format, inner, inner),
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("({})".format, inner),
        st.builds("-{}".format, inner),
        st.builds("NOT {}".format, inner),
    ),
    max_leaves=6,
)
"""Filter texts, most of them valid."""
