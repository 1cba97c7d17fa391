// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
)

// edits is the generator that upstream's builds upon: what runtime-tools and containerd's own do.
type edits struct{ spec *rspec.Spec }

var namespaces = []rspec.LinuxNamespaceType{
	rspec.CgroupNamespace, rspec.IPCNamespace, rspec.MountNamespace, rspec.NetworkNamespace,
	rspec.PIDNamespace, rspec.TimeNamespace, rspec.UserNamespace, rspec.UTSNamespace,
}

func ensure[T any](place **T) *T {
	if *place == nil {
		*place = new(T)
	}
	return *place
}

func set[K comparable, V any](place *map[K]V, key K, value V) {
	if *place == nil {
		*place = map[K]V{}
	}
	(*place)[key] = value
}

func put[T any](list *[]T, item T, same func(T) bool) {
	if i := slices.IndexFunc(*list, same); i >= 0 {
		(*list)[i] = item
	} else {
		*list = append(*list, item)
	}
}

func remove[T any](list *[]T, same func(T) bool) {
	if i := slices.IndexFunc(*list, same); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}

func (e *edits) linux() *rspec.Linux              { return ensure(&e.spec.Linux) }
func (e *edits) resources() *rspec.LinuxResources { return ensure(&e.linux().Resources) }
func (e *edits) cpu() *rspec.LinuxCPU             { return ensure(&e.resources().CPU) }
func (e *edits) memory() *rspec.LinuxMemory       { return ensure(&e.resources().Memory) }
func (e *edits) hooks() *rspec.Hooks              { return ensure(&e.spec.Hooks) }
func (e *edits) process() *rspec.Process          { return ensure(&e.spec.Process) }

func (e *edits) Spec() *rspec.Spec { return e.spec }

func (e *edits) AddAnnotation(key, value string) { set(&e.spec.Annotations, key, value) }
func (e *edits) RemoveAnnotation(key string)     { delete(e.spec.Annotations, key) }

func (e *edits) SetProcessArgs(args []string)  { e.process().Args = args }
func (e *edits) SetProcessOOMScoreAdj(adj int) { e.process().OOMScoreAdj = &adj }
func (e *edits) ClearProcessEnv()              { e.process().Env = nil }
func (e *edits) AddProcessEnv(name, value string) {
	if name != "" {
		put(&e.process().Env, name+"="+value, func(entry string) bool {
			return strings.HasPrefix(entry, name+"=")
		})
	}
}

func (e *edits) AddPreStartHook(h rspec.Hook) {
	e.hooks().Prestart = append(e.hooks().Prestart, h) //nolint:staticcheck // still in the API
}
func (e *edits) AddPostStartHook(h rspec.Hook) { e.hooks().Poststart = append(e.hooks().Poststart, h) }
func (e *edits) AddPostStopHook(h rspec.Hook)  { e.hooks().Poststop = append(e.hooks().Poststop, h) }

func (e *edits) Mounts() []rspec.Mount    { return e.spec.Mounts }
func (e *edits) ClearMounts()             { e.spec.Mounts = nil }
func (e *edits) AddMount(mnt rspec.Mount) { e.spec.Mounts = append(e.spec.Mounts, mnt) }
func (e *edits) RemoveMount(dest string) {
	remove(&e.spec.Mounts, func(m rspec.Mount) bool { return m.Destination == dest })
}

func (e *edits) AddDevice(device rspec.LinuxDevice) {
	put(&e.linux().Devices, device, func(d rspec.LinuxDevice) bool { return d.Path == device.Path })
}
func (e *edits) RemoveDevice(path string) {
	remove(&e.linux().Devices, func(d rspec.LinuxDevice) bool { return d.Path == path })
}

func (e *edits) AddOrReplaceLinuxNamespace(ns, path string) error {
	kind, err := namespace(ns)
	if err == nil {
		put(&e.linux().Namespaces, rspec.LinuxNamespace{Type: kind, Path: path},
			func(n rspec.LinuxNamespace) bool { return n.Type == kind })
	}
	return err
}
func (e *edits) RemoveLinuxNamespace(ns string) error {
	kind, err := namespace(ns)
	if err == nil {
		remove(&e.linux().Namespaces, func(n rspec.LinuxNamespace) bool { return n.Type == kind })
	}
	return err
}
func namespace(name string) (rspec.LinuxNamespaceType, error) {
	if kind := rspec.LinuxNamespaceType(name); slices.Contains(namespaces, kind) {
		return kind, nil
	}
	return "", fmt.Errorf("unrecognized namespace %q", name)
}

func (e *edits) AddLinuxSysctl(key, value string) { set(&e.linux().Sysctl, key, value) }
func (e *edits) RemoveLinuxSysctl(key string)     { delete(e.linux().Sysctl, key) }
func (e *edits) SetLinuxCgroupsPath(path string)  { e.linux().CgroupsPath = path }
func (e *edits) SetLinuxRootPropagation(rp string) error {
	e.linux().RootfsPropagation = rp
	return nil
}
func (e *edits) AddLinuxResourcesUnified(key, val string) { set(&e.resources().Unified, key, val) }

func (e *edits) AddLinuxResourcesDevice(
	allow bool, devType string, major, minor *int64, access string,
) {
	e.resources().Devices = append(e.resources().Devices, rspec.LinuxDeviceCgroup{
		Allow: allow, Type: devType, Major: major, Minor: minor, Access: access,
	})
}
func (e *edits) AddLinuxResourcesHugepageLimit(pageSize string, limit uint64) {
	put(&e.resources().HugepageLimits, rspec.LinuxHugepageLimit{Pagesize: pageSize, Limit: limit},
		func(h rspec.LinuxHugepageLimit) bool { return h.Pagesize == pageSize })
}

func (e *edits) SetLinuxResourcesCPUCpus(cpus string)             { e.cpu().Cpus = cpus }
func (e *edits) SetLinuxResourcesCPUMems(mems string)             { e.cpu().Mems = mems }
func (e *edits) SetLinuxResourcesCPUPeriod(period uint64)         { e.cpu().Period = &period }
func (e *edits) SetLinuxResourcesCPUQuota(quota int64)            { e.cpu().Quota = &quota }
func (e *edits) SetLinuxResourcesCPURealtimePeriod(period uint64) { e.cpu().RealtimePeriod = &period }
func (e *edits) SetLinuxResourcesCPURealtimeRuntime(time int64)   { e.cpu().RealtimeRuntime = &time }
func (e *edits) SetLinuxResourcesCPUShares(shares uint64)         { e.cpu().Shares = &shares }
func (e *edits) SetLinuxResourcesMemoryLimit(limit int64)         { e.memory().Limit = &limit }
func (e *edits) SetLinuxResourcesMemorySwap(swap int64)           { e.memory().Swap = &swap }
