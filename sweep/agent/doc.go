// Package agent works through a queue of jobs next to the GPUs. Each job is one launch: it starts a
// server, proves that it is ready and ours, drives the loads at it, names how each ended, stops the
// server and proves that nothing of it is left. It knows nothing of grids.
//
// The steps to use it:
//
//	err := agent.Run(ctx, agent.Options{Dir: dir, Out: night, Self: self, Engine: engine.Lookup, Now: now, Log: log})
//
// Dir holds the queue (queue/0001.json, …, each a [sweep.Job]; 0001.done beside it when it is finished),
// the agent's events (events.jsonl) and who it is (agent.json). Below Out it makes the folder of each
// attempt: job.json, owner.json, command.sh, server.log, metrics.jsonl, gpu.jsonl, ready.json once the
// server is proved ready, a folder for each load, which appears by one rename, and launch.json last.
// A job may name a server that somebody else runs instead: then only loads run, by the same road, and of the files about a
// process there are none.
//
// A load that is to be tried again leaves its evidence in left-load=…/.
//
// The agent may be killed at any moment and started again: it finds out what is done from these files.
package agent
