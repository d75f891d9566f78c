package toolserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gaiden/kernels/internal/notebook"
	"gaiden/lib/session"
	"gaiden/notebooks/pages"
)

// A Server serves one notebook to one client. Notebook is set before Run.
type Server struct {
	Notebook *notebook.Notebook
	Library  string // source tree of the library, whose documentation is shown
	Version  string

	busy    chan struct{} // held by the action that runs
	history history
}

const instructions = `Gaiden runs deep learning in Go. run_cell runs a cell of a notebook: statements and declarations of Go, without package clause; imports are added by themselves; must(f()) stops the cell where f returns an error; the value of the last expression is shown. Variables and declarations stay for later cells. Nets, data sets and arrays live in the device session under names, and stay when this server ends.
Read first: read_manual without a page lists the pages; quick-start.md has whole examples. describe shows the documentation of a package or name, such as fit or fit.Train.
Every action has a number, and undo takes it back: arrays, variables and declarations become what they were before it. Files that a cell writes stay.`

// Run serves until the client has gone or ctx ends, and stops the cell that runs.
func (s *Server) Run(ctx context.Context, t mcp.Transport) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.busy = make(chan struct{}, 1)
	if err := s.history.open(s.Notebook); err != nil {
		return fmt.Errorf("gaiden mcp: %w", err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "gaiden", Title: "Gaiden", Version: s.Version}, &mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{}})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler { // Run waits for calls: they end with ctx
		return func(call context.Context, method string, req mcp.Request) (mcp.Result, error) {
			call, cancel := context.WithCancel(call)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return next(call, method, req)
		}
	})
	s.addCells(server)
	s.addArrays(server)
	s.addUndo(server)
	s.addManual(server)
	err := server.Run(ctx, t)
	cancel()
	s.busy <- struct{}{} // the last action has ended
	s.history.close()
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// exclusive runs f when no other action runs.
func (s *Server) exclusive(ctx context.Context, f func() error) error {
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.busy }()
	return f()
}

// device runs f with a connection to the session, which is started where none runs.
func device(f func(*session.Session) error) error {
	c, err := session.Config{Client: "mcp"}.Open()
	if err != nil {
		return withHint(err)
	}
	defer c.Close()
	return withHint(f(c))
}

// withHint puts what an error says to do next into its text.
func withHint(err error) error {
	var h interface{ Hint() string }
	if errors.As(err, &h) && strings.TrimSpace(h.Hint()) != "" {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(h.Hint()))
	}
	return err
}

// addTool offers a tool that answers with text.
func addTool[In any](server *mcp.Server, name string, does *mcp.ToolAnnotations, description string, answer func(context.Context, In) (string, error)) {
	mcp.AddTool(server, &mcp.Tool{Name: name, Annotations: does, Description: description},
		func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			said, err := answer(ctx, in)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil, err
		})
}

// reads and changes annotate tools that only look and those that act.
func reads() *mcp.ToolAnnotations {
	no := false
	return &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
}

func changes() *mcp.ToolAnnotations {
	yes := true
	return &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes}
}

// manualURI is the whole manual; a page's name follows it for a page.
const manualURI = "gaiden://manual"

type manualIn struct {
	Page string `json:"page,omitempty" jsonschema:"name of a page, such as training.md; empty lists the pages"`
}

// addManual offers the manual as resources, and as a tool for clients whose models
// see no resources.
func (s *Server) addManual(server *mcp.Server) {
	offer := func(name, uri, title string, read func() (string, error)) {
		server.AddResource(&mcp.Resource{Name: name, Title: title, URI: uri, MIMEType: "text/markdown"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			t, err := read()
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/markdown", Text: t}}}, err
		})
	}
	offer("llms-full.txt", manualURI, "Gaiden's whole manual", func() (string, error) { return pages.Manual(), nil })
	for _, name := range pages.Names {
		page, _ := pages.Page(name)
		offer(name, manualURI+"/"+name, pages.Title(page), func() (string, error) { return page, nil })
	}
	addTool(server, "read_manual", reads(), "Shows a page of Gaiden's manual as Markdown, or lists the pages. Changes nothing.", func(_ context.Context, in manualIn) (string, error) {
		if in.Page != "" {
			return pages.Page(in.Page)
		}
		var b strings.Builder
		for _, name := range pages.Names {
			page, _ := pages.Page(name)
			fmt.Fprintf(&b, "%s: %s\n", name, pages.Title(page))
		}
		return b.String(), nil
	})
}
