# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nri_scope.doctor.containerd import DEFAULT_CONFIG, config_path, read_containerd
from nri_scope.doctor.settings import Misplaced, Orphan

from .machine import BOOT, Machine

NRI = '[plugins."io.containerd.nri.v1.nri"]'


@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_file_version_has_the_same_table(machine: Machine, version: int) -> None:
    machine.write(
        DEFAULT_CONFIG,
        f"""version = {version}
        {NRI}
          disable = true
          disable_connections = true
          socket_path = "/s"
          plugin_path = "/p"
          plugin_config_path = "/c"
          plugin_registration_timeout = "5s"
          plugin_request_timeout = "2s"
        """,
    )
    config = read_containerd(machine.host)
    values = (
        config.enabled,
        config.connections,
        config.socket_path,
        config.plugin_path,
        config.plugin_config_path,
        config.registration_timeout,
        config.request_timeout,
    )
    assert [s.value for s in values if s] == [False, False, "/s", "/p", "/c", "5s", "2s"]
    assert config.enabled is not None
    setting = config.enabled
    assert (setting.file, setting.key, setting.table) == (DEFAULT_CONFIG, "disable", NRI)
    assert config.misplaced == ()
    assert (config.files, config.changed_at) == ((DEFAULT_CONFIG,), BOOT)


def test_no_file_means_defaults(machine: Machine) -> None:
    config = read_containerd(machine.host)
    assert (config.missing, config.files, config.enabled) == (DEFAULT_CONFIG, (), None)


def test_a_later_import_overrides_single_keys_in_2_and_the_whole_table_in_1(
    machine: Machine,
) -> None:
    machine.write(
        DEFAULT_CONFIG,
        f"""version = 2
        imports = ["conf.d/*.toml", "/other/x.toml"]
        {NRI}
          disable = true
          socket_path = "/main"
        """,
    )
    machine.write("/etc/containerd/conf.d/10.toml", f"version = 2\n{NRI}\ndisable = false")
    machine.write("/etc/containerd/conf.d/ignored.conf", "version = 2")
    machine.write("/other/x.toml", "version = 2", changed=BOOT + 50)
    for major, socket in ((2, "/main"), (1, None)):
        config = read_containerd(machine.host, major=major)
        assert config.files == (
            DEFAULT_CONFIG,
            "/etc/containerd/conf.d/10.toml",
            "/other/x.toml",
        )
        assert config.enabled is not None and config.enabled.value is True
        assert config.enabled.origin == "/etc/containerd/conf.d/10.toml"
        assert (config.socket_path.value if config.socket_path else None) == socket
        assert config.changed_at == BOOT + 50


def test_circular_imports_end(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, f'version = 2\nimports = ["{DEFAULT_CONFIG}", "b.toml"]')
    machine.write("/etc/containerd/b.toml", 'imports = ["b.toml"]')
    config = read_containerd(machine.host)
    assert config.files == (DEFAULT_CONFIG, "/etc/containerd/b.toml")


def test_a_missing_import_keeps_containerd_from_starting(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, 'imports = ["/none.toml", "/none/*.toml", 7, ""]')
    (problem,) = read_containerd(machine.host).problems
    assert problem.fatal
    assert (problem.file, "/none.toml" in problem.text) == (DEFAULT_CONFIG, True)


@pytest.mark.parametrize("text", ["version = ", "\x00", "a = 1\na = 2", "["])
def test_a_broken_file_is_a_fatal_problem(machine: Machine, text: str) -> None:
    machine.write(DEFAULT_CONFIG, text)
    (problem,) = read_containerd(machine.host).problems
    assert problem.fatal and problem.file == DEFAULT_CONFIG


def test_an_inaccessible_file_is_unreadable_and_not_broken(
    machine: Machine, unprivileged: None
) -> None:
    machine.write(DEFAULT_CONFIG)
    machine.root.chmod(0)
    config = read_containerd(machine.host)
    assert config.unreadable == ((DEFAULT_CONFIG, "permission denied"),)
    assert config.problems == ()


