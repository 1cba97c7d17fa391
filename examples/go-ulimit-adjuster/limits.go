// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A limit of getrlimit(2), by its OCI name.
type limit struct {
	kind       string
	soft, hard uint64
}

// kinds maps the names in annotations to the limits that a pod may request.
var kinds = map[string]string{
	"core":    "RLIMIT_CORE",
	"memlock": "RLIMIT_MEMLOCK",
	"nofile":  "RLIMIT_NOFILE",
	"nproc":   "RLIMIT_NPROC",
	"stack":   "RLIMIT_STACK",
}

// parseLimits reads a list such as "nofile=1024:4096, core=0".
func parseLimits(text string) ([]limit, error) {
	var limits []limit
	seen := map[string]bool{}
	for _, term := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(term), "=")
		kind, supported := kinds[name]
		if !supported {
			return nil, fmt.Errorf("limit %q is not supported", name)
		}
		if seen[kind] {
			return nil, fmt.Errorf("%s is set twice", name)
		}
		seen[kind] = true
		softText, hardText, separate := strings.Cut(value, ":")
		if !separate {
			hardText = softText
		}
		soft, softErr := strconv.ParseUint(softText, 10, 64)
		hard, hardErr := strconv.ParseUint(hardText, 10, 64)
		if softErr != nil || hardErr != nil {
			return nil, fmt.Errorf("%s=%q is neither a number nor SOFT:HARD", name, value)
		}
		if soft > hard {
			return nil, fmt.Errorf("%s: the soft limit %d is above the hard one %d", name, soft, hard)
		}
		limits = append(limits, limit{kind, soft, hard})
	}
	return limits, nil
}
