// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"google.golang.org/protobuf/encoding/protojson"
)

// Configure reads the settings if the runtime sends a configuration.
func (p *plugin) Configure(_ context.Context, config, runtime, version string) (stub.EventMask, error) {
	if config != "" {
		if err := json.Unmarshal([]byte(config), &p.settings); err != nil {
			return 0, fmt.Errorf("configuration is no JSON object: %w", err)
		}
		if err := p.open(); err != nil {
			return 0, err
		}
	}
	p.out.Write(map[string]any{
		"event": "configured", "config": config, "runtime": runtime, "version": version,
		"registration_timeout_ms": p.stub.RegistrationTimeout().Milliseconds(),
		"request_timeout_ms":      p.stub.RequestTimeout().Milliseconds(),
	})
	return stub.EventMask(p.Events), nil
}

func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.log.write("Synchronize", "pods", pods, "containers", containers)
	p.out.Write(map[string]any{"event": "synchronized", "pods": len(pods), "containers": len(containers)})
	return nil, nil
}

func (p *plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.log.write("RunPodSandbox", "pod", pod)
	return nil
}

func (p *plugin) UpdatePodSandbox(_ context.Context, pod *api.PodSandbox, overhead, resources *api.LinuxResources) error {
	p.log.write("UpdatePodSandbox", "pod", pod, "overhead", overhead, "resources", resources)
	return nil
}

func (p *plugin) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.log.write("PostUpdatePodSandbox", "pod", pod)
	return nil
}

func (p *plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.log.write("StopPodSandbox", "pod", pod)
	return nil
}

func (p *plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.log.write("RemovePodSandbox", "pod", pod)
	return nil
}

func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.log.write("CreateContainer", "pod", pod, "container", container)
	if p.Panic != "" && p.Panic == container.GetName() {
		p.panic()
	}
	updates, err := p.updateBefore(container.GetId())
	if err != nil || p.Annotation == "" && p.Env == "" && p.Adjust == nil {
		return nil, updates, err
	}
	adjustment := &api.ContainerAdjustment{}
	if p.Adjust != nil {
		if err := protojson.Unmarshal(p.Adjust, adjustment); err != nil {
			return nil, nil, err
		}
	}
	if p.Annotation != "" {
		adjustment.AddAnnotation(p.Annotation, container.GetName())
	}
	if p.Env != "" {
		adjustment.AddEnv(p.Env, container.GetName())
	}
	return adjustment, updates, nil
}

// panic causes one of two panics, depending on the previously created container.
func (p *plugin) panic() {
	if p.created == "" {
		panic("nothing was created before")
	}
	var known map[string]bool
	known[p.created] = true
}

// updateBefore updates the previously created container, if any, when a container is created.
func (p *plugin) updateBefore(id string) ([]*api.ContainerUpdate, error) {
	before := p.created
	p.created = id
	if p.UpdateBefore == nil || before == "" {
		return nil, nil
	}
	resources := &api.LinuxResources{}
	if err := protojson.Unmarshal(p.UpdateBefore, resources); err != nil {
		return nil, err
	}
	update := &api.ContainerUpdate{ContainerId: before}
	update.Linux = &api.LinuxContainerUpdate{Resources: resources}
	return []*api.ContainerUpdate{update}, nil
}

func (p *plugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	p.log.write("PostCreateContainer", "pod", pod, "container", container)
	return nil
}

func (p *plugin) StartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	p.log.write("StartContainer", "pod", pod, "container", container)
	return nil
}

func (p *plugin) PostStartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	p.log.write("PostStartContainer", "pod", pod, "container", container)
	return nil
}

func (p *plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container, resources *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	p.log.write("UpdateContainer", "pod", pod, "container", container, "resources", resources)
	return nil, nil
}

func (p *plugin) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	p.log.write("PostUpdateContainer", "pod", pod, "container", container)
	return nil
}

func (p *plugin) StopContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	p.log.write("StopContainer", "pod", pod, "container", container)
	return nil, nil
}

func (p *plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	p.log.write("RemoveContainer", "pod", pod, "container", container)
	return nil
}
