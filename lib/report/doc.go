// Package report shows results: tables, progress bars, curves, pictures with
// their predictions, and what the program runs on.
//
// Each is a value with two forms, [Rich]: String for a terminal, HTML for a
// notebook. [Show] takes the one that suits the place:
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
// HTML is plain: no JavaScript, no style sheets, nothing fetched. So a notebook
// looks the same in JupyterLab, in VS Code, in nbconvert's page and in a
// browser with scripts off. Text has the colour of the page around it and the
// ground stays transparent, which suits light and dark themes; the colours of
// curves are those of Okabe and Ito, which colour-blind readers tell apart.
// Names and captions are escaped: markup in them is shown, not obeyed.
//
// # Why the plots are drawn here
//
// A cell links what it uses, and time to link follows size. The SVG of a line
// plot is some text; a plotting library brings fonts and rasterisers, several
// megabytes of them, into every cell that shows a curve.
//
// # What it refuses
//
// It measures and trains nothing, and it never fails: empty data, NaN, one
// point and a million points all give a picture, which says what it leaves
// out. It is the only package that knows gonbui, the displays of GoNB and of
// Gaiden; [Show], [Progress] and the clocks [Timeit] and [Stopwatch] are the only
// things of lib that print.
package report
