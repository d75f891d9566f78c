// The story of a notebook in JupyterLab, told by a real browser: launcher,
// typing, completion, running, a progress display that changes, widgets, Stop,
// restart, export, the magics that measure. Each step is a test; screenshots show what the user would have seen.
// Prints "passed failed skipped".
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { startLab } from "./lab.mjs";
import { live } from "./live.mjs";
import { newcomer } from "./newcomer.mjs";

const { chromium } = createRequire(import.meta.url)(process.env.PLAYWRIGHT);
const args = {};
for (let i = 2; i < process.argv.length; i += 2) args[process.argv[i].slice(2)] = process.argv[i + 1];
const say = (...text) => console.error(...text);

const { lab, address, token, cut } = await startLab(args);
const browser = await chromium.launchPersistentContext(path.join(args.work, "profile"), {
  executablePath: args.chromium, headless: true, acceptDownloads: true, viewport: { width: 1200, height: 900 },
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = browser.pages()[0] ?? (await browser.newPage());
page.setDefaultTimeout(30_000);

let shot = 0;
const picture = (name) => page.screenshot({ path: path.join(args.screenshots, `${String(++shot).padStart(2, "0")}-${name}.png`) });
const cells = () => page.locator(".jp-Notebook:visible .jp-CodeCell");
const output = (i) => cells().nth(i).locator(".jp-OutputArea-output");
const until = async (what, test, limit = 30_000) => {
  for (const end = Date.now() + limit; ; await page.waitForTimeout(50)) {
    const value = await test();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${limit} ms in vain for ${what}`);
  }
};
// shows waits for text below a cell; where it does not come, the error says what is there.
const below = async (i) => (await output(i).allInnerTexts()).join("\n");
const shows = (i, text, limit) => until(`${JSON.stringify(text)} below cell ${i}`, async () => (await below(i)).includes(text), limit).catch(async (late) => {
  throw new Error(`${late.message}; the cell is ${await cells().nth(i).locator(".jp-InputPrompt").innerText()} and shows ${JSON.stringify((await below(i)).slice(-2000))}`);
});

// write puts code into the last cell, as if it were pasted; returns its number.
async function write(code) {
  const i = (await cells().count()) - 1;
  await cells().nth(i).locator(".cm-content").click();
  await page.keyboard.insertText(code);
  return i;
}
const run = async () => page.keyboard.press("Shift+Enter");
// menu chooses an entry. An open menu closes when something else takes the focus, as it may at the end of a save
// on a busy machine; a user opens it again then.
async function menu(...names) {
  const entries = [page.locator(".lm-MenuBar-itemLabel", { hasText: new RegExp(`^${names[0]}$`) }),
    ...names.slice(1).map((name) => page.locator(".lm-Menu-itemLabel:visible", { hasText: name }).first())];
  await until(`the menu ${names.join(" > ")}`, async () => {
    for (const entry of entries) {
      if (await entry.click({ timeout: 5000 }).then(() => false, () => true)) {
        for (const _ of entries) await page.keyboard.press("Escape");
        return false;
      }
    }
    return true;
  }, 60_000);
}
const idle = () => page.locator('.jp-NotebookPanel:visible .jp-Notebook-ExecutionIndicator[data-status="idle"]').count();
// settled waits for a kernel that stays: JupyterLab sometimes starts one and at once another one in its place.
async function settled() {
  let was = "", since = Date.now();
  await until("the kernel to be idle, and to stay", async () => {
    const now = JSON.stringify((await (await page.request.get(`${address}/api/sessions?token=${token}`)).json()).map((s) => s.kernel.id));
    if (now !== was || !(await idle())) since = Date.now();
    was = now;
    return Date.now() - since > 1500;
  });
}
const accept = () => page.locator(".jp-Dialog .jp-mod-accept").click();

// notebook writes a notebook of code cells for JupyterLab to open.
const notebook = (name, cells) => fs.writeFileSync(path.join(args.work, "lab", "notebooks", name), JSON.stringify({
  cells: cells.map((source, i) => ({ cell_type: "code", id: `cell-${i}`, execution_count: null, metadata: {}, outputs: [], source })),
  metadata: { kernelspec: { name: "gaiden", display_name: "Go (Gaiden)", language: "go" } }, nbformat: 4, nbformat_minor: 5,
}));

const tools = { page, browser, address, token, cells, output, until, shows, menu, accept, idle, settled, picture, notebook, say, cut, ...args };
const story = [
  ["launcher", async () => {
    await page.goto(`${address}/lab?token=${token}&reset`);
    const card = page.locator(".jp-LauncherCard", { hasText: "Go (Gaiden)" }).first();
    await card.waitFor();
    await picture("launcher");
    await card.click();
    await cells().first().waitFor();
    await settled();
  }],
  ...(args.only !== "first net" ? [] : [["first net", async () => { // in a fresh environment: the group wheel
    const i = await write(`net := fit.New("first", models.MLP(8), fit.Config{Seed: 1})
images := must(datasets.Synthetic(1, 1000, 28, 28, 1))
must(net.Fit(must(net.Upload("train", images.Train.Data())), fit.Train{Epochs: 2, Batch: 10}))`);
    await run();
    await shows(i, "done: 2 epochs", 600_000);
    await shows(i, "main/accuracy");
    await picture("first-net");
  }]]),
  ["type and run", async () => {
    const i = (await cells().count()) - 1;
    await cells().nth(i).locator(".cm-content").click();
    await page.keyboard.type("x := 6");
    await run();
    const j = await write("x * 7");
    await run();
    await shows(j, "42");
    await picture("value");
  }],
  ["highlighting", async () => {
    const i = await write('// a comment\nfunc twice(s string) string { return s + s }\ntwice("ab")');
    await until("coloured tokens", async () => (await cells().nth(i).locator(".cm-line span").count()) > 3);
    await run();
    await shows(i, "abab");
  }],
  ["completion", async () => {
    const i = await write("strings.ToU");
    await page.keyboard.press("Tab");
    const item = page.locator(".jp-Completer:visible .jp-Completer-item", { hasText: "ToUpper" }).first();
    await item.waitFor();
    await picture("completion");
    await page.keyboard.press("Enter");
    await page.keyboard.type('("done")');
    await run();
    await shows(i, "DONE");
  }],
  ["documentation", async () => {
    const i = await write("fmt.Println");
    await page.keyboard.press("Shift+Tab");
    await until("the tooltip", async () => (await page.locator(".jp-Tooltip").allInnerTexts()).join("").includes("Println"));
    await picture("documentation");
    await page.keyboard.press("Escape");
    await cells().nth(i).locator(".cm-content").click();
    await page.keyboard.type('("ready")');
    await run();
    await shows(i, "ready");
  }],
  ["error", async () => {
    const i = await write("n := 1\nfmt.Println(nn)");
    await run();
    await shows(i, "undefined: nn");
    await picture("error");
    await cells().nth(i).locator(".cm-content").click();
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText("n := 1\nfmt.Println(n)");
    await run();
    await shows(i, "1");
  }],
  ["run all", async () => {
    await menu("Run", "Run All Cells");
    await until("every cell to be numbered", async () => {
      const prompts = await page.locator(".jp-Notebook:visible .jp-CodeCell .jp-InputPrompt").allInnerTexts();
      return prompts.length > 0 && prompts.filter((p) => p.includes("*")).length === 0 && prompts.filter((p) => /\[\d+\]/.test(p)).length >= prompts.length - 1;
    });
    await shows(1, "42");
    await picture("run-all");
  }],
  ["progress display", async () => {
    const i = await write('for i := range 40 {\n\tgonbui.UpdateHTML("bar", fmt.Sprintf("<progress max=39 value=%d></progress> step %d", i, i))\n\ttime.Sleep(100 * time.Millisecond)\n}');
    await run();
    const seen = new Set();
    await until("five different steps", async () => {
      const text = (await output(i).allInnerTexts()).join(" ").match(/step (\d+)/);
      if (text) seen.add(text[1]);
      return seen.size >= 5;
    });
    await picture("progress");
    await shows(i, "step 39");
    if ((await output(i).count()) !== 1) throw new Error(`got ${await output(i).count()} outputs, want one that changes`);
  }],
  ["widgets", async () => {
    const i = await write(`import "github.com/janpfeifer/gonb/gonbui/widgets"
%%
press := widgets.Button("Press me").Done().Listen()
slide := widgets.Slider(0, 100, 50).Done()
moved := slide.Listen()
fmt.Println("ready", slide.Value())
for v := 0; v < 100; {
	select {
	case c := <-press.C:
		fmt.Println("pressed", c)
		slide.SetValue(10 * c)
	case v = <-moved.C:
		fmt.Println("moved to", v)
	}
}`);
    await run();
    await shows(i, "ready 50");
    const button = page.locator("button", { hasText: "Press me" }), slider = page.locator('.jp-OutputArea input[type="range"]');
    for (const n of [1, 2]) {
      await button.click();
      await shows(i, `pressed ${n}`);
    }
    await until("the program to move the slider", async () => (await slider.inputValue()) === "20");
    await slider.focus();
    await page.keyboard.press("ArrowRight"); // JupyterLab would take it
    await shows(i, "moved to 21");
    const box = await slider.boundingBox();
    await page.mouse.move(box.x + box.width * 0.3, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width + 20, box.y + box.height / 2, { steps: 10 });
    await page.mouse.up();
    await shows(i, "moved to 100");
    await picture("widgets");
    await until("the kernel to be idle", idle);
  }],
  ["interact", async () => {
    const i = await write(`report.Interact(func(rate float64, steps int, kind string, on bool) string {
	return fmt.Sprintf("%.2f %d %s %t", rate, steps, kind, on)
}, report.Slider{Name: "rate", Max: 1, Value: 0.5}, report.Slider{Name: "steps", Min: 1, Max: 9, Value: 3}, report.Choice{Name: "kind", Options: []string{"left", "right"}}, report.Switch{Name: "on"})
fmt.Println("after")`);
    await run();
    await shows(i, "0.50 3 left false", 120_000);
    const controls = output(i).locator("[data-control]");
    await until("the line to the kernel", () => page.evaluate(() => globalThis.gonb_comm?.open() === true));
    await controls.nth(0).focus(); // by keys alone
    await page.keyboard.press("ArrowRight");
    await shows(i, "0.51 3 left false");
    await page.keyboard.press("Tab");
    await page.keyboard.press("End");
    await shows(i, "0.51 9 left false");
    await page.keyboard.press("Tab");
    await page.keyboard.press("ArrowDown");
    await shows(i, "0.51 9 right false");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Space");
    await shows(i, "0.51 9 right true");
    await picture("interact");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter"); // Done
    await shows(i, "after");
    if (await controls.count()) throw new Error("the controls stay when the cell has ended");
  }],
  ["debugger", async () => { // where Delve was there when the kernel was installed
    const bug = page.locator('.jp-DebuggerBugButton, [data-command="debugger:toggle"], jp-button[title*="ebug"], .jp-Toolbar [title*="ebugger"]').first();
    const spec = (await (await page.request.get(`${address}/api/kernelspecs?token=${token}`)).json()).kernelspecs;
    if (!Object.values(spec).some((k) => k.spec.language === "go" && k.spec.metadata.debugger)) return say("debugger: dlv is missing");
    const i = await write("func twice(x int) int {\n\ty := 2 * x\n\treturn y\n}\ntwice(21)");
    await bug.click();
    const gutter = cells().nth(i).locator(".cm-breakpoint-gutter .cm-gutterElement");
    await until("the gutter", () => gutter.count());
    await gutter.nth(3).click({ force: true });
    await until("the breakpoint", async () => (await page.locator(".jp-DebuggerBreakpoint").count()) > 0);
    await cells().nth(i).locator(".cm-content").click();
    await run();
    await until("the line to be marked", async () => (await page.locator(".jp-DebuggerEditor-highlight").allInnerTexts()).join("").includes("return y"), 120_000);
    await until("the variable", () => page.locator("#jp-debugger-sidebar, .jp-DebuggerSidebar, .jp-SidePanel").getByText("42", { exact: true }).count());
    await picture("debugger");
    await page.keyboard.press("F10"); // a step, out of the function
    await until("the line of the call", async () => (await page.locator(".jp-DebuggerEditor-highlight").allInnerTexts()).join("").includes("twice(21)"));
    await page.keyboard.press("F9");
    await shows(i, "42");
    await until("the notebook to be free", async () => (await page.locator(".jp-DebuggerPausedOverlay").count()) === 0);
    await bug.click();
    await page.locator(".jp-SideBar.jp-mod-right .lm-TabBar-tab.lm-mod-current").click(); // its panel takes room
  }],
  ["format", async () => {
    const i = await write("%fmt\nsum:=0 // of all\nfor i:=range 3{sum+=i}");
    await run();
    await until("the cell to be formatted", async () => (await cells().nth(i).locator(".cm-content").innerText()).includes("sum := 0 // of all\nfor i := range 3 {\n"));
  }],
  ["stop", async () => {
    const i = await write('fmt.Println("begun")\nfor {\n\ttime.Sleep(time.Millisecond)\n}');
    await run();
    await shows(i, "begun");
    const began = Date.now();
    await page.locator('[data-command="notebook:interrupt-kernel"], .jp-ToolbarButtonComponent[data-command="notebook:interrupt-kernel"]').first().click();
    await shows(i, "Interrupted", 5000);
    say(`stopped and shown after ${Date.now() - began} ms`);
    await picture("stopped");
    const j = await write("x");
    await run();
    await shows(j, "6");
  }],
  ["cut connections", async () => { // Jupyter Server loses what was on its way; the kernel sends it again
    const i = await write('for i := range 500 {\n\tfmt.Println("line", i)\n\ttime.Sleep(10 * time.Millisecond)\n}');
    await run();
    await shows(i, "line 20\n");
    for (let n = 0; n < 3; n++) {
      cut();
      await page.waitForTimeout(1000);
    }
    const want = Array.from({ length: 500 }, (_, n) => `line ${n}\n`).join("");
    await until("all lines, in order", async () => (await output(i).allInnerTexts()).join("") === want);
    await until("the kernel to be idle", idle);
  }],
  ["restart", async () => {
    await menu("Kernel", "Restart Kernel…");
    await accept();
    await until("the kernel to be idle", idle);
    const i = await write("x");
    await run();
    await shows(i, "undefined: x");
    await picture("restarted");
    await cells().nth(i).locator(".cm-content").click();
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText("1 + 1");
    await run();
    await shows(i, "2");
  }],
  ["closed tab", async () => {
    await write('time.Sleep(3 * time.Second)\nleft := "finished"');
    await run();
    let pressed = 0;
    await until("the notebook to be saved", async () => {
      if (Date.now() - pressed > 5_000) { // a save may be lost, as beside another one
        pressed = Date.now();
        await page.keyboard.press("Control+s");
      }
      return (await (await page.request.get(`${address}/api/contents/Untitled.ipynb?token=${token}`)).text()).includes("finished");
    });
    const count = await cells().count();
    await page.goto("about:blank");
    await new Promise((done) => setTimeout(done, 500));
    await page.goto(`${address}/lab/tree/Untitled.ipynb?token=${token}`);
    await until("all cells", async () => (await cells().count()) === count);
    await until("the kernel to be idle", idle);
    const i = await write("left");
    await run();
    await shows(i, "finished"); // the cell went on without its tab
    await cells().nth(1).evaluate((cell) => cell.scrollIntoView()); // JupyterLab draws what can be seen
    await shows(1, "42");
    await picture("reopened");
  }],
  ["export", async () => {
    await page.keyboard.press("Control+s");
    const download = browser.waitForEvent("page").then((tab) => tab.waitForEvent("download")).catch(() => null);
    const direct = page.waitForEvent("download").catch(() => null);
    await menu("File", "Save and Export Notebook As", "HTML");
    await accept();
    const file = await Promise.race([download, direct]);
    if (!file) throw new Error("nothing was downloaded");
    const name = path.join(args.screenshots, "notebook.html");
    await file.saveAs(name);
    const html = fs.readFileSync(name, "utf8");
    for (const want of ["42", "abab", "DONE", "step 39"]) {
      if (!html.includes(want)) throw new Error(`the page lacks ${want}`);
    }
    if (html.includes("gaiden_lines")) throw new Error("the page holds the script of the widgets' line");
    if (!/class="highlight.*"/.test(html)) throw new Error("the code is not highlighted");
  }],
  ["untrusted", async () => { // a stored notebook, as in a fresh clone, on a narrow dark page
    fs.copyFileSync(new URL("../../notebooks/00-start.ipynb", import.meta.url), path.join(args.work, "lab", "notebooks", "stored.ipynb"));
    await page.goto(`${address}/lab/tree/stored.ipynb?token=${token}`);
    await settled();
    await menu("Settings", "Theme", "JupyterLab Dark");
    await until("the dark theme", () => page.evaluate(() => document.body.dataset.jpThemeName === "JupyterLab Dark" && !document.getElementById("jupyterlab-splash")));
    await page.setViewportSize({ width: 600, height: 900 });
    const seen = await page.evaluate(async () => {
      const frame = document.querySelector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer"), plots = new Map();
      let left = 0;
      for (let y = 0; y <= frame.scrollHeight; y += 400) {
        frame.scrollTop = y;
        await new Promise((done) => setTimeout(done, 100));
        left += frame.querySelectorAll(".jp-OutputArea-output svg").length;
        for (const img of frame.querySelectorAll(".jp-RenderedImage img")) {
          await img.decode();
          if (!img.clientWidth) continue; // scrolled away meanwhile
          const page = Object.assign(document.createElement("canvas"), { width: img.naturalWidth, height: img.naturalHeight }).getContext("2d");
          page.drawImage(img, 0, 0);
          plots.set(img.src.slice(-99), { width: img.clientWidth, ground: [...page.getImageData(img.naturalWidth / 2, 4, 1, 1).data].join() });
        }
      }
      return { plots: [...plots.values()], left, room: frame.clientWidth };
    });
    await picture("untrusted");
    if (seen.left || seen.plots.length !== 2 || seen.plots.some((p) => p.width > seen.room || p.ground !== "255,255,255,255")) throw new Error(`got ${JSON.stringify(seen)}, want two plots on white that fit`);
    await page.setViewportSize({ width: 1200, height: 900 });
    await menu("Settings", "Theme", "JupyterLab Light");
  }],
  ...live(tools),
  ...newcomer(tools),
  ["magics", async () => {
    const file = new URL("magics.ipynb", import.meta.url);
    fs.copyFileSync(file, path.join(args.work, "lab", "notebooks", "magics.ipynb"));
    const wants = JSON.parse(fs.readFileSync(file, "utf8")).cells.map((c) => new RegExp(c.metadata.want));
    await page.goto(`${address}/lab/tree/magics.ipynb?token=${token}`);
    await until("all cells", async () => (await cells().count()) === wants.length);
    await settled();
    await menu("Run", "Run All Cells");
    for (const [i, want] of wants.entries()) {
      // The notebook scrolls by itself while it runs: a look scrolls anew, and waits for nothing.
      await until(`cell ${i} to show ${want}`, async () => {
        await cells().nth(i).evaluate((cell) => cell.scrollIntoView({ block: "center" }), null, { timeout: 5_000 }).catch(() => {});
        return /\[\d+\]/.test(await cells().nth(i).locator(".jp-InputPrompt").textContent()) && want.test((await output(i).allTextContents()).join("\n"));
      }, 60_000);
    }
    await picture("magics");
  }],
];

let passed = 0, failed = 0, skipped = 0;
for (const [name, step] of story) {
  if (args.only && !name.startsWith(args.only) && name !== "launcher") continue;
  if (failed > 0) {
    skipped++;
    continue;
  }
  const began = Date.now();
  try {
    await step();
    passed++;
    say(`${name}: ${Date.now() - began} ms`);
  } catch (problem) {
    failed++;
    say(`--- FAIL browser: ${name}: ${problem.message}`);
    await picture(`failed-${name.replaceAll(" ", "-")}`).catch(() => {});
  }
}
if (skipped) say(`skipped: ${skipped} steps after one that failed`);
await browser.close();
lab.kill("SIGTERM");
await new Promise((done) => { lab.on("exit", done); setTimeout(done, 10_000); });
console.log(passed, failed, skipped);
process.exit(failed ? 1 : 0);
