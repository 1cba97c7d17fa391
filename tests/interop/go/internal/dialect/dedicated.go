// SPDX-License-Identifier: Apache-2.0

//go:build !nri_statechange

package dialect

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// Name of this dialect.
const Name = "dedicated"

// HasPodUpdate is true if UpdatePodSandbox and PostUpdatePodSandbox exist.
const HasPodUpdate = true

// Method returns the RPC of an event.
func Method(event string) string {
	return event
}

// SetTimes sets the times of creation, start and end of a container, in Unix nanoseconds.
func SetTimes(container *api.Container, created, started, finished int64) {
	container.CreatedAt, container.StartedAt, container.FinishedAt = created, started, finished
}

func requestOf(event string, pod *api.PodSandbox, container *api.Container, resources *api.LinuxResources) (proto.Message, error) {
	switch event {
	case "RunPodSandbox":
		return &api.RunPodSandboxRequest{Pod: pod}, nil
	case "UpdatePodSandbox":
		return &api.UpdatePodSandboxRequest{Pod: pod, LinuxResources: resources}, nil
	case "PostUpdatePodSandbox":
		return &api.PostUpdatePodSandboxRequest{Pod: pod}, nil
	case "StopPodSandbox":
		return &api.StopPodSandboxRequest{Pod: pod}, nil
	case "RemovePodSandbox":
		return &api.RemovePodSandboxRequest{Pod: pod}, nil
	case "PostCreateContainer":
		return &api.PostCreateContainerRequest{Pod: pod, Container: container}, nil
	case "StartContainer":
		return &api.StartContainerRequest{Pod: pod, Container: container}, nil
	case "PostStartContainer":
		return &api.PostStartContainerRequest{Pod: pod, Container: container}, nil
	case "PostUpdateContainer":
		return &api.PostUpdateContainerRequest{Pod: pod, Container: container}, nil
	case "RemoveContainer":
		return &api.RemoveContainerRequest{Pod: pod, Container: container}, nil
	}
	return nil, unknown(event)
}

func relay(ctx context.Context, runtime *adaptation.Adaptation, request proto.Message) error {
	switch request := request.(type) {
	case *api.RunPodSandboxRequest:
		return runtime.RunPodSandbox(ctx, request)
	case *api.UpdatePodSandboxRequest:
		_, err := runtime.UpdatePodSandbox(ctx, request)
		return err
	case *api.PostUpdatePodSandboxRequest:
		return runtime.PostUpdatePodSandbox(ctx, request)
	case *api.StopPodSandboxRequest:
		return runtime.StopPodSandbox(ctx, request)
	case *api.RemovePodSandboxRequest:
		return runtime.RemovePodSandbox(ctx, request)
	case *api.PostCreateContainerRequest:
		return runtime.PostCreateContainer(ctx, request)
	case *api.StartContainerRequest:
		return runtime.StartContainer(ctx, request)
	case *api.PostStartContainerRequest:
		return runtime.PostStartContainer(ctx, request)
	case *api.PostUpdateContainerRequest:
		return runtime.PostUpdateContainer(ctx, request)
	case *api.RemoveContainerRequest:
		return runtime.RemoveContainer(ctx, request)
	}
	return unknown(string(request.ProtoReflect().Descriptor().Name()))
}

func stateChange() (proto.Message, error) {
	return nil, unknown("StateChange")
}
