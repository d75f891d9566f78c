// Package webpage turns a notebook file into one HTML page to send around: it needs
// no network and no JavaScript, has a table of contents, says when and on what
// the notebook ran, folds its code, prints, and follows the reader's light or
// dark theme.
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
// Outputs and text cells keep what a page may hold and lose the rest: scripts,
// handlers, frames, forms, and whatever would be fetched when the page is opened.
// What is written down is well-formed whatever came in, so one output cannot
// reach into the rest of the page. Text cells are Markdown as notebooks use it:
// headings, lists, tables, quotes, code, links, pictures and inline HTML;
// formulas stay as they were written.
package webpage
