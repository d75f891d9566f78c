package sysinfo

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// The modules that a figure depends on, in the order they are shown.
var modules = []string{"github.com/gomlx/gomlx", "github.com/gomlx/compute", "github.com/gomlx/go-xla", "github.com/janpfeifer/gonb"}

// Versions are the versions that this program was built with.
type Versions struct {
	Go      string   `json:"go"`                // "go1.26.5"
	Main    Module   `json:"main"`              // the program itself
	Modules []Module `json:"modules,omitempty"` // the linked modules of GoMLX and GoNB
}

// A Module is one version of a Go module.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version"` // "v0.28.2"; "(devel)" for a source tree
}

// ReadVersions returns the versions that the linker recorded in this program.
func ReadVersions() Versions {
	info, _ := debug.ReadBuildInfo() // nil where the linker wrote nothing
	return readVersions(info)
}

func readVersions(info *debug.BuildInfo) Versions {
	v := Versions{Go: runtime.Version()}
	if info == nil {
		return v
	}
	v.Main = Module{Path: info.Main.Path, Version: info.Main.Version}
	for _, m := range info.Deps {
		if slices.Contains(modules, m.Path) {
			version := m.Version
			if m.Replace != nil && m.Replace.Version != "" {
				version = m.Replace.Version
			}
			v.Modules = append(v.Modules, Module{Path: m.Path, Version: version})
		}
	}
	slices.SortFunc(v.Modules, func(a, b Module) int {
		return slices.Index(modules, a.Path) - slices.Index(modules, b.Path)
	})
	return v
}

// String returns one line: "go1.26.5, gomlx v0.28.2, compute v0.1.2".
func (v Versions) String() string {
	parts := []string{v.Go}
	for _, m := range v.Modules {
		parts = append(parts, m.Path[strings.LastIndex(m.Path, "/")+1:]+" "+m.Version)
	}
	return strings.Join(parts, ", ")
}
