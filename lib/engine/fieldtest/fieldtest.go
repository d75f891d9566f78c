// Package fieldtest tries every number of structs of settings, in tests.
package fieldtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Numbers gives each number in the settings, which are structs that are right as they are,
// values that mean nothing, and wants refuse to return an error that names the field. A
// field of free ("Config.Seed") may be any number. Each exported struct of the package in
// the working directory that has numbers is one of settings, or in results: a new setting
// cannot be forgotten.
func Numbers(t *testing.T, settings []any, free, results []string, refuse func(setting any) error) {
	t.Helper()
	known := slices.Clone(results)
	for _, s := range settings {
		base := reflect.ValueOf(s)
		known = append(known, base.Type().Name())
		if err := refuse(s); err != nil {
			t.Errorf("%T: got %v, want no error", s, err)
		}
		for i := range base.NumField() {
			f := base.Type().Field(i)
			name := base.Type().Name() + "." + f.Name
			for _, bad := range senseless(f.Type) {
				if !f.IsExported() || slices.Contains(free, name) {
					continue
				}
				v := reflect.New(base.Type()).Elem()
				v.Set(base)
				v.Field(i).Set(bad)
				err := refuse(v.Interface())
				if err == nil || !strings.Contains(plain(err.Error()), plain(f.Name)) {
					t.Errorf("%s is %v: got %v, want an error that names it", name, bad, err)
				}
			}
		}
	}
	for _, name := range structsWithNumbers(t) {
		if !slices.Contains(known, name) {
			t.Errorf("%s has numbers: want it among the settings that are tried, or the results", name)
		}
	}
}

// senseless are values of a type that mean nothing as a setting.
func senseless(t reflect.Type) (l []reflect.Value) {
	switch {
	case t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32:
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
			l = append(l, reflect.ValueOf(x).Convert(t))
		}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64:
		l = append(l, reflect.ValueOf(-1).Convert(t), reflect.ValueOf(math.MinInt32).Convert(t))
	}
	return l
}

// plain is a text without what a name and the words for it differ in.
func plain(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "")) }

// structsWithNumbers are the exported structs of the package in the working directory
// that have exported fields of numbers.
func structsWithNumbers(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	var trees []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, failed := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		trees, err = append(trees, tree), errors.Join(err, failed)
	}
	if err != nil || len(trees) == 0 {
		t.Fatalf("no source to read: %v", err)
	}
	numbers := map[string]bool{}
	for _, n := range []string{"float64", "float32", "int", "int32", "int64", "time.Duration"} {
		numbers[n] = true
	}
	each := func(f func(name string, of ast.Expr)) {
		for _, tree := range trees {
			ast.Inspect(tree, func(n ast.Node) bool {
				if spec, is := n.(*ast.TypeSpec); is && spec.Name.IsExported() {
					f(spec.Name.Name, spec.Type)
				}
				return true
			})
		}
	}
	each(func(name string, of ast.Expr) { numbers[name] = numbers[text(of)] })
	each(func(name string, of ast.Expr) {
		s, is := of.(*ast.StructType)
		if is && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
			return numbers[text(f.Type)] && len(f.Names) > 0 && f.Names[0].IsExported()
		}) {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	return names
}

func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return fmt.Sprint(e.X, ".", e.Sel)
	}
	return ""
}
