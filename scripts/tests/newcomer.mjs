// What a newcomer does in the first hour, by mouse and keyboard, in twenty steps: clone and
// run (the group install), launcher, type, complete, read documentation, read an error (steps
// of browser.mjs), and here own table, encoder, net, confusion matrix, new rows, own images,
// augmentation, Stop, restart, a lower learning rate, undo, measuring, comparing runs, export of
// the net, a page and a PDF. A stored notebook of a clone is the step "untrusted" of browser.mjs.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const net = `camera := fit.New("camera", models.Net{Input: []int{16, 16, 3}, Layers: []models.Layer{
	models.RandomFlip{Name: "flip"},
	models.Conv2D{Name: "conv", Channels: 8, Kernel: 3, Act: models.ReLU},
	models.MaxPool2D{Name: "pool", Window: 2},
	models.Flatten{},
	models.Dense{Name: "output", Units: 2},
}}, fit.Config{Seed: 1, Optimizer: optim.Adam{LearningRate: 0.01}})
`;
const code = [
  `table := must(data.CSV{}.Read("flowers.csv"))
table`,
  `rows, others := must2(must(table.Without("number")).Shuffle(1).SplitStratified("species", 0.8))
encoder := must(rows.Encoder("species"))
encoder.OneHot = true
encoder`,
  `flowers := fit.New("flowers", models.Net{Input: []int{encoder.Width()}, Layers: []models.Layer{
	models.Dense{Name: "hidden", Units: 16, Act: models.ReLU},
	models.Dense{Name: "output", Units: len(encoder.Classes)},
}}, fit.Config{Seed: 1})
flowers.Reset()
test := must(flowers.Upload("flowers/test", must(encoder.Encode(others))))
must(flowers.Fit(must(flowers.Upload("flowers/train", must(encoder.Encode(rows)))), fit.Train{Epochs: 80, Batch: 16, Validation: test, Log: "runs/flowers"}))`,
  `report.Confusion{Names: encoder.Classes, Want: test.Labels, Got: must(flowers.Predict(test)).Classes}`,
  `must(os.WriteFile("new.csv", []byte("sepal length;petal length\\n5.2;3\\n"), 0o644))
encoder.Names(must(flowers.Predict(must(encoder.Encode(must(data.CSV{}.Read("new.csv")))))).Classes)`,
  `import ("image/color"; "image/png")
for i := range 40 {
	class := []string{"dark", "bright"}[i%2]
	photo := image.NewGray(image.Rect(0, 0, 16, 16))
	for k := range photo.Pix {
		photo.SetGray(k%16, k/16, color.Gray{Y: uint8((k*7+i)%100 + 150*(i%2))})
	}
	must(os.MkdirAll(filepath.Join("photos", class), 0o755))
	out := must(os.Create(filepath.Join("photos", class, fmt.Sprint(i, ".png"))))
	png.Encode(out, photo)
	out.Close()
}
photos := must(data.Images{Height: 16, Width: 16}.Read("photos"))
photos`,
  net + `seen, held := must2(photos.Examples.Shuffle(1).SplitStratified(0.8))
camera.Reset()
must(camera.Upload("photos/all", seen))
must(camera.Upload("photos/check", held))
camera.Fit(must(camera.Data("photos/all")), fit.Train{Epochs: 1_000_000, Batch: 8, Validation: must(camera.Data("photos/check"))})`,
  `camera`,
  net + `must(camera.Fit(must(camera.Data("photos/all")), fit.Train{Epochs: 3, Batch: 8, LearningRate: 1e-3}))`,
  `%rollback`,
  `%phases -s -e -t 0.01`,
  `%runs`,
  net + `camera.Export("camera.onnx")
