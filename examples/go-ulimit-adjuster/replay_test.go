// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os/exec"
	"path/filepath"
	"testing"
)

const scenario = "testdata/pods.yaml"

var update = flag.Bool("update", false, "write testdata/replies.yaml")

// build returns the path of the plugin, built as it is shipped.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "30-ulimit-adjuster")
	output, err := exec.Command("go", "build", "-tags", "nri_no_wasm", "-o", program, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return program
}

// replay runs nri-scope replay with these options and returns what it printed.
func replay(program string, options ...string) (string, error) {
	arguments := append([]string{"replay", "--format", "changes"}, options...)
	arguments = append(arguments, scenario, "--", program)
	output, err := exec.Command("nri-scope", arguments...).CombinedOutput()
	return string(output), err
}

func TestRepliesAreThoseOfTheGolden(t *testing.T) {
	options := []string{"--golden", "testdata/replies.yaml"}
	if *update {
		options = append(options, "--update-golden")
	}
	output, err := replay(build(t), options...)
	if *update {
		// Its status is 1, as one reply of the golden is an error.
		t.Log(output)
	} else if err != nil {
		t.Errorf("nri-scope replay: %v\n%s", err, output)
	}
}

func TestUnusualEventsAreSurvived(t *testing.T) {
	program := build(t)
	for _, fault := range []string{"unknown-event", "duplicate:CreateContainer", "restart-runtime:after=5"} {
		t.Run(fault, func(t *testing.T) {
			// The container whose limits are invalid fails by itself.
			if output, err := replay(program, "--where", "-pod:greedy", "--fault", fault); err != nil {
				t.Errorf("nri-scope replay: %v\n%s", err, output)
			}
		})
	}
}
