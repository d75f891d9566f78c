package main

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"

	"gaiden/kernels/internal/cell/build"
)

// checkSettings looks at Go's settings, from the environment and from "go env -w":
// cells are compiled with them.
func checkSettings(ctx context.Context, path string) (out []finding) {
	text, err := said(ctx, "", []string{"GOTOOLCHAIN=local"}, path, "env", "-changed", "-json")
	if err != nil {
		return nil // a Go that does not know -changed
	}
	changed, err := build.ChangedSettings([]byte(text))
	if err != nil {
		return nil
	}
	var all map[string]string
	json.Unmarshal([]byte(text), &all) // it has just been read
	if level := all["GOAMD64"]; runtime.GOARCH == "amd64" && level != "" {
		const do = "unset GOAMD64, and go env -u GOAMD64"
		switch has := amd64Level(); {
		case !slices.Contains([]string{"v1", "v2", "v3", "v4"}, level):
			out = append(out, bad(do, "GOAMD64=%s: want v1, v2, v3 or v4", level))
		case level > has:
			out = append(out, bad(do, "GOAMD64=%s, but this machine's processor has %s: no cell can run", level, has))
		}
	}
	if flags := all["GOFLAGS"]; strings.TrimSpace(strings.ReplaceAll(flags, "-buildvcs=false", "")) != "" {
		out = append(out, worse("%goflags in a cell gives flags to go build", "GOFLAGS=%s is not used for cells", flags))
	}
	if len(out) == 0 && len(changed) > 0 {
		out = append(out, good("cells are compiled with %s", strings.Join(changed, ", ")))
	}
	return out
}

// amd64Level is the highest value of GOAMD64 whose programs run on this machine.
func amd64Level() string {
	x := cpu.X86
	switch {
	case !(x.HasCX16 && x.HasPOPCNT && x.HasSSE3 && x.HasSSSE3 && x.HasSSE41 && x.HasSSE42):
		return "v1"
	case !(x.HasAVX && x.HasAVX2 && x.HasBMI1 && x.HasBMI2 && x.HasFMA && x.HasOSXSAVE):
		return "v2"
	case !(x.HasAVX512F && x.HasAVX512BW && x.HasAVX512CD && x.HasAVX512DQ && x.HasAVX512VL):
		return "v3"
	}
	return "v4"
}
