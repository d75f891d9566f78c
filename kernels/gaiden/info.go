package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/sysinfo"
)

// info is what gaiden info prints, and its JSON.
type info struct {
	Version string
	Machine sysinfo.Info
	Plugin  string
	Session *wire.Status `json:",omitempty"`
	Dirs    map[string]string
	Problem string `json:",omitempty"`
}

func infoMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("info", "[-json]", stderr)
	asJSON := f.Bool("json", false, "print JSON")
	if err := parse(f, args); err != nil {
		return err
	}
	i := info{Version: session.Version, Machine: sysinfo.Read(context.Background()), Dirs: map[string]string{"runtime": wire.RuntimeDir(), "cache": wire.CacheDir(), "state": wire.StateDir(), "data": wire.DataDir()}}
	if p, err := device.Find(); err != nil {
		i.Problem = fmt.Sprintf("%v; %s", err, hintOf(err))
	} else {
		i.Plugin = p.Path
	}
	if s, err := connect(); err == nil {
		i.Session, _ = s.Status()
		s.Close()
	}
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(i)
	}
	fmt.Fprintf(stdout, "gaiden      %s\n%s\n", i.Version, i.Machine)
	if i.Problem != "" {
		fmt.Fprintf(stdout, "plugin      %s\n", i.Problem)
	} else {
		fmt.Fprintf(stdout, "plugin      %s\n", i.Plugin)
	}
	if i.Session == nil {
		fmt.Fprintln(stdout, "session     not running; the first cell starts it, or gaiden session start")
	} else {
		fmt.Fprintf(stdout, "session     running, generation %d, %d devices, %d arrays (%.1f MB), %d programs\n", i.Session.Generation, len(i.Session.Devices), i.Session.Arrays, float64(i.Session.Bytes)/1e6, i.Session.Programs)
	}
	for _, k := range []string{"runtime", "cache", "state", "data"} {
		fmt.Fprintf(stdout, "%-11s %s\n", k, i.Dirs[k])
	}
	return nil
}
