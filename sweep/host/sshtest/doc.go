// Package sshtest starts real OpenSSH servers on 127.0.0.1 for tests. Each has keys, a configuration and a home of its own;
// whoever logs in sees that home and no other.
//
// The steps to use it:
//
//	s := sshtest.Start(t, sshtest.Options{User: sshtest.OtherUser})
//	h := &host.SSH{Target: sshtest.Target, Config: s.Config, …}
package sshtest
