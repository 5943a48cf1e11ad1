// Package report reads a night's folder and makes tables, pictures and files that compare its configs.
// It never runs anything and needs no GPU; it works on a night that is still running, and again years later.
//
// The steps to use it:
//
//	night, err := report.Read(dir)              // records, and the plan where the night keeps one
//	sum := report.Summarize(night)              // pivot: configs × loads for each workload, with the best of each
//	err = report.WriteTable(w, sum, options)    // or WriteMarkdown, WriteCSV, WriteJSON
//	files, err := report.WriteFolder(night, sum) // night/report: summary.md, cells.csv, pictures
//
// Numbers are shown as they were measured. Several repeats of a cell show their median and how many
// there were; a number that may not be trusted is withheld, and the reason stands in its place.
package report
