package parse

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// parseDecls reads the cell's declarations from text, which is the cell with
// its statements blanked.
func (u *Unit) parseDecls(text string) []Diagnostic {
	const prefix = "package p\n" // a line of its own, or a comment behind it would be lost
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", prefix+text, parser.ParseComments)
	if err != nil {
		return u.syntax(err, len(prefix))
	}
	r := declReader{unit: u, file: file, text: text,
		offset: func(p token.Pos) int { return fset.PositionFor(p, false).Offset - len(prefix) }}
	var problems []Diagnostic
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if p := r.function(d); p != nil {
				problems = append(problems, *p)
			}
		case *ast.GenDecl:
			r.general(d)
		}
	}
	return problems
}

// A declReader makes Decls from the syntax tree of one cell.
type declReader struct {
	unit   *Unit
	file   *ast.File
	text   string
	offset func(token.Pos) int
}

func (r *declReader) function(d *ast.FuncDecl) *Diagnostic {
	u := r.unit
	name := d.Name.Name
	kind := Func
	if d.Recv != nil && len(d.Recv.List) > 0 {
		base := receiver(d.Recv.List[0].Type)
		if base == "" {
			line, column := Place(u.Text, r.offset(d.Recv.Pos()))
			p := u.at(line, column, "receiver of method "+name+" names no type", "")
			return &p
		}
		kind, name = Method, base+"."+name
	}
	from := d.Pos()
	if d.Doc != nil {
		from = d.Doc.Pos()
	}
	decl := r.decl(kind, d, from, d.End(), []string{name}, []token.Pos{d.Name.Pos()})
	if kind == Func && name == "main" {
		u.OwnMain = decl
		return nil
	}
	u.add(decl)
	return nil
}

func receiver(t ast.Expr) string {
	for {
		switch x := t.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		default:
			return ""
		}
	}
}

func (r *declReader) general(d *ast.GenDecl) {
	u := r.unit
	switch d.Tok {
	case token.IMPORT:
		for _, s := range d.Specs {
			spec := s.(*ast.ImportSpec)
			im := u.importOf(spec, r.offset(spec.Pos()))
			if doc := spec.Doc; doc != nil || d.Doc != nil {
				if doc == nil {
					doc = d.Doc
				}
				im.Doc = r.text[r.offset(doc.Pos()):r.offset(doc.End())]
			}
			u.Imports = append(u.Imports, im)
		}
	case token.TYPE:
		for _, s := range d.Specs {
			spec := s.(*ast.TypeSpec)
			u.add(r.decl(Type, spec, spec.Pos(), spec.End(), []string{spec.Name.Name}, []token.Pos{spec.Name.Pos()}))
		}
	case token.CONST:
		if counts(d) {
			var names []string
			var at []token.Pos
			for _, s := range d.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					names, at = append(names, n.Name), append(at, n.Pos())
				}
			}
			u.add(r.decl(Const, d, d.Specs[0].Pos(), d.Specs[len(d.Specs)-1].End(), names, at))
			return
		}
		r.values(Const, d)
	case token.VAR:
		r.values(Var, d)
	}
}

// values adds each spec of a var or const declaration on its own.
func (r *declReader) values(kind Kind, d *ast.GenDecl) {
	for _, s := range d.Specs {
		spec := s.(*ast.ValueSpec)
		var names []string
		var at []token.Pos
		for _, n := range spec.Names {
			names, at = append(names, n.Name), append(at, n.Pos())
		}
		from := spec.Pos()
		if doc := spec.Doc; doc != nil {
			from = doc.Pos() // //go:embed must stay with its variable
		} else if d.Doc != nil && !d.Lparen.IsValid() {
			from = d.Doc.Pos()
		}
		decl := r.decl(kind, spec, from, spec.End(), names, at)
		if from != spec.Pos() {
			// Between the comment and the spec stands the keyword, which Text leaves out.
			head := r.text[r.offset(from):r.offset(spec.Pos())]
			if i := strings.LastIndex(head, d.Tok.String()); i >= 0 && !d.Lparen.IsValid() {
				head = head[:i] + strings.Repeat(" ", len(d.Tok.String())) + head[i+len(d.Tok.String()):]
				decl.Text = head + decl.Text[len(head):]
			}
		}
		for _, v := range spec.Values {
			ast.Inspect(v, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncLit:
					return false
				case *ast.CallExpr:
					decl.Calls = true
				case *ast.UnaryExpr:
					decl.Calls = decl.Calls || n.Op == token.ARROW
				}
				return true
			})
		}
		u := r.unit
		u.add(decl)
	}
}

// counts reports whether the specs of a const group hang together: a spec
// without values repeats the one above, and iota is a spec's number.
func counts(d *ast.GenDecl) bool {
	for _, s := range d.Specs {
		spec := s.(*ast.ValueSpec)
		if len(spec.Values) == 0 {
			return true
		}
		for _, v := range spec.Values {
			found := false
			ast.Inspect(v, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				found = found || ok && id.Name == "iota"
				return !found
			})
			if found {
				return true
			}
		}
	}
	return false
}

func (r *declReader) decl(kind Kind, node ast.Node, from, to token.Pos, names []string, at []token.Pos) *Decl {
	start, end := r.offset(from), min(r.offset(to), len(r.text))
	d := &Decl{Kind: kind, Names: names, Cell: r.unit.ID, Text: r.text[start:end], Start: start, Source: r.unit.Text,
		Uses: map[string]bool{}, Quals: map[string][]string{}}
	d.Line, d.Column = Place(r.unit.Text, start)
	for _, p := range at {
		d.NameOffsets = append(d.NameOffsets, r.offset(p)-start)
	}
	collect(r.file, node, d.Uses, d.Quals)
	if kind == Func || kind == Method {
		d.Exits = exits(node, func(p token.Pos) int { return r.offset(p) - start })
	}
	return d
}

// add keeps a declaration; within one cell, too, the later one wins, except
// that the compiler is to complain about the same name twice in one cell.
func (u *Unit) add(d *Decl) { u.Decls = append(u.Decls, d) }

// collect gathers what node may refer to: in uses all names but those of its
// own local variables (a name too many does no harm: it only keeps a
// declaration in the program), and in quals the names that may be packages,
// with what is selected from them.
func collect(file *ast.File, node ast.Node, uses map[string]bool, quals map[string][]string) {
	unresolved := map[*ast.Ident]bool{}
	for _, id := range file.Unresolved {
		unresolved[id] = true
	}
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && unresolved[id] {
				quals[id.Name] = append(quals[id.Name], n.Sel.Name)
			}
			ast.Inspect(n.X, visit) // and not n.Sel: it is no name of this package
			return false
		case *ast.Ident:
			if n.Obj == nil || file.Scope.Lookup(n.Name) == n.Obj {
				uses[n.Name] = true
			}
		}
		return true
	}
	ast.Inspect(node, visit)
}
