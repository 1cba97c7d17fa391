// SPDX-License-Identifier: Apache-2.0

// Package dialect hides differences of NRI versions: up to 0.11 most events travel as StateChange,
// from 0.12 each event has its own request. Build with -tags nri_statechange for the former.
package dialect

import (
	"context"
	"fmt"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// Service is the full name of the ttRPC service of plugins.
const Service = "nri.pkg.api.v1alpha1.Plugin"

// Request makes the message of an event. The resources are those of UpdateContainer
// and UpdatePodSandbox; other events have none.
func Request(event string, pod *api.PodSandbox, container *api.Container, resources *api.LinuxResources) (proto.Message, error) {
	switch event {
	case "CreateContainer":
		return &api.CreateContainerRequest{Pod: pod, Container: container}, nil
	case "UpdateContainer":
		return &api.UpdateContainerRequest{Pod: pod, Container: container, LinuxResources: resources}, nil
	case "StopContainer":
		return &api.StopContainerRequest{Pod: pod, Container: container}, nil
	}
	return requestOf(event, pod, container, resources)
}

// Relay passes a request to the runtime's adaptation and waits for every plugin's reply. It returns
// the merged reply, if the event has one.
func Relay(ctx context.Context, runtime *adaptation.Adaptation, request proto.Message) (proto.Message, error) {
	switch request := request.(type) {
	case *api.CreateContainerRequest:
		return runtime.CreateContainer(ctx, request)
	case *api.UpdateContainerRequest:
		return runtime.UpdateContainer(ctx, request)
	case *api.StopContainerRequest:
		return runtime.StopContainer(ctx, request)
	}
	return nil, relay(ctx, runtime, request)
}

// Parse a request from its encoding on the wire.
func Parse(method string, payload []byte) (proto.Message, error) {
	message, err := emptyRequest(method)
	if err != nil {
		return nil, err
	}
	return message, proto.Unmarshal(payload, message)
}

func emptyRequest(method string) (proto.Message, error) {
	if method == "StateChange" {
		return stateChange()
	}
	return Request(method, nil, nil, nil)
}

func unknown(event string) error {
	return fmt.Errorf("NRI %s has no event %s", Name, event)
}
