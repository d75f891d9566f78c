"""Executes notebooks through Jupyter and their kernel, a line of progress per
cell, and writes each one's page beside the copy that ran. The notebooks
themselves are left as they are; --inplace writes the outputs into them. Ctrl-C
stops the cell that runs, and keeps what has run; twice, it ends the kernel, too.

    python notebook.py [--inplace] [--out DIR] NOTEBOOK...
"""
import argparse, asyncio, os, re, shutil, signal, subprocess, sys, time
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import NoSuchKernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat.reader import NotJSONError

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def gaiden():
    """The program that writes pages: the kernel's own."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    path = data / "gaiden" / "bin" / "gaiden"
    return path if path.exists() else shutil.which("gaiden") or sys.exit("gaiden is not installed: scripts/run setup does that")


def first_line(source):
    lines = [l for l in source.splitlines() if l.strip() and not l.startswith("%%")]
    return (lines[0] if lines else "")[:60]


class Client(NotebookClient):
    """Prints a line when a cell begins and its time when it ends. A signal
    interrupts the cell: nbclient's own way ends the kernel, and all outputs are lost."""

    stopped = None  # the signal

    def stop(self, number):
        again, self.stopped = self.stopped, number
        asyncio.ensure_future(self.km.shutdown_kernel(now=True) if again else self.km.interrupt_kernel())

    async def async_execute_cell(self, cell, index, **kw):
        for s in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(s, self.stop, s)
        if self.stopped:
            return cell
        if cell.cell_type != "code" or not cell.source.strip():
            return await super().async_execute_cell(cell, index, **kw)
        n = sum(1 for c in self.nb.cells[: index + 1] if c.cell_type == "code")
        total = sum(1 for c in self.nb.cells if c.cell_type == "code")
        print(f"  cell {n:2}/{total}  {first_line(cell.source):60}", end=" ", flush=True)
        t = time.time()
        try:
            return await super().async_execute_cell(cell, index, **kw)
        finally:
            print(f"{time.time() - t:6.1f} s", flush=True)


def run(path, out, inplace):
    try:
        nb = nbformat.read(path, as_version=4)
    except (OSError, NotJSONError, nbformat.ValidationError, ValueError, KeyError) as e:
        print(f"{path}: no notebook that can be read: {str(e)[:200]}", file=sys.stderr)
        return False
    os.environ["JPY_SESSION_NAME"] = str(path.resolve())
    print(f"{path}", flush=True)
    t, failed = time.time(), None
    client = Client(nb, timeout=None, kernel_name=nb.metadata.get("kernelspec", {}).get("name", "gaiden"),
                    resources={"metadata": {"path": str(path.parent)}})
    try:
        client.execute()
    except CellExecutionError as e:
        said = ["\n".join(o.traceback) for c in nb.cells for o in c.get("outputs", []) if o.output_type == "error"]
        failed = COLOURS.sub("", said[-1]) if said else f"{e.ename}: {e.evalue}"  # with its line, and what to do next
    except DeadKernelError as e:
        failed = str(e)
    except NoSuchKernel as e:
        sys.exit(f"{path}: Jupyter knows no kernel {e.name!r}: scripts/run setup installs it")
    if client.stopped:
        failed = f"stopped by {client.stopped.name}: what ran before is kept"
    if failed:
        print(f"  failed: {failed}", file=sys.stderr)
    ran = path if inplace else out / path.name
    try:
        out.mkdir(parents=True, exist_ok=True)
        new = ran.with_name(f".{ran.name}.new")  # a full disk leaves the file as it was
        try:
            new.write_text(nbformat.writes(nb) + "\n", encoding="utf-8")
            new.replace(ran)
        finally:
            new.unlink(missing_ok=True)
    except OSError as e:
        print(f"  {ran} cannot be written: {e.strerror}", file=sys.stderr)
        return False
    page = subprocess.run([gaiden(), "run", "-html", "-as-is", "-o", f"{out}/", ran], stdout=subprocess.PIPE, text=True)
    print(f"  {time.time() - t:.1f} s; HTML: {page.stdout.strip() or 'none'}", flush=True)
    if client.stopped:
        sys.exit(128 + client.stopped)
    return failed is None and page.returncode == 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--inplace", action="store_true")
    p.add_argument("--out", type=Path, default=Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gaiden" / "out")
    p.add_argument("notebooks", nargs="+", type=Path)
    a = p.parse_args()
    ok = all([run(n, a.out, a.inplace) for n in a.notebooks])
    if Path(__file__).with_name("run").exists():  # not in a bundle
        print("open JupyterLab with: scripts/run lab")
    sys.exit(0 if ok else 1)


main()
