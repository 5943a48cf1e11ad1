// Package proctest plays what tests of contained servers need of a machine that the test's own machine lacks: a container
// runtime with its daemon. It keeps to the documented command line (run --cidfile --label --entrypoint, inspect --format,
// ps --filter, kill, rm), and to what matters of the real one: the daemon owns the processes, a container is made before its
// id is written and started after that, a client that is killed does not end it, and exit codes of signals are 128 and their
// number. It knows nothing of images: a container's program is one of the machine.
//
// The steps to use it:
//
//	if code, is := proctest.Client(); is { os.Exit(code) } // first in TestMain: the test's program is the client, too
//	d, err := proctest.NewDaemon(dir)                      // ErrNoGroup: this machine cannot hold a container
//	err = d.WriteRuntime(path, self)                       // path now takes docker's commands
//	… d.Containers() … d.Close()
package proctest
