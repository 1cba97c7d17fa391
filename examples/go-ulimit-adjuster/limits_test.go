// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseLimits(t *testing.T) {
	got, err := parseLimits("nofile=65536, memlock=1:2,core=0")
	want := []limit{
		{"RLIMIT_NOFILE", 65536, 65536},
		{"RLIMIT_MEMLOCK", 1, 2},
		{"RLIMIT_CORE", 0, 0},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestInvalidLimitIsNamedInTheError(t *testing.T) {
	for text, words := range map[string]string{
		"":                   `limit "" is not supported`,
		"files=1":            `limit "files" is not supported`,
		"nofile":             `nofile="" is neither`,
		"nofile=lots":        `nofile="lots" is neither`,
		"nofile=-1":          `nofile="-1" is neither`,
		"nofile=2:1":         "soft limit 2 is above the hard one 1",
		"nofile=1, nofile=2": "nofile is set twice",
	} {
		if _, err := parseLimits(text); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: got %v, want %q", text, err, words)
		}
	}
}
