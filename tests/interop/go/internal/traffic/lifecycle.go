// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"nri-scope/interop/internal/dialect"
	"nri-scope/interop/internal/wiresize"
)

// Step is one event of a lifecycle. Message must be called in the order of the steps: they share one
// container object, whose state each step advances.
type Step struct {
	Event   string
	Message func() (proto.Message, error)
}

// LifecycleEvents of one pod with one container, in their usual order.
var LifecycleEvents = []string{
	"RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer",
	"PostStartContainer", "UpdateContainer", "PostUpdateContainer", "StopContainer",
	"RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
}

// Lifecycle number n. If requested and supported by the dialect, the pod is updated after its
// container.
func (s Shape) Lifecycle(n int, podUpdates bool) []Step {
	pod, container := s.Pod(n), s.Container(n)
	steps := make([]Step, 0, len(LifecycleEvents)+2)
	add := func(event string) {
		steps = append(steps, Step{event, func() (proto.Message, error) {
			if strings.HasSuffix(event, "PodSandbox") {
				return dialect.Request(event, pod, nil, s.NewResources(n))
			}
			advance(event, n, container)
			return dialect.Request(event, pod, container, s.NewResources(n))
		}})
	}
	for _, event := range LifecycleEvents {
		add(event)
		if event == "PostUpdateContainer" && podUpdates && dialect.HasPodUpdate {
			add("UpdatePodSandbox")
			add("PostUpdatePodSandbox")
		}
	}
	return steps
}

// SizedLifecycle number n, in which every event is a ttRPC message of exactly size bytes, header
// included. The timeout determines the encoded size of a message's deadline.
func SizedLifecycle(n, size int, timeoutNano int64) []Step {
	steps := make([]Step, 0, len(LifecycleEvents))
	for _, event := range LifecycleEvents {
		steps = append(steps, Step{event, func() (proto.Message, error) {
			return sized(event, n, size, timeoutNano)
		}})
	}
	return steps
}

// sized pads an annotation, and for the last few bytes the name, of an otherwise bare object: a
// longer string can also lengthen the length fields before it.
func sized(event string, n, size int, timeoutNano int64) (proto.Message, error) {
	measure := func(padding, name int) (proto.Message, int, error) {
		message, err := bare(event, n, padding, name)
		if err != nil {
			return nil, 0, err
		}
		length := wiresize.Message(dialect.Service, dialect.Method(event), proto.Size(message), timeoutNano)
		return message, length, nil
	}
	for name := 0; name < 16; name++ {
		padding := -1
		for range 4 {
			message, length, err := measure(padding, name)
			if err != nil || length == size {
				return message, err
			}
			if padding = max(padding, 0) + size - length; padding < 0 {
				break
			}
		}
	}
	return nil, fmt.Errorf("%s cannot be made %d bytes long", event, size)
}

// bare returns the smallest message that the adaptation sends unchanged: it fills in missing parts
// of CreateContainer and UpdateContainer. Padding -1 means no annotation at all.
func bare(event string, n, padding, name int) (proto.Message, error) {
	pod := &api.PodSandbox{Id: fmt.Sprintf("p%02d", n%100)}
	container := &api.Container{Id: fmt.Sprintf("c%02d", n%100), PodSandboxId: pod.Id}
	var annotations map[string]string
	if padding >= 0 {
		annotations = map[string]string{"p": text(padding)}
	}
	if strings.HasSuffix(event, "PodSandbox") {
		pod.Annotations, pod.Name = annotations, text(name)
	} else {
		container.Annotations, container.Name = annotations, text(name)
	}
	empty := &api.LinuxResources{Memory: &api.LinuxMemory{}, Cpu: &api.LinuxCPU{}}
	if event == "CreateContainer" {
		container.Hooks, container.Linux = &api.Hooks{}, &api.LinuxContainer{Resources: empty}
	}
	return dialect.Request(event, pod, container, empty)
}

func text(length int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	return strings.Repeat(alphabet, length/len(alphabet)+1)[:length]
}