@pytest.mark.parametrize(
    ("table", "key", "table_name"),
    [
        (
            'plugins."io.containerd.grpc.v1.cri"',
            "plugin_request_timeout",
            '[plugins."io.containerd.grpc.v1.cri"]',
        ),
        (
            'plugins."io.containerd.cri.v1.runtime".nri',
            "disable",
            '[plugins."io.containerd.cri.v1.runtime".nri]',
        ),
        ("plugins.nri", "socket_path", "[plugins.nri]"),
        ('"io.containerd.nri.v1.nri"', "disable", '["io.containerd.nri.v1.nri"]'),
        ("timeouts", "plugin_registration_timeout", "[timeouts]"),
    ],
)
def test_keys_in_other_tables_have_no_effect(
    machine: Machine, table: str, key: str, table_name: str
) -> None:
    machine.write(DEFAULT_CONFIG, f'version = 2\n[{table}]\n{key} = "5s"')
    config = read_containerd(machine.host)
    assert config.misplaced == (Misplaced(DEFAULT_CONFIG, table_name, key, NRI),)
    assert config.enabled is config.request_timeout is config.socket_path is None


def test_unknown_keys_in_the_nri_table_are_reported_except_the_validator(
    machine: Machine,
) -> None:
    machine.write(
        DEFAULT_CONFIG,
        f"version = 3\n{NRI}\nenable = true\n[{NRI[1:-1]}.default_validator]\nenable = true",
    )
    assert read_containerd(machine.host).misplaced == (
        Misplaced(DEFAULT_CONFIG, NRI, "enable", ""),
    )


def test_other_plugins_may_have_keys_of_the_same_name(machine: Machine) -> None:
    machine.write(
        DEFAULT_CONFIG, 'version = 2\n[plugins."x.y"]\nsocket_path = "/x"\ndisable = true'
    )
    assert read_containerd(machine.host).misplaced == ()


def test_a_version_1_file_names_plugins_by_bare_id_in_containerd_1(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, "[plugins.nri]\ndisable = false")
    old = read_containerd(machine.host, major=1)
    assert old.enabled is not None and old.enabled.value is True
    assert old.misplaced == ()
    new = read_containerd(machine.host, major=2)
    assert new.enabled is None
    assert new.misplaced[0].table == "[plugins.nri]"


def test_a_disabled_plugin_is_off_despite_its_table(machine: Machine) -> None:
    machine.write(
        DEFAULT_CONFIG,
        f'version = 2\ndisabled_plugins = ["io.containerd.nri.v1.nri"]\n{NRI}\ndisable = false',
    )
    setting = read_containerd(machine.host).enabled
    assert setting is not None
    assert (setting.value, setting.key) == (False, "disabled_plugins")


def test_nri_settings_in_a_file_that_is_not_imported_are_reported(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, 'version = 2\nimports = ["conf.d/*.toml"]')
    for name in ("nri.toml", "same.conf"):
        machine.write(f"/etc/containerd/conf.d/{name}", f"{NRI}\ndisable = false")
    for name in ("nri.conf", "nri.toml.bak", "nri.txt"):
        machine.write(f"/etc/containerd/conf.d/{name}", f"{NRI}\ndisable = true")
    machine.write("/etc/containerd/conf.d/other.conf", "# about nri\nversion = 2")
    machine.write("/etc/containerd/conf.d/words.conf", "the nri socket is /var/run/nri/nri.sock")
    assert read_containerd(machine.host).orphans == (
        Orphan("/etc/containerd/conf.d/nri.conf", NRI, ("disable",)),
    )


def test_a_missing_import_is_reported_for_the_importing_file(machine: Machine) -> None:
    machine.write(DEFAULT_CONFIG, 'version = 2\nimports = ["a.toml"]')
    machine.write("/etc/containerd/a.toml", 'version = 2\nimports = ["gone.toml"]')
    (problem,) = read_containerd(machine.host).problems
    assert problem.file == "/etc/containerd/a.toml"


def test_the_command_line_selects_the_file() -> None:
    assert config_path(()) == DEFAULT_CONFIG
    assert config_path(("--config", "/x")) == config_path(("-c=/x",)) == "/x"
