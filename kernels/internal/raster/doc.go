// Package raster gives the images of a cell a form that every front end shows.
//
// JupyterLab removes SVG from the HTML of a notebook that is not trusted, as every
// notebook of a fresh clone is, and so does GitHub; what is left is the text of the
// image in one line. PNG is shown everywhere. [Complete] replaces the SVG of an
// output by PNG, drawn on white, which is readable on a light and on a dark page.
//
// [PNG] draws the part of SVG that package report writes: paths of straight lines,
// rectangles, circles, text in one line, embedded PNG. Of anything else it returns an
// error, and the output stays as the cell sent it.
package raster
