package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/timing/units"
)

// tuneMain is gaiden tune.
func tuneMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("tune", "[-background]", stderr)
	background := f.Bool("background", false, "write to the log, and leave alone what has cost the session before: as Fit begins it")
	if err := parseAll(f, args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if *background {
		log, err := openLog(filepath.Join(wire.StateDir(), "tune.log"))
		if err != nil {
			return err
		}
		defer log.Close()
		stdout = log
	}
	tell := func(line string) {
		if *background {
			line = time.Now().Format(time.DateTime) + " " + line
		}
		fmt.Fprintln(stdout, line)
	}
	done, err := fit.RunTuneRequests(ctx, *background, tell)
	switch {
	case *background && errors.Is(err, wire.Busy):
		return nil // which does what this one would
	case *background && err != nil:
		tell(err.Error()) // the next training begins another
		return nil
	case err != nil:
		return err
	case done == 0 && !*background:
		fmt.Fprintln(stdout, "nothing waits: a net's training on a GPU leaves what is to be found out about its kernels")
	case done > 0:
		tell(fmt.Sprintf("%s: all that waited", units.Plural(done, "net")))
	}
	return nil
}
