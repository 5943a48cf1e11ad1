package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"time"
)

// lingers makes an agent's command line one that outlives the logout of whoever started it. Most machines leave a
// user's processes alone; where systemd ends them, the agent gets a scope of the user's own manager, which has to
// linger.
func lingers(ctx context.Context, argv []string) ([]string, error) {
	if os.Geteuid() == 0 { // root's processes are spared
		return argv, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "busctl", "--system", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "KillUserProcesses").Output()
	if err != nil || strings.TrimSpace(string(out)) != "b true" {
		return argv, nil // no systemd, or it ends nothing
	}
	name := "you"
	if me, err := user.Current(); err == nil {
		name = me.Username
	}
	remedy := fmt.Errorf("this machine ends a user's processes at logout (KillUserProcesses=yes), so a night would end with its link; have its administrator run: loginctl enable-linger %s", name)
	if out, err := exec.CommandContext(ctx, "loginctl", "enable-linger").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w (it refused you: %v%s)", remedy, err, quoteEnd(out))
	}
	if _, err := exec.LookPath("systemd-run"); err != nil {
		return nil, errors.Join(remedy, err)
	}
	return append([]string{"systemd-run", "--user", "--scope", "--quiet", "--collect", "--"}, argv...), nil
}
