// SPDX-License-Identifier: Apache-2.0

// Command refmerge merges plugins' replies with upstream's adaptation package. It reads cases from
// stdin and writes their outcomes to stdout, as JSON lines, see testCase and outcome.
//
// Plugins connect and register over a real socket. Their replies to events are injected instead of
// sending the request with ttRPC: the adaptation serialises every request and parses every reply,
// but thousands of round trips over a socket are avoided.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/proto"

	"nri-scope/interop/internal/jsonlines"
)

// names of the plugins of the chain, in order; more than any case has replies.
var names = []string{"alpha", "beta", "gamma", "delta"}

// emptyCreation is a CreateContainerRequest with an empty container.
var emptyCreation = []byte{2<<3 | 2, 0}

// testCase is an event and the replies of the first plugins of the chain; the others reply with
// an empty message.
type testCase struct {
	Event   string   `json:"event"`
	Request []byte   `json:"request_b64"`
	Replies [][]byte `json:"replies_b64"`
}

// outcome contains the requests to the plugins and the result for the runtime.
type outcome struct {
	Seen       [][]byte `json:"seen_b64"`
	Response   []byte   `json:"response_b64"`
	Validation []byte   `json:"validation_b64"` // request to the validator
	Error      string   `json:"error"`
}

type reference struct {
	adaptation *adaptation.Adaptation
	mask       int32 // event mask of the plugin that is being configured
	replies    [][]byte
	outcome    *outcome
}

func main() {
	logrus.SetLevel(logrus.PanicLevel)
	folder, err := os.MkdirTemp("", "nri-")
	check(err)
	defer os.RemoveAll(folder)

	r := &reference{}
	socket := filepath.Join(folder, "nri.sock")
	r.start(socket)
	defer r.adaptation.Stop()

	events := event("CREATE_CONTAINER") | event("UPDATE_CONTAINER") | event("STOP_CONTAINER")
	for n, name := range names {
		r.connect(socket, name, fmt.Sprintf("%d0", n+1), events, func(probe *outcome) bool {
			return len(probe.Seen) > n
		})
	}
	if validation := event("VALIDATE_CONTAINER_ADJUSTMENT"); validation != 0 {
		r.connect(socket, "validator", "90", validation, func(probe *outcome) bool {
			return probe.Validation != nil
		})
	}

	out := jsonlines.Stdout()
	check(jsonlines.Read(os.Stdin, func(line []byte) bool {
		var test testCase
		check(json.Unmarshal(line, &test))
		out.Write(r.run(test))
		return true
	}))
}

// event returns the bit of an event, 0 if this version of NRI lacks it.
func event(name string) int32 {
	number, ok := api.Event_value[name]
	if !ok {
		return 0
	}
	return 1 << (number - 1)
}

func (r *reference) start(socket string) {
	synchronize := func(ctx context.Context, send adaptation.SyncCB) error {
		_, err := send(ctx, nil, nil)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		return nil, nil
	}
	// Plugins must not be disconnected because the machine is busy.
	adaptation.SetPluginRegistrationTimeout(time.Minute)
	adaptation.SetPluginRequestTimeout(time.Minute)
	var err error
	r.adaptation, err = adaptation.New("refmerge", "v1.0.0", synchronize, update,
		adaptation.WithSocketPath(socket),
		adaptation.WithPluginPath(""),
		adaptation.WithPluginConfigPath(""),
		adaptation.WithTTRPCOptions([]ttrpc.ClientOpts{ttrpc.WithUnaryClientInterceptor(r.intercept)}, nil),
	)
	check(err)
	check(r.adaptation.Start())
}

// silent is a plugin whose handler is never called.
type silent struct{}

func (silent) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	panic("not to be called")
}

func (r *reference) connect(socket, name, index string, mask int32, admitted func(*outcome) bool) {
	r.mask = mask
	s, err := stub.New(silent{},
		stub.WithSocketPath(socket), stub.WithPluginName(name), stub.WithPluginIdx(index),
		stub.WithOnClose(func() { check(fmt.Errorf("plugin %s lost its connection", name)) }),
	)
	check(err)
	check(s.Start(context.Background()))
	// Not every version of the adaptation reports when a plugin joins the chain.
	for !admitted(r.run(testCase{Event: "CreateContainer", Request: emptyCreation})) {
		time.Sleep(time.Millisecond)
	}
}

// intercept replaces sending requests to plugins.
func (r *reference) intercept(ctx context.Context, request *ttrpc.Request, reply *ttrpc.Response, _ *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	switch path.Base(request.Method) {
	case "Configure":
		if err := invoke(ctx, request, reply); err != nil {
			return err
		}
		payload, err := proto.Marshal(&api.ConfigureResponse{Events: r.mask})
		reply.Payload = payload
		return err
	case "CreateContainer", "UpdateContainer", "StopContainer":
		position := len(r.outcome.Seen)
		r.outcome.Seen = append(r.outcome.Seen, request.Payload)
		if position < len(r.replies) {
			reply.Payload = r.replies[position]
		}
		return nil
	case "ValidateContainerAdjustment":
		r.outcome.Validation = request.Payload
		return nil
	}
	return invoke(ctx, request, reply)
}

func (r *reference) run(test testCase) *outcome {
	r.replies, r.outcome = test.Replies, &outcome{}
	response, err := r.relay(test)
	if err != nil {
		r.outcome.Error = err.Error()
	} else {
		r.outcome.Response, err = proto.Marshal(response)
		check(err)
	}
	return r.outcome
}

func (r *reference) relay(test testCase) (response proto.Message, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	ctx := context.Background()
	switch test.Event {
	case "CreateContainer":
		request := &api.CreateContainerRequest{}
		check(proto.Unmarshal(test.Request, request))
		return r.adaptation.CreateContainer(ctx, request)
	case "UpdateContainer":
		request := &api.UpdateContainerRequest{}
		check(proto.Unmarshal(test.Request, request))
		return r.adaptation.UpdateContainer(ctx, request)
	case "StopContainer":
		request := &api.StopContainerRequest{}
		check(proto.Unmarshal(test.Request, request))
		return r.adaptation.StopContainer(ctx, request)
	}
	return nil, fmt.Errorf("no event to merge: %q", test.Event)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "refmerge:", err)
		os.Exit(1)
	}
}
