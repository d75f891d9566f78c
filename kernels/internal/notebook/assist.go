package notebook

import (
	"cmp"
	"context"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/complete"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/jupyter"
)

// patience is how long a front end waits for documentation; what is not known
// by then is looked up in a simpler way.
const patience = 3 * time.Second

// tabPatience is the same for completion: JupyterLab drops what comes after a
// second.
const tabPatience = 600 * time.Millisecond

// goplsPatience is how long gopls may take to answer while nobody waits any
// more, or a cell does (NAME?): when it has just been started, it reads all
// packages first.
const goplsPatience = time.Minute

// candidates asks gopls, for as long as a front end waits. It continues without
// the front end, so that the next question finds it ready; while it does,
// others are not asked. Late says that gopls has not answered in time.
func (n *Notebook) candidates(ctx context.Context, s complete.Sketch, remembered string) (found []complete.Candidate, late bool) {
	if !n.asking.CompareAndSwap(false, true) {
		return nil, true
	}
	answer := make(chan []complete.Candidate, 1)
	go func() {
		defer n.asking.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goplsPatience)
		defer cancel()
		found, _ := n.gopls.Complete(ctx, s, remembered) // without gopls the names that are known must do
		answer <- found
	}()
	select {
	case found := <-answer:
		return found, false
	case <-time.After(tabPatience):
	case <-ctx.Done():
	}
	return nil, true
}

// loading are two candidates that say that gopls is still reading the packages: chosen,
// they change nothing. A front end inserts a single one without showing it.
func loading(word string) []complete.Candidate {
	return []complete.Candidate{
		{Text: word, Kind: "loading", Label: word + " … gopls is loading"},
		{Text: word, Kind: "loading", Label: word + " … press Tab again in a moment"},
	}
}

// byteOffset turns a cursor in code points into one in bytes.
func byteOffset(code string, cursor int) int {
	for i := range code {
		if cursor == 0 {
			return i
		}
		cursor--
	}
	return len(code)
}

// Complete lists what may stand at the cursor: in Go by gopls, or by the names
// that are known where there is no gopls, in quotes by Named, and in imports by the
// packages that there are; in magics their names and arguments; in shell commands files.
func (n *Notebook) Complete(ctx context.Context, code string, cursor int) jupyter.Completion {
	at := byteOffset(code, cursor)
	nothing := jupyter.Completion{Start: cursor, End: cursor}
	if n.open() != nil {
		return nothing
	}
	line := code[strings.LastIndexByte(code[:at], '\n')+1 : at]
	plain := strings.TrimPrefix(line, "//gonb:")
	switch {
	case strings.HasPrefix(plain, "%") && !strings.ContainsAny(plain, " \t"):
		return replaceBefore(code, at, plain, n.table().Complete(plain))
	}
	if word, matches := n.named(ctx, plain, code[:at]); len(matches) > 0 {
		return replaceBefore(code, at, word, matches)
	}
	switch {
	case strings.HasPrefix(plain, "!") && !n.isGo(code, at), strings.HasPrefix(plain, "%") && !n.inCode(plain):
		word := plain[strings.LastIndexAny(plain, " \t!='\"")+1:]
		if matches := n.arguments(plain, word); len(matches) > 0 {
			return replaceBefore(code, at, word, matches)
		}
		return replaceBefore(code, at, word, n.files(word))
	}
	if word, ok := importPath(code[:at]); ok {
		return replaceBefore(code, at, word, complete.Paths(ctx, n.module, word))
	}
	src, ok := n.goPart(code, at)
	if !ok {
		return nothing
	}
	sketch, remembered := complete.NewSketch(ctx, n.composer, src, at)
	candidates, late := n.candidates(ctx, sketch, remembered)
	if len(candidates) == 0 {
		names, known := complete.Names(ctx, n.composer, sketch)
		if known || !late {
			return replaceBefore(code, at, sketch.Word, names)
		}
		candidates = loading(sketch.Word)
	}
	var matches []string
	var types []any
	for _, c := range candidates {
		label := cmp.Or(c.Label, c.Text)
		if slices.Contains(matches, label) {
			continue
		}
		matches = append(matches, label)
		types = append(types, map[string]any{"text": c.Text, "type": c.Kind, "signature": c.Detail,
			"start": cursor - utf8.RuneCountInString(sketch.Word), "end": cursor})
	}
	out := replaceBefore(code, at, sketch.Word, matches)
	out.Metadata = map[string]any{"_jupyter_types_experimental": types}
	return out
}

