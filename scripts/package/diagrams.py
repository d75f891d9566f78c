"""Draws the diagrams of the pages: boxes and arrows as SVG, next to the pages.

    python diagrams.py [DIR]       default: notebooks/pages
"""
import math, sys
from html import escape
from pathlib import Path

BOLD = ' font-weight="600"', ''
FILL = {"you": "#e8f1fb", "session": "#e9f6ec", "disk": "#fdf3e1", "plain": "#f5f5f5"}


class Diagram:
    def __init__(self, name, width, height):
        self.name, self.width, self.height, self.parts = name, width, height, []

    def box(self, x, y, w, h, text, kind="plain", align="middle"):
        """A box; the first line of its text is bold."""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{FILL[kind]}" stroke="#57606a"/>')
        lines = text.split("\n")
        at = x + (w / 2 if align == "middle" else 10)
        top = y + (h - 18 * len(lines)) / 2 + 14 if align == "middle" else y + 22
        for i, line in enumerate(lines):
            self.parts.append(f'<text x="{at}" y="{top + 18 * i}" text-anchor="{align}"{BOLD[i > 0]}>{escape(line)}</text>')

    def arrow(self, x1, y1, x2, y2, text="", dx=0, dy=-6):
        turn = math.atan2(y2 - y1, x2 - x1)
        head = " ".join(f"{x2 - 9 * math.cos(turn + s):.1f},{y2 - 9 * math.sin(turn + s):.1f}" for s in (0.4, -0.4))
        self.parts.append(f'<path d="M{x1} {y1}L{x2} {y2}" stroke="#57606a"/><polygon points="{x2},{y2} {head}" fill="#57606a"/>')
        if text:
            self.parts.append(f'<text x="{(x1 + x2) / 2 + dx}" y="{(y1 + y2) / 2 + dy}" text-anchor="middle" font-size="12">{escape(text)}</text>')

    def write(self, folder):
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" font-family="system-ui, sans-serif" font-size="14" fill="#1f2328">'
        back = f'<rect width="{self.width}" height="{self.height}" fill="#fff"/>'
        (folder / f"{self.name}.svg").write_text("\n".join([head, back, *self.parts, "</svg>"]) + "\n")


def session():
    d = Diagram("concepts-session", 760, 250)
    d.box(20, 30, 150, 60, "notebook\nJupyter", "you")
    d.box(230, 30, 150, 60, "kernel\none per notebook", "you")
    for i, cell in enumerate(("cell 1", "cell 2", "cell 3")):
        d.box(160 + 100 * i, 150, 85, 60, f"{cell}\n{'ended' if i < 2 else 'runs'}", "you")
        d.arrow(280 + 30 * i, 90, 202 + 100 * i, 150)
    d.arrow(170, 60, 230, 60)
    d.box(520, 30, 220, 190, "session, one per user\n\nweights  net/c1/weights\ndata  train\ncompiled programs\n\nowns the GPU or CPU", "session")
    d.arrow(445, 180, 520, 150, "socket")
    return d


def programs():
    d = Diagram("concepts-programs", 860, 230)
    d.box(20, 30, 140, 80, "definitions\nnet, loss,\noptimizer", "you")
    d.box(20, 140, 140, 60, "target\ndevice, memory")
    d.box(210, 70, 130, 70, "plan\nnet.Plan prints it")
    d.arrow(160, 70, 210, 95)
    d.arrow(160, 170, 210, 120)
    d.box(390, 70, 130, 70, "StableHLO text\none epoch")
    d.arrow(340, 105, 390, 105)
    d.box(585, 30, 110, 60, "XLA\ncompiles", "session")
    d.arrow(520, 90, 585, 65, "new text", -5, -6)
    d.box(585, 140, 110, 60, "cache\nmemory, disk", "disk")
    d.arrow(520, 120, 585, 165, "known text", -16, 22)
    d.arrow(640, 90, 640, 140)
    d.box(755, 70, 90, 70, "device\nruns it", "session")
    d.arrow(695, 160, 755, 115)
    return d


