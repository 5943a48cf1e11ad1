// Package sweep holds the words of the program and the night itself: it reads a grid, plans its
// launches, has them run on a host, and keeps one record for each cell.
//
// The words, one for each idea, are the same in code, YAML, logs and documents:
//
//	grid      the YAML file that a user writes
//	axis      a name with the values to try; a server axis needs a new launch, a load axis does not
//	config    one value for each server axis: one server command line
//	workload  named classes of requests, each with its own pool of concurrent requests
//	load      a workload at one level
//	cell      config × load: one square of the result table
//	launch    one start of a server; it holds many cells
//	record    what one cell gave in one repeat: one flat line in cells.jsonl
//	outcome   how a cell ended: a word, the phase it ended in, and the evidence
//	facts     what the engine said of itself
//	night     one run of a grid, in one folder
//
// The steps to use it:
//
//	grid, problems, err := sweep.ReadGrid(path) // every problem at once, with its place
//	plan, err := grid.Plan()                    // configs, loads, launches in order
//	night, err := sweep.CreateNight(options)    // a folder with the plan, a journal and a lock
//	summary, err := runner.Run(ctx, now)        // hosts run the launches; records appear in the night
//
// What differs between inference servers is an [Engine], where a launch runs is a [Host]; both are
// defined here, where they are used, and implemented in packages below this one.
package sweep
