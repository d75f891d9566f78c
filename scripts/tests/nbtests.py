"""GoNB's own notebooks (examples/tests of its module) in this kernel, with what its
tests (internal/nbtests) want of each cell, and the differences with their reasons.
Prints "passed failed skipped"."""
import json, os, shutil, sys, tempfile
from pathlib import Path

from jupyter_client.manager import start_new_kernel

GONB = Path(sys.argv[1])

# Of each notebook, by the number of the cell: parts of its output, in this order.
WANT = {
    "bash_script": {1: ["hello"], 2: ["/cells"], 3: ["GONBDIR", "/cells", str(GONB)]},
    "capture": {2: ["Ping"], 4: ["Ping", "Pong"], 6: ["Ping", "Pong"], 8: ["# Ping", "# Pong"]},
    "errors": {1: ["Hello World"], 2: ["cell 2, line 2"], 3: ["Stuck in Switzerland", "cell[3]:8", "exit status 1"]},
    "functions": {3: ["incr: x=2, y=4.14"]},
    "goflags": {1: ['%goflags=["-cover"]'], 2: ['%goflags=["-cover"]'], 3: ["%goflags=[]"], 7: ["A\t\t100.0%", "B\t\t0.0%"],
                8: ["all declarations and values are forgotten"], 10: ["can inline (*Point).ManhattanLen", "p does not escape"]},
    "gonbui": {2: ["ok"], 3: ["%goworkfix is not needed"], 4: ["html displayed"], 5: ["markdown displayed"]},
    "gotest": {2: ["55", "2178309", "2178309"], 3: ["RUN   TestA", "Testing A", "PASS: TestA", "PASS"], 4: ["TestA"], 5: ["RUN   TestA", "Testing A", "PASS: TestA", "PASS"],
               6: ["PASS: TestB", "PASS: TestAB", "PASS"], 7: ["Testing A", "Testing B", "Testing AB", "PASS"],
               8: ["BenchmarkFibonacciA32", "BenchmarkFibonacciB32", "PASS"]},
    "gowork": {5: ["%goworkfix is not needed"], 7: ["%track is not needed"], 9: ["%untrack is not needed", "%track is not needed"]},
    "hello": {2: ["Hello World!"], 3: ["Works with //gonb:"], 4: ["Got x=17"], 5: ["Got x=13"]},
    "init": {2: ["init_a"], 3: ["init_a", "init_b"], 4: ["init: v0", "init_a", "init_b"], 5: ["init: v1", "init_a", "init_b"],
             6: ["removed func init_a", "removed func init_b"], 7: ["init: v1", "Done"]},
    "input_boxes": {2: ["ok"], 4: ["str=foo", "pass=bar"], 5: ["int=42", "secret=123456"]},
    "script": {1: ["1 : a", "2 : b", "3 : c"], 2: ["18"], 3: ["19"], 4: ["%%sh", "stands below the first line"]},
    "vartuple": {1: ["a=3, c=7"], 2: ["a", "c"], 3: ["c=1.5"], 4: ["removed var a"]},
    "writefile": {1: ['poetry.txt'], 2: ['poetry.txt']},
}

# What those tests want and this kernel does otherwise, and why.
DIFFERENCES = {
    "bash_script, cells 2 and 3": "the directory of the cells' module has another name than /tmp/gonb_…; GONB_JUPYTER_ROOT is not set: files are not served",
    "errors, cells 2 and 3": "places are written cell 2, line 2 and not Cell[2]: Line 2; in what a library prints of its stack they are cell[3]:8",
    "goflags, cell 8": "%reset says so in other words",
    "gonbui, cell 3; gowork, cells 5 to 9": "%goworkfix and %track are not needed, and say so: a go.work file next to go.mod is obeyed as it is",
    "gotest, cell 4": "%ls is a table of another form",
    "gotest, cells 6 and 7": "the tests run in the order in which they were typed, GoNB sorts them by name",
    "script, cell 4": "the error is worded otherwise",
    "vartuple, cell 4": "of var a, _, c a new c leaves a as it was; GoNB forgets the whole declaration, and %rm a finds none",
}

# What is not run here, and where it is looked at.
ELSEWHERE = {
    "comms": "wants a page: scripts/tests/browser.mjs and kernels/internal/notebook's TestWidgets do",
    "dom": "wants a page that runs JavaScript for gonbui/dom: browser.mjs",
    "widgets": "wants a page: browser.mjs",
    "wasm": "GoNB has disabled its own test; %wasm is refused by name",
}


def outputs(msgs):
    """All that a cell shows, as text."""
    text = ""
    for m in msgs:
        c = m["content"]
        if m["msg_type"] == "stream":
            text += c["text"]
        elif m["msg_type"] in ("display_data", "execute_result"):
            text += "\n".join(str(v) for v in c["data"].values()) + "\n"
        elif m["msg_type"] == "error":
            text += "\n".join(c["traceback"]) + "\n"
    return text


def problems(name, want):
    source = json.loads((GONB / f"examples/tests/{name}.ipynb").read_text(encoding="utf-8"))
    answers = iter(["foo", "bar", "42", "123456"])
    with tempfile.TemporaryDirectory() as work:
        env = os.environ | {"GONB_GIT_ROOT": str(GONB), "TEST_DIR": work + "/"}
        env.pop("GOFLAGS", None)
        km, kc = start_new_kernel(kernel_name="gaiden", startup_timeout=60, cwd=work, env=env)
        try:
            cells = ["".join(c["source"]) for c in source["cells"] if c["cell_type"] == "code"]
            for number, code in enumerate(cells, 1):
                msgs = []
                kc.execute_interactive(code, timeout=300, output_hook=msgs.append, allow_stdin=True, stop_on_error=False,
                                       stdin_hook=lambda m: kc.input(next(answers, "")))
                text = rest = outputs(msgs)
                for part in want.get(number, []):
                    part = part.replace("GONBDIR", work)
                    _, found, rest = rest.partition(part)
                    if not found:
                        yield f"{name}, cell {number}: got {text[-600:]!r}, want {part!r} in it"
                        break
        finally:
            kc.stop_channels()
            km.shutdown_kernel(now=True)


def main():
    found = {p.stem for p in (GONB / "examples/tests").glob("*.ipynb")}
    good = bad = 0
    for name in sorted(found - set(WANT) - set(ELSEWHERE)):
        print(f"gonb: {name} is new: say what it wants", file=sys.stderr)
        bad += 1
    for name in sorted(found & set(ELSEWHERE)):
        print(f"gonb: {name} is not run: {ELSEWHERE[name]}", file=sys.stderr)
    for name, want in WANT.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        wrong = list(problems(name, want))
        for p in wrong:
            print(f"gonb: {p}", file=sys.stderr)
        good, bad = good + (not wrong), bad + bool(wrong)
    for place, reason in DIFFERENCES.items():
        print(f"gonb: difference: {place}: {reason}", file=sys.stderr)
    print(good, bad, len(found & set(ELSEWHERE)))


main()
