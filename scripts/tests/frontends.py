"""Front ends other than JupyterLab, with the installed kernel "gaiden": nbclient,
papermill with parameters, jupyter console (with the magics that measure),
jupyter kernelspec. Prints "passed failed skipped"."""
import importlib.util, json, os, re, signal, subprocess, sys, time, unittest

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = sys.argv.pop(1)


def notebook(*cells):
    nb = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "gaiden", "display_name": "Go (Gaiden)", "language": "go"}})
    nb.cells = [c if isinstance(c, dict) else nbformat.v4.new_code_cell(c) for c in cells]
    return nb


def text(cell):
    return "".join(o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in cell["outputs"])


class FrontEnds(unittest.TestCase):
    def test_nbclient(self):
        raw, words = nbformat.v4.new_raw_cell("not Go"), nbformat.v4.new_markdown_cell("# words")
        nb = notebook("x := 20", raw, words, "x + 1", 'fmt.Println("after")')
        NotebookClient(nb, timeout=120).execute()
        self.assertEqual([text(nb.cells[i]) for i in (0, 3, 4)], ["", "21", "after\n"])
        self.assertEqual(nb.metadata.language_info.name, "go")
        self.assertEqual((nb.metadata.language_info.file_extension, nb.metadata.language_info.mimetype), (".go", "text/x-go"))

    def test_nbclient_stops_at_an_error(self):
        nb = notebook("1 + 1", 'panic("on purpose")', '"not reached"')
        with self.assertRaises(CellExecutionError) as failed:
            NotebookClient(nb, timeout=120).execute()
        self.assertIn("on purpose", str(failed.exception))
        self.assertEqual(text(nb.cells[2]), "")

    def test_cell_of_another_language(self):
        """A cell in Python is an error at its line; the next cell runs."""
        nb = notebook("def f(x):\n    return x", "1 + 1")
        NotebookClient(nb, timeout=120, allow_errors=True).execute()
        errors = [o for o in nb.cells[0].outputs if o.output_type == "error"]
        self.assertEqual(len(errors), 1)
        self.assertIn("def f(x):", "\n".join(errors[0].traceback))
        self.assertEqual(text(nb.cells[1]), "2")

    @unittest.skipUnless(importlib.util.find_spec("papermill"), "papermill is missing: pip install papermill")
    def test_papermill(self):
        parameters = nbformat.v4.new_code_cell('rate, name := 0.1, "none"\nlayers := []int{1}', metadata={"tags": ["parameters"]})
        nb = notebook(parameters, 'fmt.Printf("%.2f %s %v %v", rate/2, name, layers, deep)')
        nbformat.write(nb, "in.ipynb")
        with open("parameters.yaml", "w") as f:
            json.dump({"rate": 1.0, "name": 'ä "quoted"\n', "layers": [784, 10], "deep": {"on": True, "none": None}}, f)
        done = subprocess.run([sys.executable, f"{ROOT}/scripts/papermill_go.py", "in.ipynb", "out.ipynb", "-f", "parameters.yaml", "--no-progress-bar"],
                              capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("unknown parameter: deep", done.stderr)  # which the cell with the defaults lacks
        for known in "rate", "name", "layers":
            self.assertNotIn(f"unknown parameter: {known}", done.stderr)
        out = nbformat.read("out.ipynb", 4)
        self.assertEqual(out.cells[1].metadata.tags, ["injected-parameters"])
        self.assertEqual(text(out.cells[2]), '0.50 ä "quoted"\n [784 10] map[none:<nil> on:true]')

    def test_stopped_runner(self):
        """Ctrl-C in scripts/notebook.py: the cell stops, and what ran is in the copy and its page."""
        nbformat.write(notebook('fmt.Println("kept")', f'fmt.Println("begun")\nos.WriteFile("{os.getcwd()}/begun", nil, 0o600)\nfor {{ time.Sleep(time.Second) }}', '"not reached"'), "long.ipynb")
        nbformat.write(notebook('"nor this"'), "second.ipynb")
        with open("log", "w+") as log:
            p = subprocess.Popen([sys.executable, f"{ROOT}/scripts/notebook.py", "--out", "stopped", "long.ipynb", "second.ipynb"], stdout=log, stderr=subprocess.STDOUT)
            try:
                for _ in range(600):
                    if os.path.exists("begun"):
                        break
                    time.sleep(0.1)
                p.send_signal(signal.SIGINT)
                self.assertEqual(p.wait(timeout=30), 128 + signal.SIGINT)
            finally:
                p.kill()
            log.seek(0)
            said = log.read()
        self.assertIn("stopped by SIGINT", said)
        self.assertNotIn("Traceback", said)
        nb = nbformat.read("stopped/long.ipynb", 4)
        self.assertEqual([text(c) for c in nb.cells], ["kept\n", "begun\n", ""])
        self.assertIn("begun", open("stopped/long.html").read())
        self.assertFalse(os.path.exists("stopped/second.ipynb"))

    @unittest.skipUnless(importlib.util.find_spec("jupyter_console"), "jupyter console is missing: pip install jupyter_console")
    def test_console(self):
        done = subprocess.run([sys.executable, "-m", "jupyter_console", "--kernel", "gaiden", "--simple-prompt"], input="x := 20\nx + 1\nexit\n",
                              capture_output=True, text=True, timeout=180)
        self.assertRegex(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout), r"Out\[\d+\]: 21", done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("jupyter_console"), "jupyter console is missing: pip install jupyter_console")
    def test_magics_in_a_terminal(self):
        """The magics that measure, of one line each: as text they say the same."""
        cells = [c for c in nbformat.read(f"{ROOT}/scripts/tests/magics.ipynb", 4).cells if "\n" not in c.source]
        self.assertGreater(len(cells), 9)
        done = subprocess.run([sys.executable, "-m", "jupyter_console", "--kernel", "gaiden", "--simple-prompt"],
                              input="".join(c.source + "\n" for c in cells) + "exit\n", capture_output=True, text=True, timeout=180)
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        for c in cells:
            self.assertTrue(re.search(c.metadata.want, said), f"{c.source}: want {c.metadata.want!r}, got {said}")
        self.assertNotIn("Traceback", said)

    def test_kernelspec(self):
        tool = [sys.executable, "-m", "jupyter_client.kernelspecapp"]
        listed = json.loads(subprocess.run([*tool, "list", "--json"], capture_output=True, text=True, check=True).stdout)["kernelspecs"]
        self.assertEqual(listed["gaiden"]["spec"]["interrupt_mode"], "message")
        bin = listed["gaiden"]["spec"]["argv"][0]
        # Another version beside it, of which Jupyter's own tool leaves nothing.
        subprocess.run([bin, "install", "-name", "gaiden-other"], check=True, capture_output=True)
        nb = notebook("1 + 1")
        nb.metadata.kernelspec.name = "gaiden-other"
        NotebookClient(nb, timeout=120, kernel_name="gaiden-other").execute()
        self.assertEqual(text(nb.cells[0]), "2")
        listed = json.loads(subprocess.run([*tool, "list", "--json"], capture_output=True, text=True, check=True).stdout)["kernelspecs"]
        where = listed["gaiden-other"]["resource_dir"]
        subprocess.run([*tool, "remove", "-f", "gaiden-other"], check=True, capture_output=True)
        self.assertFalse(os.path.exists(where))
        self.assertTrue(os.path.exists(bin))


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(verbosity=1, stream=sys.stderr).run(suite)
    for test, why in result.skipped:
        print(f"skipped {test}: {why}", file=sys.stderr)
    bad = len(result.failures) + len(result.errors)
    print(result.testsRun - bad - len(result.skipped), bad, len(result.skipped))


main()
