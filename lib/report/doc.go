// Package report shows results: tables, progress bars, plots, images with their
// predictions, and a description of the machine.
//
// Each result is a value with two forms, [Rich]: String for a terminal and HTML for a
// notebook. [Show] selects the right one:
//
//	report.Show(report.Plot{
//		Title: "Error", X: "epoch", Y: "error", LogY: true,
//		Series: []report.Series{{Name: "train", Y: train}, {Name: "test", Y: test}},
//	})
//
//	bar := report.Progress{Title: "training", Total: epochs}
//	for epoch := range epochs {
//		loss := train()
//		bar.Set(epoch+1, fmt.Sprintf("loss %.4f", loss))
//	}
//	bar.Close()
//
// The HTML has no JavaScript (but for the controls of [Interact]), no style sheets and no external resources. A notebook
// therefore looks the same in JupyterLab, VS Code, nbconvert and a browser without
// scripts. Text of tables uses the color of the page. Front ends remove SVG from
// notebooks that are not trusted, so the kernel turns plots into PNG on a white
// ground, which is readable on light and dark themes. Curves use the palette of Okabe and Ito, which color-blind
// readers can distinguish. Names and captions are escaped: markup in them is shown as
// text.
//
// Plots are drawn by this package as SVG text, because a plotting library would add
// several megabytes of fonts and rasterizers, and their link time, to every cell that
// shows a curve.
//
// # What it refuses
//
// Drawing never fails: empty data, NaN, one point or a million points all give a plot,
// which says what it leaves out. The values print nothing; only [Show], [Progress],
// [Interact], the magics, such as [Timeit], [Stopwatch], [Recorder] and [Profiler], and Fit in a cell do.
// The package trains and measures nothing itself: packages fit, profile and timing do.
// No other package of lib imports gonbui, the display protocol of GoNB and
// Gaiden.
package report
