package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/sysinfo"
	"gaiden/lib/timing/units"
)

// info is what gaiden info prints, and its JSON.
type info struct {
	Version      string            `json:"version"`
	Time         time.Time         `json:"time"`
	sysinfo.Info                   // machine, gpus, versions
	Plugin       string            `json:"plugin,omitempty"`
	Session      *wire.Status      `json:"session,omitempty"`
	Dirs         map[string]string `json:"directories"`
	Problem      string            `json:"problem,omitempty"`
}

func infoMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("info", "[-json]", stderr)
	asJSON := f.Bool("json", false, "print JSON")
	if err := parseAll(f, args); err != nil {
		return err
	}
	i := info{Version: session.Version, Time: time.Now().UTC().Truncate(time.Second), Info: sysinfo.Read(context.Background()), Dirs: map[string]string{"runtime": wire.RuntimeDir(), "cache": wire.CacheDir(), "state": wire.StateDir(), "data": wire.DataDir()}}
	if p, err := device.Find(); err != nil {
		i.Problem = fmt.Sprintf("%v; %s", err, hintOf(err))
	} else {
		i.Plugin = p.Path
	}
	none := "not running; the first cell starts it, or gaiden session start"
	if s, err := connect(); err == nil {
		i.Session, _ = s.Status()
		s.Close()
	} else if !errors.As(err, new(*session.DialError)) { // one is there
		none = fmt.Sprintf("%v; %s", err, hintOf(err))
	}
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(i)
	}
	fmt.Fprintf(stdout, "gaiden      %s, %s\n%s\n", i.Version, i.Time.Format("2006-01-02 15:04 UTC"), i.Info)
	if i.Problem != "" {
		fmt.Fprintf(stdout, "plugin      %s\n", i.Problem)
	} else {
		fmt.Fprintf(stdout, "plugin      %s\n", tilde(i.Plugin))
	}
	if i.Session == nil {
		fmt.Fprintf(stdout, "session     %s\n", none)
	} else {
		fmt.Fprintf(stdout, "session     running, generation %d, %s, %s (%s), %s\n", i.Session.Generation, units.Plural(len(i.Session.Devices), "device"), units.Plural(i.Session.Arrays, "array"), units.Bytes(float64(i.Session.Bytes)), units.Plural(i.Session.Programs, "program"))
	}
	for _, k := range []string{"runtime", "cache", "state", "data"} {
		fmt.Fprintf(stdout, "%-11s %s\n", k, tilde(i.Dirs[k]))
	}
	return nil
}

// tilde is a path as people write it: a notebook that is sent around does not tell whose
// home its folders are in.
func tilde(path string) string {
	home, err := os.UserHomeDir()
	if rest, inside := strings.CutPrefix(path, home+"/"); err == nil && inside && len(home) > 1 {
		return "~/" + rest
	}
	return path
}
