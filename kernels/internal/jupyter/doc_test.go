package jupyter_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"gaiden/kernels/internal/jupyter"
)

// What follows up to TestDoc is the example in doc.go.

type echo struct{}

func (echo) Execute(ctx context.Context, req jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
	out.Stream("stdout", []byte(req.Code+"\n"))
	return jupyter.ExecuteResult{}
}
func (echo) Complete(context.Context, string, int) jupyter.Completion { return jupyter.Completion{} }
func (echo) Inspect(context.Context, string, int, int) jupyter.Inspection {
	return jupyter.Inspection{}
}
func (echo) IsComplete(string) jupyter.Completeness { return jupyter.Completeness{Status: "complete"} }
func (echo) Info() jupyter.LanguageInfo             { return jupyter.LanguageInfo{Implementation: "echo"} }
func (echo) Shutdown(restart bool)                  {}

// TestDoc holds the example in doc.go and the code above together.
func TestDoc(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("doc_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(code), "doc.go.\n\n")
	example, _, _ = strings.Cut(example, "\n// TestDoc")
	var want strings.Builder
	for _, line := range strings.SplitAfter(example, "\n") {
		switch line {
		case "":
		case "\n":
			want.WriteString("//\n")
		default:
			want.WriteString("//\t" + line)
		}
	}
	if !strings.Contains(string(doc), want.String()) {
		t.Errorf("doc.go does not have the example\n%s", want.String())
	}
	var _ jupyter.Interpreter = echo{}
}
