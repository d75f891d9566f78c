package jupyter

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// parentCheck is how often Run looks whether its parent still lives.
const parentCheck = time.Second

// Options of a kernel. The zero Options are a good choice.
type Options struct {
	// History is the file that keeps the cells that were run; its directory is
	// made. Several kernels may share it. Empty keeps them in memory.
	History string

	// WithParent ends the kernel when the process that started it has ended,
	// so that a killed Jupyter leaves no kernel behind.
	WithParent bool

	// Ready is called when the sockets are bound, with the ports chosen where
	// the connection file has 0.
	Ready func(Connection)

	// Log gets what goes wrong without anyone being told: dropped messages,
	// panics of the interpreter. Nil discards it.
	Log *slog.Logger
}

// Run serves the kernel that the connection file describes until a
// shutdown_request, for which it returns nil, or until ctx ends, for which it
// returns ctx's cause. Before that it returns *ConnectionError or *ListenError
// if it cannot begin. While it runs, SIGINT interrupts the running cell instead
// of ending the process.
func Run(ctx context.Context, connectionFile string, interpreter Interpreter, opts Options) error {
	connection, err := ReadConnection(connectionFile)
	if err != nil {
		return err
	}
	return Serve(ctx, connection, interpreter, opts)
}

// Serve is Run for a connection that is known.
func Serve(ctx context.Context, connection Connection, interpreter Interpreter, opts Options) error {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h, err := openHistory(opts.History, historySize)
	if err != nil {
		log.Warn("history is kept in memory only", "error", err)
	}
	server := &Server{Log: log}
	c, err := newCore(ctx, interpreter, server, h, log)
	if err != nil {
		return err
	}
	defer c.end()
	if err := server.Listen(connection); err != nil {
		return err
	}
	if opts.Ready != nil {
		opts.Ready(server.Connection())
	}

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT)
	defer signal.Stop(signals)
	go c.watch(signals, opts.WithParent)

	c.serve()
	return context.Cause(ctx)
}

// watch turns SIGINT into an interrupt, and the end of the parent into the end
// of the kernel.
func (c *core) watch(signals <-chan os.Signal, withParent bool) {
	parent := os.Getppid()
	check := time.NewTicker(parentCheck)
	defer check.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-signals:
			c.interrupt()
		case <-check.C:
			if withParent && os.Getppid() != parent {
				c.log.Warn("jupyter: the process that started the kernel has ended")
				c.end()
			}
		}
	}
}
