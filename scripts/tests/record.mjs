// Records notebooks/pages/live.png: a training in JupyterLab, drawn by chromium, as an
// animated PNG. scripts/test record runs it.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { crc32 } from "node:zlib";
import { startLab } from "./lab.mjs";

const { chromium } = createRequire(import.meta.url)(process.env.PLAYWRIGHT);
const args = {};
for (let i = 2; i < process.argv.length; i += 2) args[process.argv[i].slice(2)] = process.argv[i + 1];

const code = [`images := must(datasets.MNIST(datasets.Options{})).First(12000, 2000)
var net = fit.New("cnn", models.SeedCNN(), fit.Config{Seed: 1})
train := must(net.Upload("train", images.Train.Data()))
test := must(net.Upload("test", images.Test.Data()))`, `net.Reset()
history := must(net.Fit(train, fit.Train{Epochs: 5, Batch: 16, Validation: test}))`];

// animated joins PNGs of one size, each with its time in milliseconds, to one that moves: the
// chunks fcTL and fdAT of PNG's third edition. What shows no animation shows the last one.
function animated(frames) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]), out = Buffer.alloc(body.length + 8);
    out.writeUInt32BE(data.length, 0);
    body.copy(out, 4);
    out.writeUInt32BE(crc32(body), body.length + 4);
    return out;
  };
  const number = (...values) => Buffer.concat(values.map((v) => { const b = Buffer.alloc(4); b.writeUInt32BE(v); return b; }));
  const chunks = (png, type) => {
    const found = [];
    for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
      if (png.toString("latin1", at + 4, at + 8) === type) found.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
    }
    return found;
  };
  const head = chunks(frames[0].png, "IHDR")[0], out = [frames[0].png.subarray(0, 8), chunk("IHDR", head), chunk("acTL", number(frames.length, 0)), chunk("IDAT", Buffer.concat(chunks(frames.at(-1).png, "IDAT")))];
  let serial = 0;
  for (const { png, time } of frames) {
    const control = Buffer.alloc(26);
    number(serial++, head.readUInt32BE(0), head.readUInt32BE(4)).copy(control);
    control.writeUInt16BE(time, 20);
    control.writeUInt16BE(1000, 22);
    out.push(chunk("fcTL", control));
    out.push(chunk("fdAT", Buffer.concat([number(serial++), ...chunks(png, "IDAT")])));
  }
  return Buffer.concat([...out, chunk("IEND", Buffer.alloc(0))]);
}

const { lab, address, token } = await startLab(args);
const browser = await chromium.launch({ executablePath: args.chromium, headless: true, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
try {
  const page = await browser.newPage({ viewport: { width: 940, height: 620 } });
  page.setDefaultTimeout(120_000);
  fs.writeFileSync(path.join(args.work, "lab", "notebooks", "training.ipynb"), JSON.stringify({
    cells: code.map((source, i) => ({ cell_type: "code", id: `cell-${i}`, execution_count: null, metadata: {}, outputs: [], source })),
    metadata: { kernelspec: { name: "gaiden", display_name: "Go (Gaiden)", language: "go" } }, nbformat: 4, nbformat_minor: 5,
  }));
  await page.goto(`${address}/doc/tree/training.ipynb?token=${token}&reset`);
  const cells = page.locator(".jp-Notebook:visible .jp-CodeCell"), panel = page.locator(".jp-Notebook:visible");
  await page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').waitFor();
  await page.waitForTimeout(3000);
  const run = async (i) => {
    await cells.nth(i).locator(".cm-content").click();
    await page.keyboard.press("Shift+Enter");
  };
  const said = async () => (await cells.nth(1).locator(".jp-OutputArea-output").allInnerTexts()).join();
  await run(0);
  await run(1); // compiles
  while (!(await said()).includes("done:")) await page.waitForTimeout(200);
  const { x, y, width } = await panel.boundingBox(), frames = [];
  const take = async (time) => frames.push({ png: await page.screenshot({ clip: { x, y, width, height: 436 } }), time });
  await run(1);
  for (let last = await said(), text = ""; !text.includes("done:"); last = text) {
    await page.waitForTimeout(700);
    text = await said();
    if (text !== last && !text.includes("done:")) await take(400);
  }
  await page.waitForTimeout(1000);
  await take(4000);
  const file = animated(frames);
  fs.writeFileSync(args.out, file);
  console.error(`${args.out}: ${frames.length} frames, ${file.length} bytes`);
} finally {
  await browser.close();
  lab.kill("SIGTERM");
}
process.exit(0);