// replaceBefore makes a completion that replaces the word before the cursor.
func replaceBefore(code string, at int, word string, matches []string) jupyter.Completion {
	end := utf8.RuneCountInString(code[:at])
	return jupyter.Completion{Matches: matches, Start: end - utf8.RuneCountInString(word), End: end}
}

// files lists the files whose names begin with word.
func (n *Notebook) files(word string) []string {
	dir, prefix := filepath.Split(word)
	entries, err := os.ReadDir(n.expand(dir + "."))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, prefix) || prefix == "" && name[0] == '.' {
			continue
		}
		if e.IsDir() {
			name += "/"
		}
		out = append(out, dir+name)
	}
	return out
}

// isGo reports whether the line at an offset is Go, although it begins as a command does.
func (n *Notebook) isGo(code string, at int) bool {
	plan, err := n.table().Parse(code)
	if err != nil {
		return false
	}
	lines, here := strings.Split(plan.Go, "\n"), strings.Count(code[:at], "\n")
	return here < len(lines) && lines[here] != ""
}

// goPart returns the Go code of a cell at the cursor at, ok false if it has none.
// What is not Go is blank there, so that every place stays what it is.
func (n *Notebook) goPart(code string, at int) (src parse.Source, ok bool) {
	plan, err := n.table().Parse(code)
	if err != nil {
		return src, false
	}
	typed, kept := strings.Split(code, "\n"), strings.Split(plan.Go, "\n")
	if len(plan.Commands) == 1 && plan.Commands[0].Body != "" {
		c := plan.Commands[0]
		if !c.Row.Code {
			return src, false
		}
		kept = slices.Concat(make([]string, c.Line), typed[c.Line:])
	}
	kept = append(kept, make([]string, len(typed)-len(kept))...)
	here := strings.Count(code[:at], "\n")
	for i, line := range typed {
		begins := n.codeBegins(line)
		if begins > 0 && (i == here || strings.HasPrefix(line, "%%")) {
			kept[i] = strings.Repeat(" ", begins) + line[begins:]
		} else if kept[i] == "" {
			kept[i] = strings.Repeat(" ", len(line))
		}
	}
	return parse.Source{Text: strings.Join(kept, "\n"), Main: plan.Main}, true
}

// codeBegins is where on the line of a magic the Go code begins that it is given,
// behind its options; 0 where there is none.
func (n *Notebook) codeBegins(line string) int {
	if !strings.HasPrefix(line, "%") {
		return 0
	}
	name, _, more := strings.Cut(line, " ")
	row := n.table().Find(name)
	if row == nil || !row.Code || !more {
		return 0
	}
	return len(withOptions.FindString(line))
}

// inCode says that a magic's line, up to the cursor, has come to its code.
func (n *Notebook) inCode(line string) bool {
	begins := n.codeBegins(line)
	return begins > 0 && !strings.HasPrefix(line[begins:], "-")
}

// withOptions is the beginning of such a line.
var withOptions = regexp.MustCompile(`^%+\w+\s+(?:-[a-z]+\s*\d*\s+)*`)

// Inspect describes what stands at the cursor.
func (n *Notebook) Inspect(ctx context.Context, code string, cursor, detail int) jupyter.Inspection {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return n.describe(ctx, code, cursor)
}

// describe is Inspect for those who wait as long as ctx does.
func (n *Notebook) describe(ctx context.Context, code string, cursor int) jupyter.Inspection {
	at := byteOffset(code, cursor)
	if n.open() != nil {
		return jupyter.Inspection{}
	}
	start := strings.LastIndexByte(code[:at], '\n') + 1
	line, _, _ := strings.Cut(code[start:], "\n")
	begins := n.codeBegins(line)
	if plain := strings.TrimPrefix(line, "//gonb:"); strings.HasPrefix(plain, "%") && (begins == 0 || at-start < begins) {
		name, _, _ := strings.Cut(plain, " ")
		if row := n.table().Find(name); row != nil {
			return jupyter.Inspection{Found: true, Data: map[string]any{"text/plain": row.String()}}
		}
		return jupyter.Inspection{}
	}
	src, ok := n.goPart(code, at)
	if !ok {
		return jupyter.Inspection{}
	}
	at = nameAt(code, at)
	sketch, remembered := complete.NewSketch(ctx, n.composer, src, at)
	if !sketch.Dotted {
		if path, ok := sketch.Package(ctx, n.composer, sketch.Word); ok {
			if text, err := n.module.Doc(ctx, path); err == nil {
				return jupyter.Inspection{Found: true, Data: map[string]any{"text/plain": text}}
			}
		}
	}
	if sketch.Column > 0 && sketch.Word != "" {
		sketch.Column--
	}
	text, late := n.documentation(ctx, sketch, remembered)
	if _, foreign := sketch.Package(ctx, n.composer, sketch.Qualifier); foreign {
		text = exported(text)
	}
	if text != "" {
		return jupyter.Inspection{Found: true, Data: map[string]any{"text/plain": unmark(text), "text/markdown": text}}
	}
	for _, e := range n.memory.Entries() {
		if e.Name == sketch.Word && sketch.Qualifier == "" {
			return jupyter.Inspection{Found: true, Data: map[string]any{"text/plain": e.Kind + " " + e.Text}}
		}
	}
	for _, b := range cell.Builtins {
		if b.Name == sketch.Word && sketch.Qualifier == "" {
			return jupyter.Inspection{Found: true, Data: map[string]any{"text/plain": b.Text}}
		}
	}
	if late && sketch.Word != "" {
		return jupyter.Inspection{Found: true, Data: map[string]any{"text/plain": "gopls is loading the packages: press Shift-Tab again in a moment"}}
	}
	return jupyter.Inspection{}
}

