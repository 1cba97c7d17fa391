// SPDX-License-Identifier: Apache-2.0

// Command refplugin is a reference plugin that uses upstream's stub package. It subscribes to every
// event but validation and replies without changes, unless flags say otherwise. It reports the state
// of its connection as JSON lines on stdout, and ends with the connection.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/proto"

	"nri-scope/interop/internal/jsonlines"
)

// settings come from flags or, if a runtime launches the plugin without flags, from the JSON object
// in Configure.
type settings struct {
	YAML       string `json:"yaml"`        // file to log each event to, as YAML
	Requests   string `json:"requests"`    // file for received requests, as JSON lines
	Delay      int    `json:"delay_ms"`    // delay of a reply …
	DelayEvent string `json:"delay_event"` // … to this event
	DelayAfter int    `json:"delay_after"` // … after so many of them
	Annotation string `json:"annotation"`  // key to set on created containers
	Env        string `json:"env"`         // variable to set in created containers
	Events     int    `json:"events"`      // mask of events to subscribe to; 0: all known events
	// A ContainerAdjustment, as JSON, for each created container, …
	Adjust json.RawMessage `json:"adjust"`
	// … and LinuxResources to update the previously created container with each creation.
	UpdateBefore json.RawMessage `json:"update_before"`
	Replies      string          `json:"replies"` // file with replies, see script
	Panic        string          `json:"panic"`   // name of a container whose creation causes a panic
}

type plugin struct {
	settings
	stub     stub.Stub
	out      *jsonlines.Writer
	log      *eventLog
	requests *requestLog
	script   script
	seen     atomic.Int64
	created  string // id of the last created container
}

func main() {
	p := &plugin{out: jsonlines.Stdout(), log: &eventLog{}, requests: &requestLog{}}
	socket := flag.String("socket", api.DefaultSocketPath, "path of the NRI socket")
	index := flag.String("index", "", "index to register with")
	name := flag.String("name", "", "name to register with")
	level := flag.String("log-level", "fatal", "for messages of the stub, on stderr")
	flag.StringVar(&p.YAML, "yaml", "", "file to log each event to, as YAML")
	flag.StringVar(&p.Requests, "requests", "", "file for what was received")
	flag.IntVar(&p.Delay, "delay-ms", 0, "wait before an answer")
	flag.StringVar(&p.DelayEvent, "delay-event", "", "the event whose answer waits")
	flag.IntVar(&p.DelayAfter, "delay-after", 0, "how many of these events are answered at once")
	flag.StringVar(&p.Annotation, "annotation", "", "annotation to set on new containers")
	flag.StringVar(&p.Env, "env", "", "environment variable to set on new containers")
	flag.Func("adjust", "JSON of an adjustment of new containers", func(text string) error {
		p.Adjust = json.RawMessage(text)
		return nil
	})
	flag.Func("update-before", "JSON of resources for the container before a new one", func(text string) error {
		p.UpdateBefore = json.RawMessage(text)
		return nil
	})
	flag.StringVar(&p.Replies, "replies", "", "file with replies to give")
	flag.StringVar(&p.Panic, "panic", "", "container at whose creation it panics")
	flag.IntVar(&p.Events, "events", 0, "mask of events to subscribe to")
	flag.Parse()

	parsed, err := logrus.ParseLevel(*level)
	if err != nil {
		fail(err)
	}
	logrus.SetLevel(parsed)
	if err := p.open(); err != nil {
		fail(err)
	}
	options := []stub.Option{
		stub.WithSocketPath(*socket),
		stub.WithOnClose(func() {}),
		stub.WithTTRPCOptions(nil, []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(p.intercept)}),
	}
	if *name != "" {
		options = append(options, stub.WithPluginName(*name))
	}
	if *index != "" {
		options = append(options, stub.WithPluginIdx(*index))
	}
	if p.stub, err = stub.New(p, options...); err != nil {
		fail(err)
	}
	go p.obey()
	err = p.stub.Run(context.Background())
	p.log.close()
	p.requests.close()
	closed := map[string]any{"event": "closed", "error": ""}
	if err != nil {
		closed["error"] = err.Error()
	}
	p.out.Write(closed)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "refplugin:", err)
	os.Exit(1)
}

func (p *plugin) open() error {
	if err := p.log.open(p.YAML); err != nil {
		return err
	}
	if err := p.script.open(p.Replies); err != nil {
		return err
	}
	return p.requests.open(p.Requests)
}

// obey executes commands from stdin: "update" requests an update of a container, or sends a whole
// update request; "stop" disconnects. The end of stdin is ignored: launched plugins have no stdin.
func (p *plugin) obey() {
	jsonlines.Read(os.Stdin, func(line []byte) bool {
		var command struct {
			Do        string `json:"do"`
			Container string `json:"container"`
			Request   []byte `json:"request_b64"`
		}
		if err := json.Unmarshal(line, &command); err != nil {
			fail(err)
		}
		if command.Do == "stop" {
			p.stub.Stop()
			return false
		}
		request := &api.UpdateContainersRequest{}
		if err := proto.Unmarshal(command.Request, request); err != nil {
			fail(err)
		}
		if command.Request == nil {
			update := &api.ContainerUpdate{ContainerId: command.Container}
			update.SetLinuxCPUShares(512)
			request.Update = append(request.Update, update)
		}
		failed, err := p.stub.UpdateContainers(request.Update)
		updated := map[string]any{"event": "updated", "failed": len(failed), "error": ""}
		if err != nil {
			updated["error"] = err.Error()
		}
		p.out.Write(updated)
		return true
	})
}

// intercept every request for logging; the handlers reply.
func (p *plugin) intercept(ctx context.Context, unmarshal ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	if !p.requests.enabled() && p.Delay == 0 && p.script == nil {
		return method(ctx, unmarshal)
	}
	var request any
	reply, err := method(ctx, func(into any) error {
		request = into
		return unmarshal(into)
	})
	if scripted := p.script.reply(info.FullMethod, request); scripted != nil {
		reply = scripted
	}
	p.requests.write(info.FullMethod, request, reply)
	if p.Delay > 0 && eventOf(info.FullMethod, request) == p.DelayEvent {
		if p.seen.Add(1) > int64(p.DelayAfter) {
			time.Sleep(time.Duration(p.Delay) * time.Millisecond)
		}
	}
	return reply, err
}
