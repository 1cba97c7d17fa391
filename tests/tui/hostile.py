# SPDX-License-Identifier: Apache-2.0
"""A recording that attacks the terminal, the screen or the memory of its reader.

Tests of a view pass its screen to `assert_harmless`, and check that neither title nor clipboard
contains `PWNED`.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.recorder.writer import Recorder

START_NS = 1_763_673_480 * 10**9
HUGE = 4_000_000
"""Characters of the annotation of the container HUGE_NAME."""
HUGE_NAME = "huge"
CANARY = "PWNED"

ESCAPES = f"\x1b[31m\x1b]0;{CANARY}\x07\x1b[2J\x1b]52;c;UFdORUQ=\x07\x9b5mred"
"""ANSI: a colour, a window title, an erased screen, the clipboard, and an 8-bit CSI."""
MARKUP = f"[bold red]{CANARY}[/] [@click=app.quit]here[/] [link=file:///etc]x[/link] [/nothing] \\["
"""Rich's and Textual's markup, including a closing tag without an opening one."""
BIDI = "\u202egpj.\u2066exe\u2069\u200f\u061c"
INVISIBLE = "\u200b\u200d\ufeff\u2060\u3164"
"""Characters without width, and one that is drawn as a blank."""
PILED = "e" + "\u0301" * 200
"""Combining marks, which would be drawn over the lines above."""
WIDE = "容器🐳"
CONTROLS = "a\x00b\x08\x08c\rd\ne\tf\x7fg\x85h\u2028i"

NAMES = {
    "escapes": ESCAPES,
    "markup": MARKUP,
    "bidi": BIDI,
    "invisible": INVISIBLE,
    "piled": PILED,
    "wide": WIDE,
    "controls": CONTROLS,
    HUGE_NAME: "huge",
    "long": "n" * 5_000,
}
"""Names of pods and containers, by kind of attack."""


def hostile_recording(path: Path, *, huge: bool = True) -> Path:
    """Write two sessions with hostile text in every text field of a recording.

    ``huge``: with an annotation of 4 MB, the maximum size of a message.
    """
    recorder = Recorder.open(path)
    for number in range(2):
        session = recorder.begin_session(_start(number))
        _events(recorder, session, number, huge=huge and not number)
        recorder.end_session(
            session, f"because {ESCAPES} {MARKUP}", START_NS + (50 + number) * 10**9
        )
    recorder.close()
    return path


def assert_harmless(text: str) -> None:
    """Assert that no character but line ends is a control, invisible or stacked mark."""
    for at, char in enumerate(text):
        if char == "\n":
            continue
        name = f"U+{ord(char):04X} at {at} in {text[max(0, at - 20) : at + 20]!r}"
        assert char.isprintable(), name
        assert char not in INVISIBLE, name
        assert unicodedata.bidirectional(char) not in _BIDI_CONTROLS, name
    assert "\u0301" * 5 not in text


_BIDI_CONTROLS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def _start(number: int) -> SessionStart:
    return SessionStart(
        role=Role.LOGGER,
        plugin_name=f"nri{ESCAPES}{MARKUP}",
        plugin_index=f"0{number}",
        runtime_name=f"cont{BIDI}ainerd {MARKUP}",
        runtime_version=f"2.1{ESCAPES}",
        nri_version="0.8.0",
        nri_version_inferred=True,
        mask=0x07FF,
        registration_timeout_ms=5000,
        request_timeout_ms=2000,
        started_ns=START_NS + number * 10**9,
    )


def _events(recorder: Recorder, session: int, number: int, *, huge: bool) -> None:
    at_ns = START_NS + (1 + number) * 10**9

    def capture(
        method: str,
        request: bytes,
        reply: bytes = b"",
        *,
        code: int = 0,
        message: str = "",
        service: str = "",
    ) -> None:
        nonlocal at_ns
        at_ns += 10_000_000
        recorder.capture(
            session,
            CapturedCall(
                at_ns, at_ns, method, request, reply, code, message, 91_000, 2 * 10**9, service
            ),
        )  # fmt: skip

    capture("Configure", api.ConfigureRequest(config=MARKUP).SerializeToString())
    capture("Synchronize", api.SynchronizeRequest().SerializeToString())
    for kind, name in NAMES.items():
        pod = api.PodSandbox(
            id=f"pod-{kind}-{number}", name=name, uid=f"uid {name}"[:300], namespace=name
        )
        pod.labels[name] = name
        pod.annotations[MARKUP] = ESCAPES
        one = api.Container(id=f"{kind}-{number}-{name}"[:90], name=name, pod_sandbox_id=pod.id)
        one.args.extend([name, ESCAPES, MARKUP, BIDI])
        one.env.extend([f"{name}={name}", f"PATH={BIDI}"])
        one.annotations[name] = name
        mount = one.mounts.add(destination=f"/{name}", source=MARKUP, type=ESCAPES)
        mount.options.append(BIDI)
        if huge and kind == HUGE_NAME:
            one.annotations["huge"] = "x" * HUGE
        reply = api.CreateContainerResponse()
        reply.adjust.annotations[f"by-{name}"] = f"{ESCAPES}{MARKUP}"
        reply.adjust.env.add(key=f"E{name}", value=BIDI)
        both = {"pod": pod, "container": one}
        capture("RunPodSandbox", api.RunPodSandboxRequest(pod=pod).SerializeToString())
        capture(
            "CreateContainer",
            api.CreateContainerRequest(**both).SerializeToString(),  # type: ignore[arg-type]
            reply.SerializeToString(),
        )
        one.annotations[f"by-{name}"] = MARKUP
        capture(
            "PostCreateContainer",
            api.PostCreateContainerRequest(**both).SerializeToString(),  # type: ignore[arg-type]
            code=2,
            message=f"failed: {ESCAPES} {MARKUP} {BIDI}",
        )
    capture("CreateContainer", b"\xff\xfe not a message \x1b[31m")
    capture(f"No{MARKUP}", b"\x00\x1b]0;x\x07", service=f"svc.{ESCAPES}")
