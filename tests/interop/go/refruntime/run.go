// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"nri-scope/interop/internal/dialect"
	"nri-scope/interop/internal/jsonlines"
	"nri-scope/interop/internal/measure"
	"nri-scope/interop/internal/traffic"
)

// playCommand plays lifecycles, one after the other.
type playCommand struct {
	Lifecycles int     `json:"lifecycles"` // number; 0: limited by seconds
	Seconds    float64 `json:"seconds"`    // no new lifecycle begins after this time
	Rate       float64 `json:"rate"`       // events per second; 0: as fast as the plugins reply
	PodUpdates bool    `json:"pod_updates"`
	Sizes      []int   `json:"sizes"`   // instead: one lifecycle per size, each message of that size
	Samples    string  `json:"samples"` // file for the duration of each event call
	traffic.Shape
}

// feedCommand sends requests from a file, in the order of the file.
type feedCommand struct {
	File string `json:"file"`
}

// sendCommand sends one request, and reports its result.
type sendCommand struct {
	Method  string `json:"method"`
	Request []byte `json:"request_b64"`
}

func (c sendCommand) send(r *runtime) error {
	message, err := dialect.Parse(c.Method, c.Request)
	if err != nil {
		return err
	}
	before := r.wire.requests.Load()
	answer, failure := relayed(r, message)
	sent := map[string]any{"event": "sent", "error": "", "reply_b64": ""}
	if failure != nil {
		sent["error"] = failure.Error()
	} else if answer != nil {
		payload, err := proto.Marshal(answer)
		if err != nil {
			return err
		}
		sent["reply_b64"] = payload
	}
	sent["requests"] = r.wire.requests.Load() - before
	r.out.Write(sent)
	return nil
}

// relayed converts a panic of the adaptation, which some adjustments cause, to an error.
func relayed(r *runtime, message proto.Message) (answer proto.Message, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	return dialect.Relay(context.Background(), r.adaptation, message)
}

// run measures one command.
type run struct {
	runtime *runtime
	samples measure.Samples
	begin   time.Time
	period  time.Duration // from one event to the next; 0: no pause
	lag     time.Duration // longest delay of an event behind schedule
	errors  []string
}

// send one event at its scheduled time. The schedule is open-loop: a late event does not delay
// later ones, which follow without a pause until the schedule is met again.
func (r *run) send(event string, message proto.Message) {
	if r.period > 0 {
		due := r.begin.Add(time.Duration(r.samples.Len()) * r.period)
		if early := time.Until(due); early > 0 {
			time.Sleep(early)
		} else {
			r.lag = max(r.lag, -early)
		}
	}
	start := time.Now()
	_, err := dialect.Relay(context.Background(), r.runtime.adaptation, message)
	r.samples.Add(event, time.Since(start))
	if err != nil && len(r.errors) < 100 {
		r.errors = append(r.errors, fmt.Sprintf("%s: %v", event, err))
	}
}

func (c playCommand) play(r *runtime, run *run) error {
	if c.Rate > 0 {
		run.period = time.Duration(float64(time.Second) / c.Rate)
	}
	if c.Env == 0 {
		c.Env = 60
	}
	if c.Mounts == 0 {
		c.Mounts = 12
	}
	if c.Workloads == 0 {
		c.Workloads = 20
	}
	limit := time.Duration(c.Seconds * float64(time.Second))
	for _, size := range c.Sizes {
		if err := run.steps(traffic.SizedLifecycle(r.next(), size, r.timeout.Nanoseconds())); err != nil {
			return err
		}
	}
	for n := 0; len(c.Sizes) == 0 && (c.Lifecycles == 0 || n < c.Lifecycles); n++ {
		if limit > 0 && time.Since(run.begin) >= limit {
			break
		}
		if err := run.steps(c.Lifecycle(r.next(), c.PodUpdates)); err != nil {
			return err
		}
	}
	return nil
}

func (r *runtime) next() int {
	r.played++
	return r.played
}

func (r *run) steps(steps []traffic.Step) error {
	for _, step := range steps {
		message, err := step.Message()
		if err != nil {
			return err
		}
		r.send(step.Event, message)
	}
	return nil
}

func (c feedCommand) feed(run *run) error {
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer file.Close()
	var failure error
	err = jsonlines.Read(file, func(line []byte) bool {
		var request struct {
			Method  string `json:"method"`
			Request string `json:"request_b64"`
		}
		var payload []byte
		var message proto.Message
		if failure = json.Unmarshal(line, &request); failure != nil {
			return false
		}
		if payload, failure = base64.StdEncoding.DecodeString(request.Request); failure != nil {
			return false
		}
		if message, failure = dialect.Parse(request.Method, payload); failure != nil {
			return false
		}
		run.send(request.Method, message)
		return true
	})
	if failure != nil {
		return failure
	}
	return err
}

// report runs a command and writes its measurements.
func (r *runtime) report(event, samples string, command func(*run) error) {
	requests, bytes, failures := r.wire.requests.Load(), r.wire.bytes.Load(), r.wire.failures.Load()
	run := &run{runtime: r, begin: time.Now(), errors: []string{}}
	err := command(run)
	wall := time.Since(run.begin)
	if err == nil && samples != "" {
		err = run.samples.Save(samples)
	}
	if r.wire.sent != nil && err == nil {
		err = r.wire.sent.Flush()
	}
	if err != nil {
		fail(err)
	}
	r.out.Write(struct {
		Event string `json:"event"`
		measure.Summary
		Wall     int64    `json:"wall_ns"`
		Rate     float64  `json:"events_per_s"`
		Requests int64    `json:"requests"`   // to plugins; fewer than events if one was disconnected
		Failures int64    `json:"failures"`   // requests without a reply or with an error status
		Bytes    int64    `json:"wire_bytes"` // written to plugins' sockets
		Lag      int64    `json:"lag_ns"`     // longest delay behind schedule
		Errors   []string `json:"errors"`     // of event calls, the first hundred
	}{
		event, run.samples.Summary(), wall.Nanoseconds(),
		float64(run.samples.Len()) / wall.Seconds(),
		r.wire.requests.Load() - requests, r.wire.failures.Load() - failures,
		r.wire.bytes.Load() - bytes, run.lag.Nanoseconds(), run.errors,
	})
}
