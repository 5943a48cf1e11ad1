// Package proc starts one server with all the processes that it makes, holds them together, says
// which process is which, and ends them all. It knows nothing of inference and imports nothing of ours.
//
// A small process of our own stands between the caller and the server, the supervisor. It holds the
// server's output (redacts it, caps it, writes the log), is the parent that orphans of the server
// fall back to, and ends the whole tree when it is told to, or when the caller is gone. Before the
// server's first instruction an owner file on disk says which processes are ours, so that a later
// start can end what a crash left behind. It runs on Linux; elsewhere each call says so.
//
// The tree is held by the best means that the machine and the user allow: a control group, of our own or made by the
// user's systemd, which kills at once whatever left its parent, its session or its name, and which also limits the
// host memory that the server may take; else by the supervisor alone, to which orphans fall, with a watchdog on the
// machine's memory. The owner file says which.
//
// The steps to use it:
//
//	server, err := proc.Start(ctx, []string{self, "supervise"}, spec) // "supervise" calls Supervise, or Exec after "--exec", "--"
//	<-server.Done()                                                   // the launched process ended: server.Exit()
//	report, err := server.Stop(ctx, 20*time.Second)                   // SIGTERM, grace, SIGKILL to the whole tree
//	report, err := proc.Reclaim("owner.json", 5*time.Second)          // after a crash: end what is proved to be ours
package proc
