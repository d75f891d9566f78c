// A training that is looked at: its curves while it runs, while its page is loaded again,
// its kernel restarts and its connection is cut, and at its end: no step and no epoch is
// lost.
// GAIDEN_TEST_FULL=1 makes 100 such disturbances.
const code = [
  `net := func(name string) *fit.Net { return fit.New(name, models.MLP(16), fit.Config{Seed: 1}) }
images := must(datasets.Synthetic(1, 1200, 28, 28, 1)).First(1000, 200)
watched := net("watched")
train := must(watched.Upload("live/train", images.Train.Data()))
test := must(watched.Upload("live/test", images.Test.Data()))
watched.Reset()
watched.FitJob(train, fit.Train{Epochs: 1_000_000, Batch: 10, Validation: test})`,
  `%jobs attach watched`,
  `%monitor`,
  `alone := fit.New("alone", models.MLP(16), fit.Config{Seed: 1})
job := must(fit.FindJob(must(alone.Session()), "watched"))
job.Stop()
seen := must(job.Follow(ctx, nil))
alone.Reset()
again := must(alone.Fit(must(alone.Data("live/train")), fit.Train{Steps: seen.Steps, Batch: 10, Validation: must(alone.Data("live/test")), Quiet: true}))
again.Epochs = again.Epochs[:len(seen.Epochs)] // the job was stopped within an epoch
near := func(a, b fit.Score) bool { // the sums are made in another order: the loss of a net that is right everywhere is all rounding
	return max(a.Right-b.Right, b.Right-a.Right) <= 1 && math.Abs(a.Loss-b.Loss) <= 1e-5*(1+b.Loss)
}
same := len(seen.Epochs) == len(again.Epochs)
for i := 0; same && i < len(seen.Epochs); i++ {
	a, b := seen.Epochs[i], again.Epochs[i]
	if same = near(a.Train, b.Train) && near(*a.Validation, *b.Validation); !same {
		fmt.Printf("epoch %d: got %v %v, want %v %v\\n", i+1, a.Train, *a.Validation, b.Train, *b.Validation)
	}
}
progress, end := report.Training("undisturbed", nil) // draws curves, however short the training was
progress(fit.Progress{Steps: 100, Epochs: len(again.Epochs), History: again, Elapsed: time.Hour})
end(again, nil)
fmt.Println("steps", len(seen.Losses) == seen.Steps, "losses", slices.Equal(seen.Losses, again.Losses), "epochs", same, len(seen.Epochs) == seen.Steps/100)`,
  `var net = fit.New("stopped", models.SeedCNN(), fit.Config{Seed: 1})
net.Fit(must(net.Data("live/train")), fit.Train{Epochs: 1_000_000, Batch: 10, Validation: must(net.Data("live/test"))})`,
];