// documentation asks gopls, which continues when ctx has ended, and late is true: a gopls
// that is just starting is ready for the next question then.
func (n *Notebook) documentation(ctx context.Context, s complete.Sketch, remembered string) (text string, late bool) {
	answer := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goplsPatience)
		defer cancel()
		text, _ := n.gopls.Hover(ctx, s, remembered) // without gopls what is remembered must do
		answer <- text
	}()
	select {
	case text := <-answer:
		return text, false
	case <-ctx.Done():
		return "", true
	}
}

// private matches a field or method that a package does not export, in a type's text.
var private = regexp.MustCompile(`^\t[\p{Ll}_][\pL\pN_]*(?:[,( ]|$)`)

// exported is gopls's text about something of a package without what the package keeps
// to itself: fields, methods of interfaces, and their comments.
func exported(text string) string {
	var out, comments []string
	depth, dropped, hidden := 0, 0, false // dropped: the depth at which what is dropped ends; 0 = nothing is
	for line := range strings.SplitSeq(text, "\n") {
		at, trimmed := depth, strings.TrimSpace(line)
		code, _, _ := strings.Cut(line, "//")
		depth += strings.Count(code, "{") - strings.Count(code, "}")
		switch {
		case dropped > 0:
			if depth <= dropped {
				dropped = 0
			}
		case at == 1 && (trimmed == "" || strings.HasPrefix(trimmed, "//")):
			comments = append(comments, line)
		case at == 1 && private.MatchString(line):
			comments, hidden = nil, true
			if depth > at {
				dropped = at
			}
		case at == 1 && depth == 0 && hidden:
			out, comments, hidden = append(out, "\t// and what is not exported", line), nil, false
		default:
			out, comments = append(append(out, comments...), line), nil
		}
	}
	return strings.Join(append(out, comments...), "\n")
}

// nameAt returns the end of the name that a question at the cursor is about: the
// one that the cursor is in or behind, else that of the call or the literal around it.
func nameAt(code string, at int) int {
	end := at
	for end < len(code) && isName(code[end]) {
		end++
	}
	start := end
	for start > 0 && isName(code[start-1]) {
		start--
	}
	if start < end && (code[start] < '0' || code[start] > '9') {
		return end
	}
	depth := 0
	for i := start - 1; i > 0; i-- {
		switch code[i] {
		case ')', '}':
			depth++
		case '(', '{':
			if depth--; depth < 0 && isName(code[i-1]) {
				return i
			}
		}
	}
	return end
}

func isName(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// unmark takes the fences out of Markdown, for front ends that show plain text.
func unmark(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") || line == "---" {
			continue
		}
		out = append(out, line)
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

// IsComplete says whether the code can run as it is.
func (n *Notebook) IsComplete(code string) jupyter.Completeness {
	if strings.HasSuffix(strings.TrimRight(code, " \t"), "\\") {
		return jupyter.Completeness{Status: parse.Partial}
	}
	plan, err := n.table().Parse(code)
	if err != nil {
		return jupyter.Completeness{Status: parse.Broken}
	}
	state, indent := parse.Complete(parse.Source{Text: plan.Go, Main: plan.Main})
	return jupyter.Completeness{Status: state, Indent: indent}
}

func escape(s string) string { return html.EscapeString(s) }
