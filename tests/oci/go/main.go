// SPDX-License-Identifier: Apache-2.0

// Command refspec applies adjustments to OCI specs with upstream's generator.
//
// It reads JSON values {"spec": a config.json, "adjust": a ContainerAdjustment in Base64} from
// stdin and answers each with a line: the adjusted spec, or {"error": why not}. A block I/O class
// becomes a weight of 7, an RDT class the CLOS of that name; CDI devices are not injected.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/runtime-tools/generate"
	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/proto"
)

type request struct {
	Spec   *rspec.Spec `json:"spec"`
	Adjust string      `json:"adjust"`
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := json.NewEncoder(os.Stdout)
	for {
		// As in every spec of a runtime; the generator takes these two for granted.
		req := request{Spec: &rspec.Spec{Process: &rspec.Process{}, Linux: &rspec.Linux{}}}
		if err := in.Decode(&req); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		var answer any = req.Spec
		if err := adjust(req.Spec, req.Adjust); err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
}

func adjust(spec *rspec.Spec, encoded string) error {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	adjustment := &nri.ContainerAdjustment{}
	if err := proto.Unmarshal(raw, adjustment); err != nil {
		return err
	}
	weight := uint16(7)
	return generate.SpecGenerator(
		&edits{spec},
		generate.WithRdtResolver(func(class string) (*rspec.LinuxIntelRdt, error) {
			return &rspec.LinuxIntelRdt{ClosID: class}, nil
		}),
		generate.WithBlockIOResolver(func(string) (*rspec.LinuxBlockIO, error) {
			return &rspec.LinuxBlockIO{Weight: &weight}, nil
		}),
	).Adjust(adjustment)
}
