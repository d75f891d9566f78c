// Package toolserver offers one notebook to programs that speak the Model Context
// Protocol, such as coding agents: as tools that run cells, train, measure, read
// arrays and undo, and as resources with the manual.
//
//	s := &toolserver.Server{Notebook: n, Library: source}
//	err := s.Run(ctx, &mcp.StdioTransport{})
//
// A call of a tool that may change something is an action with a number. Before
// each one the server notes the notebook's state (package notebook's Checkpoint)
// and takes a snapshot of its arrays in the session; undo restores both, and is an
// action itself. The newest ten actions can be undone. Files that a cell has
// written, and what it has sent over a network, cannot.
//
// Actions run one after another. A call that its client cancels is stopped as by
// Stop in a notebook; progress notifications have the last line of its output. A
// result has at most 30,000 characters and four images, and says what was cut.
//
// It refuses cells that ask for input: nobody is there to answer.
package toolserver
