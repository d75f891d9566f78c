package magic

import "strings"

// elsewhere are magics that IPython's users know, without their marks, and what
// does their work here.
var elsewhere = map[string]string{
	"autoreload": "nothing has to be loaded again: a package of your own that has changed is compiled with the next cell",
	"cat":        "!cat FILE shows a file",
	"conda":      "%require PATH@VERSION adds a Go module; !conda runs Python's",
	"debug":      "%tb shows where every goroutine was; JupyterLab's debugger holds a cell at breakpoints, where Delve is installed",
	"history":    "the arrow keys and the front end's history know earlier cells; %list shows what they have declared",
	"edit":       "%%writefile FILE writes a file from a cell; Go files next to the notebook's go.mod are part of every cell",
	"exit":       "the kernel ends from the front end's menu",
	"hist":       "the arrow keys and the front end's history know earlier cells; %list shows what they have declared",
	"html":       "gonbui.DisplayHTML(text) shows HTML",
	"javascript": "gonbui.DisplayHTML(text) shows HTML; scripts do not run everywhere",
	"js":         "gonbui.DisplayHTML(text) shows HTML; scripts do not run everywhere",
	"latex":      "a Markdown cell shows formulas, and gonbui.DisplayMarkdown(text) does",
	"ll":         "!ls -l lists files; %ls lists what cells have declared",
	"load":       "!cat FILE shows a file, and what is in it can be pasted",
	"load_ext":   "there are no extensions to load: %help lists all magics",
	"magic":      "%help lists all magics, %help NAME explains one",
	"markdown":   "gonbui.DisplayMarkdown(text) shows Markdown, and so does a Markdown cell",
	"matplotlib": "report.Show(report.Plot{…}) draws curves, and nothing has to be set for it",
	"memit":      "%device shows the memory of the devices, %whos what variables take",
	"mkdir":      "!mkdir makes a directory",
	"pdb":        "%tb shows where every goroutine was; JupyterLab's debugger holds a cell at breakpoints, where Delve is installed",
	"pinfo":      "NAME? explains a name",
	"pip":        "%require PATH@VERSION adds a Go module; !pip runs Python's installer",
	"prun":       "%%profile records what the devices do, %phases where a net's time goes, %%timeit times a cell",
	"pwd":        "%cd without a directory shows it",
	"pushd":      "%cd DIRECTORY goes there, %cd - comes back",
	"quickref":   "%help lists all magics, %help NAME explains one",
	"quit":       "the kernel ends from the front end's menu",
	"run":        "gaiden run NOTEBOOK runs a notebook; !go run FILE runs a program",
	"save":       "%%writefile FILE writes a cell to a file; %list shows what cells have declared",
	"set_env":    "%env NAME=VALUE sets a variable",
	"store":      "values are there for later cells as they are; %snapshot saves what is on the device",
	"svg":        "gonbui.DisplaySVG(text) shows a drawing",
	"xdel":       "%del NAME forgets a variable",
}

// instead is what does the work of a magic of others, "" if that is not known.
func instead(name string) string { return elsewhere[strings.TrimLeft(name, "%")] }
