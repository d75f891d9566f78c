// Package webpage turns a notebook file into one HTML page to send around: it needs
// no network and no JavaScript, has a table of contents, says when and on what
// the notebook ran, folds its code, prints, and follows the reader's light or
// dark theme. Where scripts run, a button copies the code of a cell; this is the only
// script of a page, and its Content-Security-Policy names it by its hash.
//
//	data, err := os.ReadFile("01-gaiden.ipynb")
//	if err != nil {
//		return err
//	}
//	html, err := webpage.Page(data, "01-gaiden") // says what is no notebook
//
// A notebook that stopped half way gives a page too: it begins with the error,
// and the cells behind it are marked as not run.
//
// Text cells are Markdown as JupyterLab has it: goldmark reads it, HTML in it
// passes, headings have JupyterLab's ids (#Some-Heading), attached images are in
// the page, and formulas stay as they were written. Links lead to other sites, to
// a part of this page, or to files as seen from where the page lies (data/a.csv,
// ../b.ipynb); of others the text stays. A text cell of lists a hundred deep, or the
// like, is shown as it was written.
//
// Outputs and text cells keep what a page may hold and lose the rest: scripts,
// handlers, frames, forms, styles that could cover other parts of the page, and
// whatever would be fetched when the page is opened. bluemonday decides by an
// allow-list (policy.go); what passes is HTML that browsers read in one way, so
// one output cannot reach into the rest of the page. The page's own
// Content-Security-Policy and the box around each output say the same again.
package webpage
