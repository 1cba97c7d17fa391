// SPDX-License-Identifier: Apache-2.0
//! Replays of a scenario to the plugin; they need the command nri-scope.

use std::process::Command;

const SCENARIO: &str = "testdata/pods.yaml";

/// Run `nri-scope replay` with these options; fail with its output if it fails.
fn replay(options: &[&str]) {
    let done = Command::new("nri-scope")
        .args(["replay", "--format", "changes"])
        .args(options)
        .args([SCENARIO, "--", env!("CARGO_BIN_EXE_pod-info")])
        .output()
        .expect("nri-scope runs");
    let output = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{output}{errors}");
}

/// After an intended change, write the golden:
/// `UPDATE_GOLDEN=1 cargo test && git diff testdata`
#[test]
fn replies_are_those_of_the_golden() {
    let mut options = vec!["--golden", "testdata/replies.yaml"];
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        options.push("--update-golden");
    }
    replay(&options);
}

#[test]
fn unusual_events_are_survived() {
    for fault in [
        "unknown-event",
        "duplicate:CreateContainer",
        "restart-runtime:after=5",
    ] {
        replay(&["--fault", fault]);
    }
    replay(&["--fault", "split-sync", "--profile", "containerd-2.1"]);
}
