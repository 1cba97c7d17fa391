// SPDX-License-Identifier: Apache-2.0

// Command refruntime is a reference runtime that uses upstream's adaptation package. It has no
// containers: it reads commands to send events as JSON lines from stdin, and writes the results
// as JSON lines to stdout. It ends at the end of stdin.
//
// Commands, by "do":
//
//	wait  until "plugins" plugins have been synchronized since the start
//	play  lifecycles of a pod with a container; see playCommand
//	feed  the requests of a file of JSON lines {"method", "request_b64"}; see feedCommand
//	send  one request, and report its merged reply or error; see sendCommand
//	stop  the runtime and end
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"nri-scope/interop/internal/dialect"
	"nri-scope/interop/internal/jsonlines"
	"nri-scope/interop/internal/traffic"
)

type runtime struct {
	adaptation *adaptation.Adaptation
	wire       *wire
	out        *jsonlines.Writer
	timeout    time.Duration
	pods       []*api.PodSandbox
	containers []*api.Container

	lock    sync.Mutex
	changed *sync.Cond
	// connected counts the external plugins synchronized since the start; launched ones are
	// synchronized before Start returns.
	connected int
	started   bool
	orphaned  bool
	// played numbers the lifecycles of all play commands, so that ids are unique.
	played int
}

func main() {
	socket := flag.String("socket", "", "path of the NRI socket")
	name := flag.String("name", "refruntime", "runtime name for Configure")
	version := flag.String("version", "v1.0.0", "runtime version for Configure")
	plugins := flag.String("plugins", "", "folder with plugins to launch")
	config := flag.String("plugin-config", "", "folder with configuration of launched plugins")
	registration := flag.Duration("registration-timeout", adaptation.DefaultPluginRegistrationTimeout, "")
	request := flag.Duration("request-timeout", adaptation.DefaultPluginRequestTimeout, "")
	sent := flag.String("sent", "", "file for what was sent, one JSON object a request")
	state := flag.Int("state", 0, "number of pods, with a container each, that exist already")
	stateEnv := flag.Int("state-env", 60, "environment variables of each of these containers")
	level := flag.String("log-level", "fatal", "for messages of the adaptation, on stderr")
	flag.Parse()

	if err := setLogLevel(*level); err != nil {
		fail(err)
	}
	adaptation.SetPluginRegistrationTimeout(*registration)
	adaptation.SetPluginRequestTimeout(*request)

	r := &runtime{wire: &wire{}, out: jsonlines.Stdout(), timeout: *request, started: !synchronizesLaunched}
	r.changed = sync.NewCond(&r.lock)
	shape := traffic.Shape{Env: *stateEnv, Mounts: 12, Workloads: 20}
	for n := range *state {
		// Numbers that are too large for any lifecycle.
		r.pods = append(r.pods, shape.Pod(1_000_000+n))
		r.containers = append(r.containers, shape.Container(1_000_000+n))
	}
	if *sent != "" {
		file, err := jsonlines.Create(*sent)
		if err != nil {
			fail(err)
		}
		defer file.Close()
		r.wire.sent = file
	}
	options := []adaptation.Option{
		adaptation.WithSocketPath(*socket),
		adaptation.WithPluginPath(*plugins),
		adaptation.WithPluginConfigPath(*config),
	}
	options = append(options, r.watched()...)
	var err error
	if r.adaptation, err = adaptation.New(*name, *version, r.synchronize, r.update, options...); err != nil {
		fail(err)
	}
	if err := r.adaptation.Start(); err != nil {
		fail(err)
	}
	r.out.Write(map[string]any{"event": "listening", "socket": *socket, "dialect": dialect.Name})
	for line := range r.commands() {
		if !r.obey(line) {
			break
		}
	}
	r.adaptation.Stop()
	r.out.Write(map[string]any{"event": "stopped"})
}

func setLogLevel(name string) error {
	level, err := logrus.ParseLevel(name)
	logrus.SetLevel(level)
	return err
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "refruntime:", err)
	os.Exit(1)
}

// commands reads stdin to its end, which also ends a wait for plugins that never connect.
func (r *runtime) commands() <-chan []byte {
	lines := make(chan []byte)
	go func() {
		err := jsonlines.Read(os.Stdin, func(line []byte) bool {
			lines <- line
			return true
		})
		if err != nil {
			fail(err)
		}
		r.lock.Lock()
		r.orphaned = true
		r.lock.Unlock()
		r.changed.Broadcast()
		close(lines)
	}()
	return lines
}

// obey executes one command; false ends the program.
func (r *runtime) obey(line []byte) bool {
	var command struct {
		Do      string `json:"do"`
		Plugins int    `json:"plugins"`
		playCommand
		feedCommand
		sendCommand
	}
	if err := json.Unmarshal(line, &command); err != nil {
		fail(fmt.Errorf("command %q: %w", line, err))
	}
	switch command.Do {
	case "wait":
		r.wait(command.Plugins)
		r.out.Write(map[string]any{"event": "ready", "plugins": command.Plugins})
	case "play":
		r.report("played", command.Samples, func(run *run) error { return command.play(r, run) })
	case "feed":
		r.report("fed", command.Samples, func(run *run) error { return command.feed(run) })
	case "send":
		if err := command.send(r); err != nil {
			fail(err)
		}
	case "stop":
		return false
	default:
		fail(fmt.Errorf("no such command: %q", command.Do))
	}
	return true
}

// synchronize is called by the adaptation first for all launched plugins, then for each
// external one.
func (r *runtime) synchronize(ctx context.Context, send adaptation.SyncCB) error {
	updates, err := send(ctx, r.pods, r.containers)
	r.lock.Lock()
	defer r.lock.Unlock()
	if !r.started {
		r.started = true
		return nil
	}
	if err != nil {
		r.out.Write(map[string]any{"event": "refused", "error": err.Error()})
		return err
	}
	go r.admitted(len(updates))
	return nil
}

func (r *runtime) count(updates int) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.connected++
	r.out.Write(map[string]any{"event": "plugin", "number": r.connected, "updates": updates})
	r.changed.Broadcast()
}

func (r *runtime) wait(plugins int) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for r.connected < plugins && !r.orphaned {
		r.changed.Wait()
	}
}

// update is called for a plugin's unsolicited updates: all succeed.
func (r *runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	ids := []string{}
	for _, update := range updates {
		ids = append(ids, update.ContainerId)
	}
	r.out.Write(map[string]any{"event": "update", "containers": ids})
	return nil, nil
}
