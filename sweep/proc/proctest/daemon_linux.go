package proctest

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrNoGroup says that no control group can be made here, in which a daemon holds a container.
var ErrNoGroup = errors.New("no control group can be made here")

// Daemon owns containers. It is safe for use by several goroutines.
type Daemon struct {
	socket string
	groups string // folder, in which each container's is made
	listen net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	boxes map[string]*box
	made  int // containers ever
}

// box is one container.
type box struct {
	cmd   *exec.Cmd
	label string // KEY=VALUE
	group string // folder
	runs  bool
	done  chan struct{} // closed when it ran and has ended
}

// NewDaemon starts a daemon whose socket is in dir. The error wraps [ErrNoGroup] where no container can be held.
func NewDaemon(dir string) (*Daemon, error) {
	groups, err := ownGroup()
	if err != nil {
		return nil, err
	}
	d := &Daemon{socket: filepath.Join(dir, "d.sock"), groups: groups, boxes: map[string]*box{}}
	if d.listen, err = net.Listen("unix", d.socket); err != nil {
		return nil, err
	}
	d.wg.Go(func() {
		for {
			c, err := d.listen.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(c) })
		}
	})
	return d, nil
}

// WriteRuntime writes a program that is the daemon's client. self is a program that calls [Client] first of all.
func (d *Daemon) WriteRuntime(path, self string) error {
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", socketVariable, d.socket, self)
	return os.WriteFile(path, []byte(script), 0o755)
}

// Containers are the ids of the containers that there are, running or not.
func (d *Daemon) Containers() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.boxes))
}

// Made is how many containers were ever made.
func (d *Daemon) Made() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

// PID is the first process of a container; 0 when it does not run.
func (d *Daemon) PID(id string) int {
	b := d.box(id)
	if b == nil {
		return 0
	}
	return d.pid(b)
}

// Close ends the daemon and every container of it.
func (d *Daemon) Close() {
	_ = d.listen.Close()
	for _, id := range d.Containers() {
		d.kill(id)
	}
	d.wg.Wait()
}

func (d *Daemon) box(id string) *box {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.boxes[id]
}

func (d *Daemon) pid(b *box) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !b.runs || isClosed(b.done) {
		return 0
	}
	return b.cmd.Process.Pid
}

func (d *Daemon) serve(c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	var asked call
	if in.Decode(&asked) != nil || len(asked.Args) == 0 {
		return
	}
	say := func(code int, text string) {
		a := answer{Code: &code}
		if a.Out = text; code != 0 {
			a.Out, a.Err = "", text
		}
		_ = out.Encode(a) // a client that is gone hears no more
	}
	id := asked.Args[len(asked.Args)-1]
	b := d.box(id)
	switch {
	case asked.Args[0] == "run":
		d.run(asked, in, out)
	case asked.Args[0] == "ps":
		say(0, d.list(asked.Args))
	case b == nil:
		say(1, "Error response from daemon: No such container: "+id+"\n")
	case asked.Args[0] == "inspect":
		say(0, d.inspect(asked.Args, b))
	case asked.Args[0] == "kill" && d.pid(b) == 0:
		say(1, "Error response from daemon: container is not running\n")
	case asked.Args[0] == "kill":
		d.kill(id)
		say(0, id+"\n")
	case asked.Args[0] == "terminate":
		if pid := d.pid(b); pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	case asked.Args[0] == "rm":
		d.kill(id)
		d.mu.Lock()
		delete(d.boxes, id)
		d.mu.Unlock()
		say(0, id+"\n")
	default:
		say(1, "docker: unknown command: docker "+asked.Args[0]+"\n")
	}
}

// list is what ps prints of the containers with a label.
func (d *Daemon) list(args []string) string {
	label, ok := strings.CutPrefix(value(args, "--filter"), "label=")
	if !ok || !slices.Contains(args, "--all") || !slices.Contains(args, "--quiet") || !slices.Contains(args, "--no-trunc") {
		return "CONTAINER ID   IMAGE   COMMAND\n"
	}
	var out strings.Builder
	for _, id := range d.Containers() {
		if b := d.box(id); b != nil && b.label == label {
			out.WriteString(id + "\n")
		}
	}
	return out.String()
}

// inspect prints by the one format that is known.
func (d *Daemon) inspect(args []string, b *box) string {
	key, text, _ := strings.Cut(b.label, "=")
	if want := `{{.State.Pid}} {{.State.OOMKilled}} {{index .Config.Labels "` + key + `"}}`; value(args, "--format") != want {
		return "another format: " + value(args, "--format")
	}
	return fmt.Sprintf("%d false %s\n", d.pid(b), text)
}

// run makes a container of what follows the image, and starts it when its client has written the id.
func (d *Daemon) run(asked call, in *json.Decoder, out *json.Encoder) {
	fail := func(code int, err error) { _ = out.Encode(answer{Err: "docker: " + err.Error() + "\n", Code: &code}) }
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	id := hex.EncodeToString(raw)
	image := slices.Index(asked.Args, "--entrypoint") + 2 // then come the image and the program's arguments
	if image < 2 || image >= len(asked.Args) {
		fail(125, errors.New("run needs --entrypoint PROGRAM IMAGE"))
		return
	}
	b := &box{cmd: exec.Command(value(asked.Args, "--entrypoint"), asked.Args[image+1:]...), label: value(asked.Args, "--label"), done: make(chan struct{})}
	b.cmd.Env, b.cmd.Dir = asked.Env, cmp.Or(value(asked.Args, "--workdir"), "/")
	b.group = filepath.Join(d.groups, "docker-"+id+".scope")
	if err := os.Mkdir(b.group, 0o755); err != nil {
		fail(125, err)
		return
	}
	defer removeGroup(b.group)
	d.mu.Lock()
	d.boxes[id] = b
	d.made++
	d.mu.Unlock()
	var start call
	if out.Encode(answer{ID: id}) != nil || in.Decode(&start) != nil { // the client is gone: the container stays as it was made
		return
	}
	code, err := d.start(b, out)
	if err != nil {
		fail(127, err)
		return
	}
	_ = out.Encode(answer{Code: &code})
}

// start runs a container to its end.
func (d *Daemon) start(b *box, out *json.Encoder) (code int, err error) {
	fd, err := os.Open(b.group)
	if err != nil {
		return 0, err
	}
	defer fd.Close()
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(fd.Fd())}
	said := &printer{out: out}
	b.cmd.Stdout, b.cmd.Stderr, b.cmd.WaitDelay = said, said, 100*time.Millisecond
	d.mu.Lock()
	err = b.cmd.Start()
	b.runs = err == nil
	d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	_ = b.cmd.Wait()   // its state says more
	killGroup(b.group) // all in a container ends with its first process
	close(b.done)
	code = b.cmd.ProcessState.ExitCode()
	if status, ok := b.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return code, nil
}

func (d *Daemon) kill(id string) {
	b := d.box(id)
	if b == nil || d.pid(b) == 0 {
		return
	}
	killGroup(b.group)
	_ = b.cmd.Process.Kill()
	<-b.done
}

// printer sends what the container prints to its client.
type printer struct{ out *json.Encoder }

// Write implements [io.Writer].
func (p *printer) Write(b []byte) (int, error) {
	_ = p.out.Encode(answer{Out: string(b)}) // one that is gone hears no more
	return len(b), nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
