package parse

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// A Parameter is a variable or constant of a cell whose value somebody may replace
// before the notebook runs.
type Parameter struct {
	Name string
	kind token.Token // VAR, CONST, or DEFINE for :=
	typ  string      // as it is declared, or that of its literal; "" = that of the value
	text bool        // its value is text
}

// Parameters returns what a cell declares with a value of its own, in order. The error
// is Parse's.
func Parameters(src Source) ([]Parameter, error) {
	u, err := Parse(src)
	if err != nil {
		return nil, err
	}
	decls, body := u.Divide()
	var all []Parameter
	add := func(kind token.Token, name, typ, value ast.Expr) {
		id, is := name.(*ast.Ident)
		if !is || id.Name == "_" {
			return
		}
		p := Parameter{Name: id.Name, kind: kind}
		if literal, is := ast.Unparen(value).(*ast.BasicLit); is {
			p.typ = map[token.Token]string{token.INT: "int", token.FLOAT: "float64", token.IMAG: "complex128", token.CHAR: "rune", token.STRING: "string"}[literal.Kind]
			p.text = literal.Kind == token.STRING
		} else if sign, is := ast.Unparen(value).(*ast.UnaryExpr); is {
			if literal, is := sign.X.(*ast.BasicLit); is {
				p.typ = map[token.Token]string{token.INT: "int", token.FLOAT: "float64"}[literal.Kind]
			}
		}
		if id, is := typ.(*ast.Ident); is {
			p.typ, p.text = id.Name, p.text || id.Name == "string"
		} else if typ != nil || kind == token.CONST {
			p.typ = "" // a value of another type names it; a constant without a type stays one
		}
		all = append(all, p)
	}
	for _, text := range []string{"package p;" + decls, "package p;func _(){" + body + "\n}"} {
		file, _ := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution) // Parse has found no error
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, is := spec.(*ast.ValueSpec); is && len(spec.Values) == len(spec.Names) {
						for i, name := range spec.Names {
							add(d.Tok, name, spec.Type, spec.Values[i])
						}
					}
				}
			case *ast.FuncDecl:
				if d.Name.Name != "_" || d.Body == nil {
					continue
				}
				for _, s := range d.Body.List {
					if a, is := s.(*ast.AssignStmt); is && a.Tok == token.DEFINE && len(a.Lhs) == len(a.Rhs) {
						for i, name := range a.Lhs {
							add(token.DEFINE, name, nil, a.Rhs[i])
						}
					}
				}
			}
		}
	}
	return all, nil
}

// Set returns Go code that gives the parameter a value: an expression of Go, or text as
// it is where the parameter is text.
func (p Parameter) Set(value string) (string, error) {
	if p.text {
		value = strconv.Quote(value)
	} else if _, err := parser.ParseExpr(value); err != nil {
		return "", fmt.Errorf("parameter %s: got %.80q, want a value of Go such as 3, 0.1, true or []int{1, 2}", p.Name, value)
	}
	if p.kind == token.DEFINE {
		return p.Name + " = " + value, nil
	}
	return strings.Join(strings.Fields(p.kind.String()+" "+p.Name+" "+p.typ), " ") + " = " + value, nil
}