camera.Export("camera")
fmt.Println(must(os.Stat("camera.onnx")).Size() > 0, must(os.Stat("camera/go.mod")).Size() > 0)`,
];

// newcomer returns the steps of the story; t are the tools of browser.mjs.
export function newcomer(t) {
  const home = path.join(t.work, "lab", "notebooks"), file = path.join(home, "newcomer.ipynb");
  // JupyterLab may start another kernel in place of the first one: a cell that was sent to that
  // is run again.
  const run = async (i, ...texts) => {
    let sent = 0;
    const send = async () => {
      await t.cells().nth(i).locator(".cm-content").click();
      await t.page.keyboard.press("Shift+Enter");
      sent = Date.now();
    };
    await send();
    await t.until(`cell ${i} to run, and to show ${texts[0] ?? "anything"}`, async () => {
      const waits = (await t.cells().nth(i).locator(".jp-InputPrompt").textContent()).includes("[ ]");
      if (waits && Date.now() - sent > 5000) await send();
      return !waits && (await t.output(i).allInnerTexts()).join("\n").includes(texts[0] ?? "");
    }, 120_000);
    for (const text of texts.slice(1)) await t.shows(i, text, 120_000);
  };
  const lines = async (i) => (await t.output(i).allInnerTexts()).join("\n").split("\n").length;
  const few = async (i) => {
    if ((await lines(i)) > 60) throw new Error(`got ${await lines(i)} lines below cell ${i}, want the ends of the history`);
  };
  const images = async (i, n) => t.until(`${n} images below cell ${i}`, async () => (await t.output(i).locator("img").count()) >= n, 60_000);
  return [
    ["newcomer's table", async () => {
      const row = (i) => `${i};${4 + (i % 3) + (i % 10) / 10};${i % 19 ? 1 + 2 * (i % 3) : ""};${["setosa", "versicolor", "virginica"][i % 3]}\n`;
      fs.writeFileSync(path.join(home, "flowers.csv"), "number;sepal length;petal length;species\n" + Array.from({ length: 300 }, (_, i) => row(i)).join(""));
      t.notebook("newcomer.ipynb", code);
      // Without what other steps have left open, which JupyterLab saves a while later.
      await t.page.goto(`${t.address}/lab/tree/newcomer.ipynb?reset&token=${t.token}`);
      await t.until("all cells", async () => (await t.cells().count()) === code.length);
      await t.settled();
      await run(0, "300 rows, 4 columns", "numbers, 16 missing", "setosa 100×");
      await run(1, "numbers: sepal length, petal length", "categories: none");
      await run(2, "done: 80 epochs", "… 60 epochs between them are in History.Epochs");
      await few(2);
      await run(3);
      await images(3, 1);
      await run(4, "[versicolor]");
      await t.picture("newcomer-table");
    }],
    ["newcomer's images, and Stop", async () => {
      await run(5, "40 images, 16×16×3, 2 classes");
      await images(5, 10);
      await run(6);
      await images(6, 2);
      await t.page.locator('[data-command="notebook:interrupt-kernel"]:visible').first().click();
      await t.shows(6, "stopped at epoch");
      await t.shows(6, "Interrupted: the cell was stopped");
      await few(6);
      await t.picture("newcomer-stopped");
    }],
    ["newcomer's restart", async () => {
      await t.menu("Kernel", "Restart Kernel…");
      await t.accept();
      await t.until("the kernel to be idle", t.idle, 60_000);
      await run(7, "undefined: camera", "nets and arrays are still in the session");
      await run(8, "done: 3 epochs", "accuracy 100.0 %"); // the weights of before
      await run(9, "undone: the last cell");
      await run(10, "camera on photos/all"); // the only net, its training data
      await run(11, "flowers", "80");
      await run(12, "true true");
      await t.picture("newcomer-measured");
    }],
    ["newcomer's narrow window", async () => { // tables scroll, and nothing is cut off
      const side = async () => { // the list of files, which would leave no room
        await t.page.keyboard.press("Escape");
        await t.page.keyboard.press("Control+b");
      };
      await side();
      await t.page.setViewportSize({ width: 400, height: 1000 });
      try {
        for (const i of [0, 2, 8, 11]) {
          await t.cells().nth(i).evaluate((cell) => cell.scrollIntoView());
          const lost = await t.output(i).evaluateAll((all) => all.flatMap((o) => [...o.querySelectorAll("table, img")].filter((e) =>
            e.getBoundingClientRect().width > o.clientWidth + 1 && (e.tagName === "IMG" || !["auto", "scroll"].includes(getComputedStyle(o).overflowX)))
            .map((e) => e.tagName + " " + e.textContent.slice(0, 40))));
          if (lost.length) throw new Error(`cut off below cell ${i}: ${lost.join("; ")}`);
        }
        await t.picture("newcomer-narrow");
      } finally {
        await t.page.setViewportSize({ width: 1200, height: 900 });
        await side();
      }
    }],
    ["newcomer's page", async () => {
      await t.page.keyboard.press("Control+s");
      await t.until("the notebook to be saved", () => fs.readFileSync(file, "utf8").includes("camera on photos/all"));
      execFileSync(t.gaiden, ["run", "-html", "-as-is", "-q", "-o", `${home}/`, file]);
      const page = await t.browser.newPage();
      try {
        await page.goto(`file://${home}/newcomer.html`);
        for (const width of [400, 800, 1600]) {
          for (const colorScheme of ["light", "dark"]) {
            await page.setViewportSize({ width, height: 1200 });
            await page.emulateMedia({ colorScheme });
            const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            if (wide > 0) throw new Error(`the page is ${wide} pixels wider than ${width}`);
            await page.screenshot({ path: path.join(t.screenshots, `newcomer-${width}-${colorScheme}.png`) });
          }
        }
        const button = page.locator("details.code button").first();
        await button.click();
        await t.until("the code to be copied", async () => (await button.innerText()) === "copied");
        const pdf = await page.pdf({ format: "A4" });
        if (pdf.length < 20_000) throw new Error(`the printed page has ${pdf.length} bytes`);
      } finally {
        await page.close();
      }
    }],
  ];
}
