// SPDX-License-Identifier: Apache-2.0

// Package traffic generates pods and containers like those of a containerd node. It is
// deterministic: equal parameters generate equal traffic, except for timestamps.
package traffic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/containerd/nri/pkg/api"

	"nri-scope/interop/internal/dialect"
)

// Shape of the traffic.
type Shape struct {
	Env       int `json:"env"`       // environment variables per container, at least 3
	Mounts    int `json:"mounts"`    // mounts per container
	Workloads int `json:"workloads"` // number of deployments, whose replicas share most of their environment
}

const namespaceCount = 8

func digest(kind string, number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", kind, number))
	return hex.EncodeToString(sum[:])
}

func uid(number int) string {
	d := digest("uid", number)
	return d[:8] + "-" + d[8:12] + "-4" + d[13:16] + "-a" + d[17:20] + "-" + d[20:32]
}

// Pod number n.
func (s Shape) Pod(n int) *api.PodSandbox {
	workload := n % s.Workloads
	name := fmt.Sprintf("service-%d-%s-%s", workload, digest("revision", workload)[:10], digest("suffix", n)[:5])
	namespace := fmt.Sprintf("team-%d", workload%namespaceCount)
	id := digest("pod", n)
	return &api.PodSandbox{
		Id: id, Name: name, Uid: uid(n), Namespace: namespace,
		Labels: map[string]string{
			"app.kubernetes.io/name":      fmt.Sprintf("service-%d", workload),
			"app.kubernetes.io/part-of":   fmt.Sprintf("shop-%d", workload%3),
			"pod-template-hash":           digest("revision", workload)[:10],
			"io.cri-containerd.kind":      "sandbox",
			"io.kubernetes.pod.namespace": namespace,
			"io.kubernetes.pod.name":      name,
			"io.kubernetes.pod.uid":       uid(n),
		},
		Annotations: map[string]string{
			"kubernetes.io/config.source":                    "api",
			"kubernetes.io/config.seen":                      seen(n),
			"io.kubernetes.cri.container-type":               "sandbox",
			"io.kubernetes.cri.sandbox-id":                   id,
			"io.kubernetes.cri.sandbox-name":                 name,
			"io.kubernetes.cri.sandbox-namespace":            namespace,
			"io.kubernetes.cri.sandbox-uid":                  uid(n),
			"io.kubernetes.cri.sandbox-log-directory":        "/var/log/pods/" + namespace + "_" + name + "_" + uid(n),
			"io.kubernetes.cri.podsandbox.image-name":        "registry.example/pause:3.10",
			"prometheus.io/scrape":                           "true",
			"example.com/checksum-of-the-pods-configuration": digest("configuration", workload),
		},
		RuntimeHandler: "runc",
		Pid:            uint32(10000 + n*7%50000),
		Linux: &api.LinuxPodSandbox{
			PodOverhead:  &api.LinuxResources{},
			PodResources: resources(workload),
			CgroupParent: cgroupParent(n),
			CgroupsPath:  cgroupParent(n) + ":cri-containerd:" + id,
			Namespaces:   []*api.LinuxNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}, {Type: "network"}},
		},
	}
}

// seen is a time that differs between pods, but not between runs.
func seen(n int) string {
	return time.Unix(1_767_225_600, int64(n)*1_234_567_891%1e15).UTC().Format(time.RFC3339Nano)
}

func cgroupParent(n int) string {
	return "kubelet-kubepods-burstable-pod" + uid(n) + ".slice"
}

func resources(workload int) *api.LinuxResources {
	return &api.LinuxResources{
		Memory: &api.LinuxMemory{Limit: api.Int64(int64(256+workload) << 20)},
		Cpu: &api.LinuxCPU{
			Shares: api.UInt64(uint64(256 + workload)), Quota: api.Int64(50000 + int64(workload)*1000),
			Period: api.UInt64(uint64(100000)),
		},
	}
}

// NewResources are the resources in UpdateContainer and UpdatePodSandbox.
func (s Shape) NewResources(n int) *api.LinuxResources {
	changed := resources(n % s.Workloads)
	changed.Cpu.Shares = api.UInt64(uint64(1024))
	return changed
}

