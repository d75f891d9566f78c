"""Copies the modules that the library needs into a module cache that needs no
network: their Go files, without tests, examples and data. The go command takes
them as it would whole ones: their sums are in the cache, of the whole ones.

    python modules.py SOURCE_WITH_GO_MOD CACHE
"""
import json, os, shutil, subprocess, sys
from pathlib import Path

source, cache = Path(sys.argv[1]), Path(sys.argv[2])


def go(*args):
    return subprocess.run(["go", *args], cwd=source, check=True, capture_output=True, text=True).stdout


def objects(text):
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        while text[at].isspace():
            at += 1
        value, at = decoder.raw_decode(text, at)
        yield value


def escaped(path):
    """A path as the cache spells it: capitals become ! and a small letter."""
    return "".join("!" + c.lower() if c.isupper() else c for c in path)


def wanted(path, rel):
    parts = rel.parts
    if any(p in ("testdata", "examples", "docs", ".git", "node_modules") for p in parts[:-1]):
        return False
    if rel.name.endswith("_test.go"):
        return False
    # Besides Go and assembly, small files may be embedded.
    return rel.suffix in (".go", ".s", ".h", ".mod") or rel.name.startswith("LICENSE") or path.stat().st_size < 32_000


def main():
    here = Path(go("env", "GOMODCACHE").strip())
    needed = {line for line in go("list", "-deps", "-f", "{{with .Module}}{{.Path}}@{{.Version}}{{end}}", "./...").split()}
    for m in objects(go("mod", "download", "-json")):
        if m.get("Error"):
            sys.exit(f"modules.py: {m['Path']}: {m['Error']}")
        store = cache / "cache" / "download" / escaped(m["Path"]) / "@v"
        store.mkdir(parents=True, exist_ok=True)
        version = escaped(m["Version"])
        origin = here / "cache" / "download" / escaped(m["Path"]) / "@v"
        for suffix in ("info", "mod", "ziphash"):
            shutil.copy(origin / f"{version}.{suffix}", store)
        # The archive is asked for and, with its sum beside it, not opened.
        (store / f"{version}.zip").touch()
        to = cache / f"{escaped(m['Path'])}@{version}"
        to.mkdir(parents=True)
        if f"{m['Path']}@{m['Version']}" not in needed:
            continue
        origin = Path(m["Dir"])
        for path in origin.rglob("*"):
            rel = path.relative_to(origin)
            if path.is_file() and wanted(path, rel):
                (to / rel).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, to / rel)
    # Versions that were considered and not chosen are known by their go.mod.
    for m in objects(go("list", "-m", "-json", "all")):
        origin = here / "cache" / "download" / escaped(m["Path"]) / "@v"
        store = cache / "cache" / "download" / escaped(m["Path"]) / "@v"
        for f in origin.glob("*.mod") if origin.exists() else ():
            store.mkdir(parents=True, exist_ok=True)
            for name in (f.name, f.stem + ".info"):
                if (origin / name).exists() and not (store / name).exists():
                    shutil.copy(origin / name, store)


main()