// live returns the steps of the story; t are the tools of browser.mjs.
export function live(t) {
  const cell = (i) => t.cells().nth(i);
  // run runs a cell, also where plots above it move it away from under the mouse: Shift+Enter then
  // runs another one, or none.
  const run = async (i) => {
    const prompt = () => cell(i).locator(".jp-InputPrompt").innerText(), was = await prompt();
    await t.until(`cell ${i} to run`, async () => {
      await cell(i).locator(".cm-content").click();
      if (!(await cell(i).evaluate((c) => c.contains(document.activeElement)))) return false;
      await t.page.keyboard.press("Shift+Enter");
      return t.until("its prompt", async () => (await prompt()) !== was, 5_000).catch(() => false);
    });
  };
  const curves = (i) => t.output(i).locator("img[alt^='Plot: loss']");
  const steps = async (i) => Number((((await curves(i).first().getAttribute("alt")) ?? "").match(/train: .* in ([\d,]+) points?/)?.[1] ?? "0").replaceAll(",", ""));
  const bar = async (i) => (await t.output(i).allInnerTexts()).join("\n");
  const epoch = async () => Number(((await bar(1)).match(/epoch ([\d,]+)/)?.[1] ?? "-1").replaceAll(",", ""));
  const images = (i) => t.output(i).locator("img[src^='data:image/png']").evaluateAll((all) => all.map((img) => img.src));
  const open = async () => {
    await t.page.goto(`${t.address}/lab/tree/live.ipynb?token=${t.token}`);
    await t.until("all cells", async () => (await t.cells().count()) === code.length);
  };
  return [
    ["live curves", async () => {
      t.notebook("live.ipynb", code);
      await open();
      await t.settled();
      await run(0);
      await t.shows(0, "job watched", 60_000);
      await run(1);
      await t.until("the curves of the job", async () => (await curves(1).count()) === 1 && (await steps(1)) > 10, 60_000);
      const plots = await t.output(1).locator("img").count();
      if (plots !== 2 || (await t.output(1).count()) !== 1) throw new Error(`got ${plots} plots in ${await t.output(1).count()} outputs, want loss and accuracy in one`);
      const short = await t.output(1).locator("span").evaluateAll((all) => all.filter((span) => {
        const text = document.createRange();
        text.selectNodeContents(span);
        const room = span.parentElement.querySelector("progress")?.getBoundingClientRect().width > 40; // the bar is shortened first
        return room && text.getBoundingClientRect().width > span.getBoundingClientRect().width + 0.01; // less than a pixel is enough for three dots
      }).map((span) => span.textContent));
      if (short.length) throw new Error(`the line above the curves is cut where there is room: ${short.join(" | ")}`);
      await t.picture("live");
    }],
    ["live curves after reloads, restarts and cuts", async () => {
      const rounds = process.env.GAIDEN_TEST_FULL ? 100 : 3, took = [];
      let reached = await epoch();
      for (let i = 0; i < rounds; i++) {
        let began = Date.now();
        if (i % 3 === 2) { // what the page has missed comes when it is connected again
          const was = await bar(1);
          t.cut();
          began = Date.now();
          await t.until("the bar to move", async () => (await bar(1)) !== was, 60_000);
        } else {
          if (i % 3 === 0) {
            await open();
            await t.until("the kernel", async () => /\| (Idle|Busy)/.test(await t.page.locator("#jp-main-statusbar").innerText())); // else JupyterLab asks for one
          } else {
            await t.menu("Kernel", "Restart Kernel…");
            await t.accept();
            await t.until("the kernel to be idle", t.idle, 60_000);
          }
          await t.page.keyboard.press("Escape");
          began = Date.now();
          await run(1);
          await t.until("the job's bar", async () => /\[\*\]/.test(await cell(1).locator(".jp-InputPrompt").innerText()) && (await curves(1).count()) === 1, 60_000);
          const was = await bar(1);
          await t.until("the bar to move", async () => (await bar(1)) !== was, 60_000);
        }
        await t.until("what the curve has shown", async () => (await epoch()) >= reached, 60_000);
        took.push(Date.now() - began);
        reached = await epoch();
      }
      took.sort((a, b) => a - b);
      t.say(`live again after ${took[took.length >> 1]} ms in the middle of ${rounds}, ${took.at(-1)} ms at most`);
    }],
    ["live job at its end", async () => {
      await t.menu("Kernel", "Interrupt Kernel");
      await t.until("the cell to end", t.idle);
      await t.shows(1, "followed until");
      await run(3);
      await t.shows(3, "steps true losses true epochs true true", 600_000);
      const undisturbed = await images(3);
      await run(1);
      await t.shows(1, "stopped at epoch");
      await t.until("the plots as PNG", async () => (await images(1)).length === 2);
      if (JSON.stringify(await images(1)) !== JSON.stringify(undisturbed)) throw new Error("the curves are not those of a training without disturbances");
      await run(2);
      await t.shows(2, "session ");
    }],
    ["live training stopped", async () => {
      await run(4);
      await t.until("its curves", async () => (await steps(4)) > 10, 60_000);
      // A subshell looks into the busy kernel.
      await cell(4).locator(".cm-content").click({ button: "right" });
      await t.page.locator(".lm-Menu-itemLabel:visible", { hasText: "New Subshell Console" }).first().click();
      const prompt = t.page.locator(".jp-CodeConsole-promptCell .cm-content"), console = t.page.locator(".jp-CodeConsole-content");
      let typed = 0;
      await t.until("the console's banner", async () => (await console.innerText()).includes("in cells"));
      await t.until("the curves in the subshell", async () => {
        if (Date.now() - typed > 5_000) { // what is run before JupyterLab has made the subshell waits for the cell
          typed = Date.now();
          await prompt.click();
          await t.page.keyboard.insertText("%monitor");
          await t.page.keyboard.press("Shift+Enter");
        }
        return (await console.innerText()).includes("session ") && (await console.locator("img[alt^='Plot: loss']").count()) > 0;
      }, 60_000);
      await t.picture("live-subshell");
      await t.page.locator(".lm-TabBar-tab:has-text('live.ipynb') .lm-TabBar-tabCloseIcon").last().click();
      await cell(4).locator(".jp-InputPrompt").first().click();
      await t.page.keyboard.press("i"); // by keys: the toolbar, which the console made narrow, may still hide its button
      await t.page.keyboard.press("i");
      await t.shows(4, "stopped at epoch");
      await t.until("plots as PNG", async () => (await t.output(4).locator("img[src^='data:image/png']").count()) === 2);
      await t.picture("live-stopped");
    }],
  ];
}
