// SPDX-License-Identifier: Apache-2.0

// Command refadapter makes requests of NRI 0.1 from NRI's own types, with upstream's conversion of
// resources. Each line of stdin is a case; each line of stdout is its request.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

// item is a case: the state, and the encoded pod and container; no container for a pod's event.
type item struct {
	State     string `json:"state"`
	Pod       []byte `json:"pod"`
	Container []byte `json:"container"`
}

// spec and request have the members of NRI 0.1, and omit the same ones if they are empty.
type spec struct {
	Resources   json.RawMessage   `json:"resources"`
	Namespaces  map[string]string `json:"namespaces,omitempty"`
	CgroupsPath string            `json:"cgroupsPath,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type request struct {
	Version   string            `json:"version"`
	State     string            `json:"state"`
	ID        string            `json:"id"`
	SandboxID string            `json:"sandboxID,omitempty"`
	Pid       int               `json:"pid,omitempty"`
	Spec      spec              `json:"spec"`
	Labels    map[string]string `json:"labels,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var one item
		check(json.Unmarshal(lines.Bytes(), &one))
		var pod api.PodSandbox
		check(proto.Unmarshal(one.Pod, &pod))
		made := request{Version: "0.1", State: one.State, SandboxID: pod.GetId(), Labels: pod.GetLabels()}
		if one.Container == nil {
			linux := pod.GetLinux()
			made.ID, made.Pid = pod.GetId(), int(pod.GetPid())
			made.Spec = specOf(linux.GetResources(), linux.GetNamespaces(), linux.GetCgroupsPath(), pod.GetAnnotations())
		} else {
			var container api.Container
			check(proto.Unmarshal(one.Container, &container))
			linux := container.GetLinux()
			made.ID, made.Pid = container.GetId(), int(container.GetPid())
			made.Spec = specOf(linux.GetResources(), linux.GetNamespaces(), linux.GetCgroupsPath(), container.GetAnnotations())
		}
		check(out.Encode(made))
	}
	check(lines.Err())
}

func specOf(resources *api.LinuxResources, namespaces []*api.LinuxNamespace, cgroups string, annotations map[string]string) spec {
	data, err := json.Marshal(resources.ToOCI())
	check(err)
	made := spec{Resources: data, CgroupsPath: cgroups, Annotations: annotations, Namespaces: map[string]string{}}
	for _, one := range namespaces {
		made.Namespaces[one.GetType()] = one.GetPath()
	}
	return made
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
