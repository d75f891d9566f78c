package main

import (
	"context"
	"fmt"
	"html"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// sessionMagics are the magics that ask the session.
func sessionMagics() magic.Table {
	return magic.Table{
		{Name: "%info", Help: "machine, devices, versions", Run: func(_ context.Context, h magic.Host, _ magic.Command) error {
			return infoMain(nil, h.Stdout(), h.Stderr())
		}},
		{Name: "%session", Args: "[status|start|stop|reset]", Help: "the process that owns the devices; reset clears the device and keeps the kernel", Run: sessionMagic},
		{Name: "%arrays", Args: "[prefix]", Help: "the notebook's arrays on the device", Run: arraysMagic},
		{Name: "%programs", Help: "compiled programs in the session", Run: programsMagic},
	}
}

func sessionMagic(_ context.Context, h magic.Host, c magic.Command) error {
	args := c.Args
	if len(args) == 0 {
		args = []string{"status"}
	}
	switch args[0] {
	case "status", "start", "stop", "reset":
		return sessionMain(args, h.Stdout(), h.Stderr())
	}
	return magic.Usage(c)
}

// inNotebook connects to a session that runs, in the notebook's name space.
func inNotebook() (*session.Session, error) {
	return session.Config{Client: "kernel", NoStart: true}.Open()
}

// grid shows rows as text and as HTML; the first one is the head.
func grid(h magic.Host, rows [][]string) {
	var text, page strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	page.WriteString("<table>\n")
	for i, r := range rows {
		io.WriteString(t, strings.Join(r, "\t")+"\n")
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		page.WriteString("<tr>")
		for _, v := range r {
			fmt.Fprintf(&page, "<%s style=\"text-align:left\">%s</%s>", cell, html.EscapeString(v), cell)
		}
		page.WriteString("</tr>\n")
	}
	page.WriteString("</table>")
	t.Flush()
	h.Show(map[string]any{"text/plain": strings.TrimSuffix(text.String(), "\n"), "text/html": page.String()})
}

func arraysMagic(_ context.Context, h magic.Host, c magic.Command) error {
	if len(c.Args) > 1 {
		return magic.Usage(c)
	}
	s, err := inNotebook()
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := s.List(strings.Join(c.Args, ""))
	if err != nil {
		return err
	}
	if len(l) == 0 {
		fmt.Fprintf(h.Stdout(), "no arrays in notebook %q\n", s.Space())
		return nil
	}
	rows := [][]string{{"name", "type", "bytes", "device", "last use", "generation"}}
	total := int64(0)
	for _, a := range l {
		total += a.Bytes
		rows = append(rows, []string{a.Name, a.Type.String(), fmt.Sprint(a.Bytes), fmt.Sprint(a.Device), ago(a.Used), fmt.Sprint(a.Generation)})
	}
	rows = append(rows, []string{fmt.Sprintf("%d arrays", len(l)), "", fmt.Sprint(total), "", "", ""})
	grid(h, rows)
	return nil
}

func programsMagic(_ context.Context, h magic.Host, c magic.Command) error {
	s, err := inNotebook()
	if err != nil {
		return err
	}
	defer s.Close()
	ans, err := s.Ask(wire.AskBody{Verb: wire.Programs})
	if err != nil {
		return err
	}
	rows := [][]string{{"hash", "name", "from", "compile", "runs", "code bytes", "last use"}}
	for _, p := range ans.Programs {
		size := "?"
		if p.Bytes >= 0 {
			size = fmt.Sprint(p.Bytes)
		}
		rows = append(rows, []string{p.Hash, p.Name, p.From, p.Compile.Round(time.Millisecond / 10).String(), fmt.Sprint(p.Runs), size, ago(p.Used)})
	}
	if len(rows) == 1 {
		fmt.Fprintln(h.Stdout(), "no programs")
		return nil
	}
	grid(h, rows)
	return nil
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return time.Since(t).Round(time.Second).String() + " ago"
}