// Container number n, of pod number n, before its creation.
func (s Shape) Container(n int) *api.Container {
	pod := digest("pod", n)
	workload := n % s.Workloads
	name := fmt.Sprintf("app-%d", workload)
	container := &api.Container{
		Id: digest("container", n), PodSandboxId: pod, Name: name,
		Labels: map[string]string{
			"io.cri-containerd.kind":       "container",
			"io.kubernetes.container.name": name,
			"io.kubernetes.pod.uid":        uid(n),
		},
		Annotations: map[string]string{
			"io.kubernetes.cri.container-type": "container",
			"io.kubernetes.cri.container-name": name,
			"io.kubernetes.cri.image-name":     fmt.Sprintf("registry.example/service-%d:1.%d", workload, workload%7),
			"io.kubernetes.cri.sandbox-id":     pod,
			"io.kubernetes.cri.sandbox-uid":    uid(n),
		},
		Args:   []string{"/usr/local/bin/serve", "--listen=:8080", fmt.Sprintf("--service=service-%d", workload)},
		Env:    s.environment(n, workload),
		Mounts: s.mounts(n, workload, pod),
		Hooks:  &api.Hooks{},
		Linux: &api.LinuxContainer{
			Namespaces: []*api.LinuxNamespace{
				{Type: "pid"}, {Type: "ipc", Path: fmt.Sprintf("/proc/%d/ns/ipc", 10000+n*7%50000)},
				{Type: "mount"}, {Type: "network", Path: "/var/run/netns/cni-" + uid(n)}, {Type: "cgroup"},
			},
			Resources:   resources(workload),
			OomScoreAdj: api.Int(999),
			CgroupsPath: cgroupParent(n) + ":cri-containerd:" + digest("container", n),
		},
	}
	return container
}

func (s Shape) environment(n, workload int) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOSTNAME=" + fmt.Sprintf("service-%d-%s", workload, digest("suffix", n)[:5]),
		fmt.Sprintf("POD_IP=10.%d.%d.%d", n>>16&255, n>>8&255, n&255),
	}
	for k := len(env); k < s.Env; k++ {
		value := digest("value", workload*1000+k)
		switch k % 4 {
		case 0:
			env = append(env, fmt.Sprintf("SERVICE_%d_SERVICE_HOST=10.96.%d.%d", k, workload, k))
		case 1:
			env = append(env, fmt.Sprintf("BACKEND_%d_URL=http://backend-%d.team-%d.svc.cluster.local:8080", k, k, workload))
		case 2:
			env = append(env, fmt.Sprintf("TOKEN_%d=%s", k, value[:32]))
		case 3:
			env = append(env, fmt.Sprintf("FEATURE_%d_ENABLED=%t", k, value[0] < '8'))
		}
	}
	return env[:s.Env]
}

func (s Shape) mounts(n, workload int, pod string) []*api.Mount {
	sandbox := "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/" + pod
	volumes := "/var/lib/kubelet/pods/" + uid(n)
	bind := func(destination, source string, mode string) *api.Mount {
		return &api.Mount{Destination: destination, Type: "bind", Source: source, Options: []string{"rbind", "rprivate", mode}}
	}
	mounts := []*api.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
		bind("/etc/hosts", volumes+"/etc-hosts", "rw"),
		bind("/etc/hostname", sandbox+"/hostname", "rw"),
		bind("/etc/resolv.conf", sandbox+"/resolv.conf", "rw"),
		bind("/dev/shm", "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/"+pod+"/shm", "rw"),
		bind("/dev/termination-log", volumes+"/containers/"+fmt.Sprintf("app-%d/", workload)+digest("container", n)[:8], "rw"),
		bind("/var/run/secrets/kubernetes.io/serviceaccount", volumes+"/volumes/kubernetes.io~projected/kube-api-access-"+digest("suffix", n)[:5], "ro"),
	}
	for k := len(mounts); k < s.Mounts; k++ {
		mounts = append(mounts, bind(fmt.Sprintf("/etc/config/%d", k), fmt.Sprintf("%s/volumes/kubernetes.io~configmap/config-%d", volumes, k), "ro"))
	}
	return mounts[:s.Mounts]
}

// advance sets a container's state at the time of an event.
func advance(event string, n int, container *api.Container) {
	// A fixed start time and one lifecycle per second make runs reproducible.
	created := time.Unix(1_767_225_600+int64(n), int64(n)*7919%1e9).UnixNano()
	started, finished := created+450_123_000, created+60_000_456_000
	switch event {
	case "PostCreateContainer", "StartContainer":
		container.State = api.ContainerState_CONTAINER_CREATED
		container.Pid = uint32(10001 + n*7%50000)
		dialect.SetTimes(container, created, 0, 0)
	case "PostStartContainer":
		container.State = api.ContainerState_CONTAINER_RUNNING
		dialect.SetTimes(container, created, started, 0)
	case "PostUpdateContainer":
		container.Linux.Resources.Cpu.Shares = api.UInt64(uint64(1024))
	case "StopContainer":
		container.State = api.ContainerState_CONTAINER_STOPPED
		container.Pid = 0
		dialect.SetTimes(container, created, started, finished)
	}
}
