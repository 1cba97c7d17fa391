// SPDX-License-Identifier: Apache-2.0

// ulimit-adjuster is an NRI plugin that sets the resource limits requested by
// a pod's annotations:
//
//	ulimits.example.com/cache: nofile=65536, memlock=67108864:134217728
//
// applies to the container called cache. NAME=N sets both the soft and the hard
// limit, NAME=SOFT:HARD sets them separately. An invalid annotation fails the
// container.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

const prefix = "ulimits.example.com/"

type plugin struct{}

// CreateContainer is the only event that this plugin handles: the stub
// subscribes to the events for which the plugin has methods.
func (plugin) CreateContainer(
	_ context.Context, pod *api.PodSandbox, container *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	// Never nil: a reply without an adjustment makes iSulad abort.
	adjustment := &api.ContainerAdjustment{}
	annotation, ok := pod.GetAnnotations()[prefix+container.GetName()]
	if !ok {
		return adjustment, nil, nil
	}
	limits, err := parseLimits(annotation)
	if err != nil {
		return nil, nil, fmt.Errorf("%s%s: %w", prefix, container.GetName(), err)
	}
	for _, one := range limits {
		adjustment.AddRlimit(one.kind, one.hard, one.soft)
	}
	return adjustment, nil, nil
}

func main() {
	// A plugin launched by a runtime has no arguments: the stub reads name and
	// index from the environment.
	index := flag.String("index", "", "two digits, the place in the chain")
	socket := flag.String("socket", "", "the runtime's NRI socket")
	flag.Parse()

	options := []stub.Option{}
	if os.Getenv(api.PluginIdxEnvVar) == "" {
		if *index == "" {
			*index = "30"
		}
		options = append(options, stub.WithPluginName("ulimit-adjuster"))
	}
	if *index != "" {
		options = append(options, stub.WithPluginIdx(*index))
	}
	if *socket != "" {
		options = append(options, stub.WithSocketPath(*socket))
	}
	if err := serve(options); err != nil {
		fmt.Fprintln(os.Stderr, "ulimit-adjuster:", err)
		os.Exit(1)
	}
}

func serve(options []stub.Option) error {
	connection, err := stub.New(plugin{}, options...)
	if err != nil {
		return err
	}
	return connection.Run(context.Background())
}
