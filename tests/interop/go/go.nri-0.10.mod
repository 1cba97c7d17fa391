// SPDX-License-Identifier: Apache-2.0

// Command refmerge on NRI 0.10: go build -modfile go.nri-0.10.mod ./refmerge
module nri-scope/interop

go 1.24.3

require (
	github.com/containerd/nri v0.10.0
	github.com/containerd/ttrpc v1.2.7
	github.com/sirupsen/logrus v1.9.4
	google.golang.org/protobuf v1.34.1
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/containerd/log v0.1.0 // indirect
	github.com/knqyf263/go-plugin v0.9.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/opencontainers/runtime-spec v1.1.0 // indirect
	github.com/tetratelabs/wazero v1.11.0 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.39.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240528184218-531527333157 // indirect
	google.golang.org/grpc v1.65.1 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
