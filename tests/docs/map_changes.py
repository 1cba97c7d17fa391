# SPDX-License-Identifier: Apache-2.0
"""The changes of the map in docs/architecture.md, as small edits, with the checks of each."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent


@dataclass(frozen=True)
class Edit:
    """A line or more in a file of nri_scope, or of the project: ``docs/formats.md``."""

    path: str
    anchor: str
    """Text in the only line after which ``text`` is inserted, with its indentation; "": a new
    file."""
    text: str
    replaces: bool = False
    """Whether ``text`` replaces the anchor instead, in its line."""
    is_noticed: bool = True
    """Whether a check fails if only this edit is forgotten."""

    def apply(self, content: str) -> str:
        """The content of the file after the edit."""
        if not self.anchor:
            return dedent(self.text)
        assert content.count(self.anchor) == 1, (self.path, self.anchor)
        if self.replaces:
            return content.replace(self.anchor, self.text)
        before, _, rest = content.partition(self.anchor)
        line = before.rpartition("\n")[2] + self.anchor
        lines = indent(dedent(self.text).strip("\n"), line[: len(line) - len(line.lstrip())])
        end, _, rest = rest.partition("\n")
        return f"{before}{self.anchor}{end}\n{lines}\n{rest}"


@dataclass(frozen=True)
class Change:
    """An entry of the map."""

    edits: tuple[Edit, ...]
    checks: tuple[str, ...]
    """Arguments of Python: each must succeed when all is done, the first one that fails ends it."""
    tests: tuple[Edit, ...] = ()
    """Edits of tests, which the map does not count."""


DOCS = "-m scripts.gen_docs"
API = "proto/nri/pkg/api/v1alpha1/api.proto"
TESTS = "-m pytest -q -p no:cacheprovider -p no:randomly -x -m '' "

CHANGES = {
    "command": Change(
        (
            Edit("cli/main.py", '"Cluster": ("agent",),', '"Greet": ("hello",),'),
            Edit(
                "cli/hello.py",
                "",
                '''
                import click

                @click.command()
                def command() -> None:
                    """Say hello."""
                ''',
            ),
        ),
        (TESTS + "tests/cli/test_main.py tests/cli/test_options.py -k 'listed'", DOCS),
    ),
    "event column": Change(
        (
            Edit("events.py", "all of it from a tap, otherwise only its trace", "retries: int = 0"),
            Edit("events.py", '`Recording.attach`."""', "retries: int = 0"),
            Edit("entries.py", "service=self.service,", "retries=event.retries,"),
            Edit("recording/file/schema.py", "VERSION = 1\n", "VERSION = 2\n", replaces=True),
            Edit(
                "recording/file/schema.py",
                "of the plugins (NN-name) that asked for it",
                'Column("retries", f"{_INT} DEFAULT 0", "attempts before this one", since=2),',
            ),
            Edit(
                "recording/file/schema.py",
                "{changed} AS ch",
                "e.retries AS retries, {changed} AS ch",
                True,
            ),
            Edit("recorder/encode.py", "json_list(encoded.owners),", "call.retries,"),
            Edit("recorder/encode.py", "owners=encoded.owners,", "retries=call.retries,"),
        ),
        (
            TESTS + "tests/docs/test_retries.py tests/share/test_agent_messages.py "
            "tests/recording/test_schema.py tests/recorder/test_effects.py",
            DOCS,
        ),
        (
            Edit(
                "tests/docs/test_retries.py",
                "",
                """
                from nri_scope.recording.reading.reader import Recording
                from tests.recording.traffic import lifecycles, record

                def test_stored(tmp_path):
                    path = tmp_path / "r.nriscope.db"
                    items = [one._replace(retries=7) for one in lifecycles(1)]
                    told = []
                    record(path, items, on_event=lambda event, item: told.append(event))
                    with Recording.open(path) as recording:
                        assert list(recording.events()) == told
                        assert {one.retries for one in told} == {7}
                """,
            ),
        ),
    ),
    "export format": Change(
        (
            Edit(
                "share/formats/__init__.py",
                'Format("perfetto"',
                'Format("ids", ".txt", "the number of each event", True, "ids"),',
            ),
            Edit(
                "share/formats/ids.py",
                "",
                """
                def write(recording, numbers, stream):
                    known = [one.id for one in recording.events()]
                    wanted = set(numbers or ())
                    chosen = [one for one in known if numbers is None or one in wanted]
                    for one in chosen:
                        stream.write(b"number: %50d\\n" % one)
                    return len(chosen)
                """,
            ),
            Edit("docs/formats.md", "| `perfetto` | no |", "| `ids` | no | `wc -l` |"),
            Edit("docs/formats.md", "## sqlite-expanded\n", "## ids\n\n## sqlite-expanded\n", True),
        ),
        (
            TESTS + "tests/share/formats/test_formats.py tests/docs/test_formats.py "
            "tests/share/bundle/test_fixed_text.py -k 'ids or every_format'",
            DOCS,
        ),
        (
            Edit(
                "tests/share/bundle/test_fixed_text.py", '"deadline_ms", "Cr', '"ids": ["number"],'
            ),
        ),
    ),
    "TUI key": Change(
        (
            Edit(
                "tui/actions.py",
                'Action("redraw"',
                'Action("first_event", ("ctrl+e",), "go to the first event", _APP),',
            ),
            Edit(
                "tui/commands/jump.py",
                '"""Commands that go to an event in the list',
                '''
                def to_first(self) -> None:
                    """Go to the first event."""
                    self.go_to("1")
                ''',
            ),
            Edit("tui/app.py", '"compare": self', '"first_event": jumper.to_first,'),
        ),
        (TESTS + "tests/tui/test_actions.py -k 'app_has or each_method'", DOCS),
    ),
    "redaction rule": Change(
        (
            Edit("share/redaction/builtin.py", '"emails"', 'TICKETS = "tickets", "tickets"'),
            Edit(
                "share/redaction/texts.py",
                "cut: private keys, logins in URLs, addresses.",
                """
                if engine.is_on(BuiltIn.TICKETS):
                    found = re.compile(r"TICKET-[0-9]+")
                    rule = BuiltIn.TICKETS
                    text = found.sub(lambda one: engine.replace(rule, one[0], place), text)
                """,
            ),
        ),
        (DOCS, TESTS + "tests/docs/test_tickets.py tests/share/redaction/test_page.py"),
        (
            Edit(
                "tests/docs/test_tickets.py",
                "",
                """
                from nri_scope.share.redaction import Redactor, Rules

                def test_replaced():
                    assert "47" not in Redactor(Rules.DEFAULT, bytes(32)).text("see TICKET-47")
                """,
            ),
        ),
    ),
    "runtime": Change(
        (
            Edit("nri/versions.py", '"isulad": _table', '"podd": _table((("1.0", "0.12.0"),)),'),
            Edit("nri/versions.py", "_TITLES = {", '    "podd": "Podd",'),
            Edit(
                "oci/runtime_rules.py",
                "_RULES = {",
                '    "Podd": RuntimeRules(sorts_mounts=False),',
            ),
            Edit(
                "runtime/rules.py",
                "_RULES = {",
                '    "Podd": ISULAD_DISPATCH,',
                is_noticed=False,
            ),
            Edit("runtime/rules.py", "VERBATIM = Life", "PODD = LifecycleRules(tracks_pods=True)"),
            Edit("runtime/profile.py", "    VERBATIM,", "PODD,"),
            Edit(
                "runtime/profile.py",
                '"0.6.1", ISULAD, _NONE',
                '("podd", "1.0", "podd", "1.0", "0.12.0", PODD, _NONE),',
            ),
        ),
        (TESTS + "tests/runtime_emulation/test_profiles.py tests/nri/test_versions.py", DOCS),
        (
            Edit(
                "tests/runtime_emulation/test_profiles.py",
                '"cri-o", "docker", "isulad")',
                '"cri-o", "docker", "isulad", "podd")',
                replaces=True,
            ),
            Edit(
                "tests/runtime_emulation/test_profiles.py",
                '"cri-o", "isulad",\n',
                '"cri-o", "isulad", "podd",\n',
                replaces=True,
            ),
        ),
    ),
    "containerd minor version": Change(
        (
            Edit("nri/versions.py", '("2.4.0", "0.12.3")', '("2.6.0", "0.13.0"),'),
            Edit(
                "runtime/rules.py",
                '"""containerd 2.3 and later; observed',
                "CONTAINERD_2_6 = replace(CONTAINERD_2_3, forgets_pods=False)",
            ),
            Edit("runtime/profile.py", "    CONTAINERD_2_3,", "CONTAINERD_2_6,"),
            Edit(
                "runtime/profile.py",
                '("containerd-2.4", ',
                '("containerd-2.6", "2.6.0", "containerd", "2.6.1", "0.13.0", '
                "CONTAINERD_2_6, _NONE),",
            ),
        ),
        (TESTS + "tests/runtime_emulation/test_profiles.py", DOCS),
        (
            Edit(
                "tests/runtime_emulation/test_profiles.py",
                '"containerd-2.4", "nri-0.12.5",\n',
                '"containerd-2.4", "containerd-2.6", "nri-0.12.5",\n',
                replaces=True,
            ),
            Edit(
                "tests/runtime_emulation/test_profiles.py",
                '"nri-0.12.5", "cri-o-1.36", "cri-o",',
                '"containerd-2.6", "nri-0.12.5", "cri-o-1.36", "cri-o",',
                replaces=True,
            ),
        ),
    ),
    "TUI column": Change(
        (
            Edit(
                "tui/store/rows.py",
                'ListColumn("deadline"',
                'ListColumn("size", "Size", right=True),',
            ),
            Edit("tui/store/rows.py", "_deadline(event.timeout_ns),", "str(event.size),"),
            Edit("tui/list/columns.py", 'yield "event", _LONGEST', 'yield "size", 6'),
            Edit("scripts/tui_page.py", '"Of": ', '"Size": "bytes of the request",'),
        ),
        (TESTS + "tests/tui/list/test_columns.py tests/tui/list/test_cells.py", DOCS),
        (Edit("tests/tui/list/test_columns.py", "place(197,", "place(204,", replaces=True),),
    ),
    "finding": Change(
        (
            Edit(
                "report/finding.py", "ORDER =", 'CLOCK = "clock-step", "a clock that was set back"'
            ),
            Edit(
                "report/diagnosis/clock_steps.py",
                "",
                """
                from ..finding import Finding, FindingKind, Level
                from .recording_facts import Detector

                class Steps(Detector):
                    newest_ns = 0
                    events = ()

                    def see(self, event):
                        if event.at_ns < self.newest_ns:
                            self.events += (event.id,)
                        self.newest_ns = event.at_ns

                    def findings(self):
                        if self.events:
                            title = "The clock was set back"
                            yield Finding(FindingKind.CLOCK, Level.NOTE, title, "", "", self.events)
                """,
            ),
            Edit(
                "report/diagnosis/__init__.py",
                "from .deadlines import",
                "from .clock_steps import Steps",
            ),
            Edit(
                "report/diagnosis/__init__.py", "EventOrderDetector(facts, lost),", "Steps(facts),"
            ),
            Edit("docs/report.md", "| `order` | note |", "| `clock-step` | note | clock | times |"),
        ),
        (
            TESTS + "tests/docs/test_report.py tests/report/test_diagnosis.py "
            "-k 'kind_of_finding or detector'",
        ),
    ),
    "gRPC field": Change(
        (
            Edit("proto/agent/v1/agent.proto", "message Note {", "  int64 id = 5;"),
            Edit(
                "share/agent_messages.py", "return Note(0, note", "return Note(note.id, note", True
            ),
        ),
        ("-m scripts.generate", TESTS + "tests/share/test_agent_messages.py"),
    ),
    "NRI field": Change(
        (
            Edit(API, "LinuxMemoryPolicy memory_policy = 12;", "string personality = 13;"),
            Edit(API, "  MemoryPolicy = 40;", "Personality = 41;"),
            Edit(
                "nri/changes.py",
                '"memory_policy": "/linux',
                '"personality": "/linux/personality",',
            ),
            Edit(
                "nri/changes.py",
                "api.MemoryPolicy: _LINUX",
                'api.Personality: _LINUX["personality"],',
            ),
            Edit(
                "nri/merging/fields.py",
                "MEMORY_POLICY = _field",
                'PERSONALITY = _field(api.Personality, "", "0.13.0")',
            ),
            Edit(
                "nri/merging/fields.py",
                '"linux.memory_policy": (',
                '"linux.personality": (PERSONALITY,),',
            ),
            Edit(
                "nri/merging/field_order.py",
                'Whole("memory_policy", fields.MEMORY_POLICY',
                'Whole("personality", fields.PERSONALITY),',
            ),
            Edit(
                "oci/adjustment.py",
                "_adjust_devices(linux, message.devices)",
                """
                if message.personality:
                    linux["personality"] = message.personality
                """,
            ),
        ),
        (
            "-m scripts.generate",
            TESTS + "tests/nri/test_changes.py tests/oci/test_adjustment.py "
            "tests/nri/merging/test_conflicts.py tests/nri/merging/test_fields.py "
            "-k 'every or setting_a_field'",
        ),
        (
            Edit(
                "tests/nri/test_changes.py",
                "memory_policy=api.LinuxMemoryPolicy(),",
                'personality="LINUX32",',
            ),
            Edit("tests/nri/test_changes.py", '"/linux/netDevices/eth1",', '"/linux/personality",'),
            Edit(
                "tests/nri/merging/test_conflicts.py",
                '"MemoryPolicy ":',
                '"Personality ": lambda to: setattr(to.linux, "personality", "LINUX32"),',
            ),
            Edit(
                "tests/oci/examples.py",
                "memory_policy=api.LinuxMemoryPolicy(",
                'personality="LINUX32",\n        memory_policy=api.LinuxMemoryPolicy(',
                replaces=True,
            ),
            Edit("tests/oci/examples.py", '"memoryPolicy": {', '"personality": "LINUX32",'),
        ),
    ),
    "NRI event": Change(
        (
            Edit(API, "  LAST = 15; ", "  PAUSE_CONTAINER = 15;\n  LAST = 16; ", replaces=True),
            Edit(
                API,
                "message UpdatePodSandboxResponse {}",
                """
                message PauseContainerRequest {
                  PodSandbox pod = 1;
                  Container container = 2;
                }
                message PauseContainerResponse {}
                """,
            ),
            Edit(
                API,
                "  rpc UpdatePodSandbox(",
                "rpc PauseContainer(PauseContainerRequest) returns (PauseContainerResponse);",
            ),
            Edit("nri/events.py", "ValidateContainerAdjustment = 14", "PauseContainer = 15"),
            Edit(
                "nri/versions.py",
                "_MASK_0_10 = _MASK_0_9_1",
                "_MASK_0_13 = _MASK_0_10 | EventKind.PauseContainer.bit",
            ),
            Edit(
                "nri/versions.py",
                "else _MASK_0_10\n",
                'else _MASK_0_10 if version < known_version("0.13.0") else _MASK_0_13\n',
                replaces=True,
            ),
        ),
        (
            "-m scripts.generate",
            TESTS + "tests/nri/test_events.py tests/nri/test_methods.py tests/nri/test_versions.py",
        ),
        (
            Edit("tests/nri/test_events.py", "0x3FFF", "0x7FFF", replaces=True),
            Edit("tests/nri/test_versions.py", '"9.0.0", 0x3FFF', '"9.0.0", 0x7FFF', True),
        ),
    ),
    "option": Change(
        (
            Edit(
                "cli/report.py",
                '"--diagnose", is_flag=True',
                '@click.option("--brief", is_flag=True, help="With --diagnose: totals only.")',
            ),
            Edit(
                "cli/report.py",
                'Exclude(("--format",)',
                'Need(("--brief",), ("--diagnose",)),',
                is_noticed=False,
            ),
            Edit("cli/report.py", "    diagnose: bool,", "brief: bool,"),
        ),
        (TESTS + "tests/cli/test_options.py tests/cli/test_report.py -k 'rules or diagnose'", DOCS),
    ),
}
