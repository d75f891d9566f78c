"""Counts the tests in the outputs of go test -json, of which a later one says
what became of the tests that it repeats; prints what failed to standard error,
what was skipped with its reason, and "passed failed skipped" to standard output,
with a pattern of the failed tests behind it, if all tests have run. The names of what
failed, and what it said first, go to the end of the file that FAILED names, too."""
import collections, json, os, sys

out, state, built = collections.defaultdict(list), {}, {}
for line in (l for name in sys.argv[2:] for l in open(name, encoding="utf-8", errors="replace")):
    try:
        e = json.loads(line)
    except ValueError:
        continue
    key = (e.get("Package") or e.get("ImportPath"), e.get("Test"))
    if e.get("Action") in ("run", "start"):
        out[key] = []
    if e.get("Action") in ("output", "build-output"):
        out[key].append(e["Output"])
    elif e.get("Action") in ("pass", "fail", "skip"):
        state[key] = e["Action"]
    elif e.get("Action") == "build-fail":
        built[key[0]] = False

def failed(title, lines):
    """Prints what failed, and notes its first words."""
    print(f"--- {title}\n" + "".join(lines), file=sys.stderr)
    said = [l.strip() for l in lines if l.strip() and not l.startswith(("=== ", "--- "))]
    with open(os.environ["FAILED"], "a") as f:
        f.write(f"{title}: {(said or ['no output'])[0][:300]}\n")


# A parent that passed because its children did is not a test of its own.
parents = {(p, t.rsplit("/", 1)[0]) for p, t in state if t and "/" in t}
count = collections.Counter()
for (package, test), action in sorted(state.items(), key=str):
    if test is None:
        if action == "fail" and not any(p == package and t and a == "fail" for (p, t), a in state.items()):
            count["fail"] += 1
            failed(f"FAIL {package}", out[(package, None)][-60:])
        continue
    if (package, test) in parents and action != "fail":
        continue
    if (package, test) in parents and any(p == package and t and t.startswith(test + "/") and a == "fail" for (p, t), a in state.items()):
        continue
    count[action] += 1
    if action == "fail":
        failed(f"FAIL {package} {test}", out[(package, test)][-80:])
    elif action == "skip":
        why = [l.strip() for l in out[(package, test)] if l.strip() and not l.startswith(("=== ", "--- "))]
        print(f"skipped {test}: {' '.join(why)[-200:]}", file=sys.stderr)
for package in built:
    count["fail"] += 1
    failed(f"BUILD FAILED {package}", out[(package, None)][-60:])
err = open(sys.argv[1]).read().strip()
if err:
    print(err[-4000:], file=sys.stderr)
if not state:
    count["fail"] += 1
    print("no test ran", file=sys.stderr)
again = {t.split("/")[0] for (_, t), action in state.items() if t and action == "fail"}
if any(t is None and action == "fail" and "FAIL\n" not in out[(p, t)] for (p, t), action in state.items()):
    again = {}  # a panic or a limit on time has ended the tests before the last
print(count["pass"], count["fail"], count["skip"], *(["^(%s)$" % "|".join(sorted(again))] if again else []))