def jobs():
    d = Diagram("concepts-jobs", 760, 240)
    d.box(20, 30, 130, 60, "cell\nnet.FitJob(…)", "you")
    d.box(20, 150, 140, 60, "a later cell\njob.Follow, %jobs", "you")
    d.box(230, 20, 510, 90, "session: the job runs, whether or not a cell runs\n\n\n", "session")
    for i in range(5):
        d.box(250 + 96 * i, 62, 80, 36, f"chunk {i + 1}")
    d.arrow(150, 60, 230, 60, "starts")
    d.arrow(160, 175, 372, 112, "follows, pauses, stops: between two chunks", 110, 14)
    d.box(480, 160, 260, 50, "snapshot after each epoch", "disk")
    d.arrow(610, 110, 610, 160)
    return d


def snapshots():
    d = Diagram("concepts-snapshots", 800, 230)
    d.box(20, 40, 130, 60, "cell\nchanges arrays", "you")
    d.box(200, 40, 150, 60, "session\narrays on the device", "session")
    d.arrow(150, 70, 200, 70)
    d.box(440, 40, 170, 60, "automatic snapshot\nthe newest three", "disk")
    d.arrow(350, 70, 440, 70, "after 2 s")
    d.box(440, 140, 160, 60, "named snapshot\nuntil you delete it", "disk")
    d.arrow(330, 100, 440, 165, "%snapshot NAME", -30, 18)
    d.box(670, 40, 110, 60, "crash,\nrestart")
    d.arrow(670, 60, 610, 60)
    d.parts.append('<path d="M520 40V18H285" stroke="#57606a" fill="none"/>')
    d.arrow(285, 18, 285, 40, "restored by itself, or by %rollback", 125, 4)
    return d


def architecture():
    d = Diagram("architecture", 900, 560)
    rows = [("programs", "kernels/gaiden: kernel, session, tools, magics · kernels/bench: benchmarks", "you"),
            ("kernel", "kernels/internal: jupyter · cell (parse, build, keep, complete, process) · notebook · magic · runner · webpage · linker", "you"),
            ("show", "lib/report: tables, plots, progress · lib/profile: phases, layers, roofline · lib/search", "plain"),
            ("train", "lib/fit: Fit, jobs, predict, tune · fit/step · fit/phases · fit/statedict · fit/result", "plain"),
            ("decide how", "lib/lower: target · lower/plan · lower/xla: forms of layers · lib/fused and engine/triton/kernels: fused operations", "plain"),
            ("define what", "lib/models · losses · optim · metrics · activations · elementwise · gradient · data · datasets (no device)", "plain"),
            ("client", "lib/session: arrays, programs, snapshots, jobs", "session"),
            ("engine", "lib/engine: wire (protocol) · device (server) · hlo, triton (texts) · pjrt (XLA plugin) · safetensors · … · lib/timing · lib/sysinfo", "session")]
    for i, (name, text, kind) in enumerate(rows):
        d.box(20, 20 + 50 * i, 860, 42, "", kind)
        d.parts.append(f'<text x="34" y="{46 + 50 * i}" font-weight="600">{name}</text><text x="130" y="{46 + 50 * i}" font-size="12">{escape(text)}</text>')
    d.parts.append('<text x="450" y="438" text-anchor="middle" font-size="12">A package imports packages of its own row and of lower ones. lib/layout_test.go lists each edge, with its reason.</text>')
    for i, (name, kind) in enumerate((("batch", "you"), ("lowering\nshapes only", "plain"), ("training loop", "plain"), ("session", "session"), ("device", "session"))):
        d.box(40 + 172 * i, 470, 130, 60, name, kind)
        if i:
            d.arrow(40 + 172 * i - 42, 490, 40 + 172 * i, 490)
            d.arrow(40 + 172 * i, 512, 40 + 172 * i - 42, 512)
    d.parts.append('<text x="450" y="552" text-anchor="middle" font-size="12">A batch goes to the device, and its loss comes back, by one way.</text>')
    return d


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "notebooks/pages"
    for draw in session, programs, jobs, snapshots, architecture:
        draw().write(folder)
