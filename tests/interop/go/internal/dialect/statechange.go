// SPDX-License-Identifier: Apache-2.0

//go:build nri_statechange

package dialect

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// Name of this dialect.
const Name = "statechange"

// HasPodUpdate is true if UpdatePodSandbox and PostUpdatePodSandbox exist.
const HasPodUpdate = false

// events maps the names of the 11 events of NRI 0.2 to 0.9.
var events = map[string]api.Event{
	"RunPodSandbox":       api.Event_RUN_POD_SANDBOX,
	"StopPodSandbox":      api.Event_STOP_POD_SANDBOX,
	"RemovePodSandbox":    api.Event_REMOVE_POD_SANDBOX,
	"CreateContainer":     api.Event_CREATE_CONTAINER,
	"PostCreateContainer": api.Event_POST_CREATE_CONTAINER,
	"StartContainer":      api.Event_START_CONTAINER,
	"PostStartContainer":  api.Event_POST_START_CONTAINER,
	"UpdateContainer":     api.Event_UPDATE_CONTAINER,
	"PostUpdateContainer": api.Event_POST_UPDATE_CONTAINER,
	"StopContainer":       api.Event_STOP_CONTAINER,
	"RemoveContainer":     api.Event_REMOVE_CONTAINER,
}

// Method returns the RPC of an event.
func Method(event string) string {
	switch event {
	case "CreateContainer", "UpdateContainer", "StopContainer":
		return event
	}
	return "StateChange"
}

// SetTimes does nothing: containers have no times before NRI 0.10.
func SetTimes(*api.Container, int64, int64, int64) {}

func requestOf(event string, pod *api.PodSandbox, container *api.Container, _ *api.LinuxResources) (proto.Message, error) {
	number, ok := events[event]
	if !ok {
		return nil, unknown(event)
	}
	return &api.StateChangeEvent{Event: number, Pod: pod, Container: container}, nil
}

func relay(ctx context.Context, runtime *adaptation.Adaptation, request proto.Message) error {
	if change, ok := request.(*api.StateChangeEvent); ok {
		return runtime.StateChange(ctx, change)
	}
	return unknown(string(request.ProtoReflect().Descriptor().Name()))
}

func stateChange() (proto.Message, error) {
	return &api.StateChangeEvent{}, nil
}
