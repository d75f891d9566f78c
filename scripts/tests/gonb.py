"""The library in a plain GoNB kernel: cells that open the session, name an
array, and read it from the next process; and the same notebook in both kernels.
Prints "passed failed skipped"."""
import sys, unittest

from jupyter_client.manager import start_new_kernel

ROOT = sys.argv.pop(1)
SETUP = (f"!*go mod edit -replace gaiden={ROOT} -require gaiden@v0.0.0 && cp {ROOT}/go.sum . && go mod edit -require github.com/gomlx/compute@v0.1.2 && "
         "GOFLAGS=-mod=mod go mod download github.com/gomlx/compute\n%goflags -mod=mod")
PUT = """import (
	"fmt"
	"gaiden/lib/session"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
%%
s := must(session.Open())
a := must(s.Put([]float32{1, 2, 3}, shapes.Make(dtypes.Float32, 3), 0))
if err := s.Bind([]string{"gonb"}, []*session.Array{a}); err != nil {
	panic(err)
}
fmt.Println("put")"""
GET = """%%
s := must(session.Open())
v := make([]float32, 3)
if err := must(s.Array("gonb")).Values(v); err != nil {
	panic(err)
}
fmt.Println(v)"""
# Cells in GoNB's style, and what each must print in both kernels.
STYLE = [
    ("import \"fmt\"\nfunc twice(n int) int { return 2 * n }", ""),
    ("%%\nfmt.Println(twice(21))", "42\n"),
    ("func twice(n int) int { return 2*n + 1 }\n%%\nfmt.Println(twice(21))", "43\n"),
    ("type P struct{ X, Y int }\nfunc (p P) Sum() int { return p.X + p.Y }", ""),
    ("%%\nfmt.Println(P{1, 2}.Sum())", "3\n"),
    ("var count = 5\nconst K = 3", ""),
    ("%%\nfmt.Println(count * K)", "15\n"),
    ("!echo shell", "shell\n"),
    ("import \"os\"\n%% a b\nfmt.Println(os.Args[1:])", "[a b]\n"),
]


class Both(unittest.TestCase):
    def cells(self, kernel, cells):
        km, kc = start_new_kernel(kernel_name=kernel, startup_timeout=60)
        try:
            out = []
            for code in cells:
                msgs = []
                reply = kc.execute_interactive(code, timeout=300, output_hook=msgs.append)
                self.assertEqual(reply["content"]["status"], "ok", (kernel, code, msgs))
                out.append("".join(m["content"]["text"] for m in msgs if m["msg_type"] == "stream" and m["content"]["name"] == "stdout"))
            return out
        finally:
            kc.stop_channels()
            km.shutdown_kernel(now=True)

    def test_library_in_gonb(self):
        self.assertEqual(self.cells("gonb", [SETUP, PUT, GET])[1:], ["put\n", "[1 2 3]\n"])

    def test_what_gonb_put_is_there_in_gaiden(self):
        self.cells("gonb", [SETUP, PUT])
        must = "func must[T any](v T, err error) T {\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\treturn v\n}"
        self.assertEqual(self.cells("gaiden", [must, GET])[1:], ["[1 2 3]\n"])

    def test_gonbs_style_in_both(self):
        for kernel in ("gonb", "gaiden"):
            self.assertEqual(self.cells(kernel, [c for c, _ in STYLE]), [w for _, w in STYLE], kernel)


suite = unittest.defaultTestLoader.loadTestsFromTestCase(Both)
result = unittest.TextTestRunner(verbosity=1, stream=sys.stderr).run(suite)
bad = len(result.failures) + len(result.errors)
print(result.testsRun - bad, bad, 0)
