// How soon a cell that shows its progress is live again in JupyterLab: after the page was
// loaded again, after its kernel restarted, after its connection was cut. The same by IPython,
// one after the other in one browser: what both wait for is JupyterLab's. scripts/test reload
// runs it.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { startLab } from "./lab.mjs";

const { chromium } = createRequire(import.meta.url)(process.env.PLAYWRIGHT);
const args = { rounds: "20" };
for (let i = 2; i < process.argv.length; i += 2) args[process.argv[i].slice(2)] = process.argv[i + 1];

const kernels = {
  "Gaiden, a job": ["gaiden", "%jobs attach live", `net := fit.New("live", models.MLP(16), fit.Config{Seed: 1})
images := must(datasets.Synthetic(1, 1000, 28, 28, 1))
net.FitJob(must(net.Upload("train", images.Train.Data())), fit.Train{Epochs: 1_000_000, Batch: 10})`],
  "Gaiden, a cell": ["gaiden", `bar := report.Progress{Title: "steps"}
for i := 0; ; i++ {
	bar.Set(i, "")
	time.Sleep(100 * time.Millisecond)
}`],
  "IPython, a cell": ["python3", `import itertools, time
from IPython.display import HTML, display
bar = display(HTML("steps 0"), display_id=True)
for i in itertools.count():
    bar.update(HTML(f"steps {i}"))
    time.sleep(0.1)`],
};

const { lab, address, token, cut } = await startLab(args);
const browser = await chromium.launch({ executablePath: args.chromium, headless: true, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
page.setDefaultTimeout(60_000);
const cell = page.locator(".jp-Notebook:visible .jp-CodeCell").first();
const text = async () => (await cell.locator(".jp-OutputArea-output").allInnerTexts()).join();
const until = async (test) => {
  for (const end = Date.now() + 60_000; !(await test()); await page.waitForTimeout(10)) if (Date.now() > end) throw new Error(`waited in vain for ${test}; the cell shows ${await text()}`);
};
const moves = async () => {
  const was = await text();
  await until(async () => (await text()) !== was);
};
const ready = () => until(async () => /\| (Idle|Busy)/.test(await page.locator("#jp-main-statusbar").innerText()));
const open = async (name) => {
  await page.goto(`${address}/lab/tree/${name}.ipynb?reset&token=${token}`);
  await cell.waitFor();
  await ready();
};
const press = async () => {
  await cell.locator(".cm-content").click();
  await page.keyboard.press("Shift+Enter");
};
const twice = async (key) => { // a command of the notebook: i interrupts, 0 restarts
  await cell.locator(".jp-InputPrompt").click();
  await page.keyboard.press(key);
  await page.keyboard.press(key);
};
const start = async () => { // until it shows something, and that moves
  await press();
  await until(async () => (await cell.locator(".jp-InputPrompt").innerText()).includes("*") && (await text()) !== "");
  await moves();
};

const took = {};
const note = (kernel, what, ms) => ((took[what] ??= {})[kernel] ??= []).push(ms);
for (const [i, [kernel, [name, code, before]]] of Object.entries(kernels).entries()) {
  fs.writeFileSync(path.join(args.work, "lab", "notebooks", `${i}.ipynb`), JSON.stringify({
    cells: [code, ...(before ? [before] : [])].map((source, n) => ({ cell_type: "code", id: `cell-${n}`, execution_count: null, metadata: {}, outputs: [], source })),
    metadata: { kernelspec: { name, display_name: kernel } }, nbformat: 4, nbformat_minor: 5,
  }));
  await open(i);
  if (before) {
    await page.locator(".jp-Notebook:visible .jp-CodeCell").nth(1).locator(".cm-content").click();
    await page.keyboard.press("Shift+Enter");
    await until(async () => (await page.locator(".jp-Notebook:visible .jp-CodeCell").nth(1).innerText()).includes("job live"));
  }
}
for (let round = 0; round < Number(args.rounds); round++) {
  for (const [i, kernel] of Object.keys(kernels).entries()) {
    let began = Date.now();
    const lap = (what) => { note(kernel, what, Date.now() - began); began = Date.now(); };
    await open(i);
    lap("page loaded again: until the kernel is there");
    await start();
    lap("then the cell run again: until it moves");
    cut();
    began = Date.now();
    await moves();
    lap("connection cut: until it moves");
    await twice("i");
    await until(async () => !(await cell.locator(".jp-InputPrompt").innerText()).includes("*"));
    await twice("0");
    await page.locator(".jp-Dialog .jp-mod-accept").click();
    began = Date.now();
    await page.waitForTimeout(50);
    await until(async () => /\| Idle/.test(await page.locator("#jp-main-statusbar").innerText()));
    lap("kernel restarted: until it is there");
    await start();
    lap("then the cell run: until it moves");
    await twice("i");
    await until(async () => !(await cell.locator(".jp-InputPrompt").innerText()).includes("*"));
  }
}
console.log(`ms: middle (a quarter below, a quarter above), most of ${args.rounds} rounds`);
for (const [what, all] of Object.entries(took)) {
  console.log(what);
  for (const [kernel, l] of Object.entries(all)) {
    l.sort((a, b) => a - b);
    const at = (share) => l[Math.min(l.length - 1, Math.floor(share * l.length))];
    console.log(`  ${kernel.padEnd(16)} ${at(0.5)} (${at(0.25)}, ${at(0.75)}), ${l.at(-1)}`);
  }
}
await browser.close();
lab.kill("SIGTERM");
process.exit(0);
