// SPDX-License-Identifier: Apache-2.0

// Package measure stores durations of event calls and summarises them.
package measure

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"time"
)

type sample struct {
	name string
	took time.Duration
}

// Samples are the durations of event calls, in the order of the calls.
type Samples struct {
	samples []sample
}

// Summary of the samples: nanoseconds, nearest-rank percentiles.
type Summary struct {
	Events int   `json:"events"`
	P50    int64 `json:"p50_ns"`
	P90    int64 `json:"p90_ns"`
	P99    int64 `json:"p99_ns"`
	Max    int64 `json:"max_ns"`
	Mean   int64 `json:"mean_ns"`
}

// Add one sample.
func (s *Samples) Add(name string, took time.Duration) {
	s.samples = append(s.samples, sample{name, took})
}

// Len returns the number of samples.
func (s *Samples) Len() int {
	return len(s.samples)
}

// Summary of all samples.
func (s *Samples) Summary() Summary {
	count := len(s.samples)
	if count == 0 {
		return Summary{}
	}
	took := make([]int64, count)
	var sum int64
	for i, one := range s.samples {
		took[i] = one.took.Nanoseconds()
		sum += took[i]
	}
	slices.Sort(took)
	rank := func(percent int) int64 {
		return took[(count*percent+99)/100-1]
	}
	return Summary{
		Events: count, P50: rank(50), P90: rank(90), P99: rank(99), Max: took[count-1],
		Mean: sum / int64(count),
	}
}

// Save writes a line "name nanoseconds" for each sample.
func (s *Samples) Save(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriter(file)
	for _, one := range s.samples {
		fmt.Fprintf(buffer, "%s %d\n", one.name, one.took.Nanoseconds())
	}
	return buffer.Flush()
}
