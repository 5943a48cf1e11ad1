// Package report reads a night's folder and makes tables, pictures and files that compare its configs.
// It never runs anything and needs no GPU; it works on a night that is still running, and again years later.
//
// The steps to use it:
//
//	night, err := report.Read(dir)              // records, and the plan where the night keeps one
//	sum := report.Summarize(night)              // pivot: configs × loads for each workload, with the best of each
//	err = report.WriteTable(w, sum, options)    // or WriteMarkdown, WriteCSV, WriteJSON
//	files, err := report.WriteFolder(night, sum, report.PageOptions{}) // night/report: index.html, summary.md, cells.csv, pictures
//
// One repeat gives values without verdicts; stats.go says how more of them are judged, with the source of each formula. Compare puts
// nights side by side, the Write functions of export.go follow other tools' definitions, Import reads their results, and
// Judge says whether a candidate held when it was measured again.
//
// Numbers are shown as they were measured. Several repeats of a cell show their median and how many
// there were; a number that may not be trusted is withheld, and the reason stands in its place.
package report
