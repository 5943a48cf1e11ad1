package agent

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"sweep/sweep"
	"sweep/sweep/engine"
)

// kernelFile keeps what the kernel said of processes that it killed, in an attempt's folder.
const kernelFile = "kernel.log"

// outsideTime bounds what is asked of driver and kernel after a death.
const outsideTime = 60 * time.Second

// lookOutside adds to what is known of a server what others did: strangers on the devices, the kernel.
func (l *launch) lookOutside(known *sweep.Autopsy) {
	ctx, cancel := context.WithTimeout(context.Background(), outsideTime) // the death must be explained whatever else ends
	defer cancel()
	known.OOMKills, known.Kernel = l.killings(ctx, known.Exit != nil)
	known.Foreign = l.foreign(ctx, known.Exit != nil)
}

// killings says what the kernel's OOM killer did since the server's start: how many processes it ended that
// may be ours, and its lines about them. A line that names somebody else's process is not counted, and of a server that lives
// only what is proved to be of it.
func (l *launch) killings(ctx context.Context, dead bool) (int, []sweep.OOMKill) {
	if l.oom == nil {
		return 0, nil
	}
	count, _ := l.oom.Kills(ctx)
	if !dead {
		count = 0
	}
	own := 0
	if l.server != nil {
		own, _ = l.server.OOMKills() // of the launch's own group: proof, whatever the kernel's log may be read or says
	}
	l.kernel = append(l.kernel, l.oom.Lines(ctx)...)
	kills, err := engine.KernelKills(bytes.NewReader(l.kernel))
	if err != nil || len(kills) == 0 {
		return max(count, own), nil
	}
	var mine []sweep.OOMKill
	var text []byte
	for _, k := range kills {
		if k.Ours = l.others.ours(k); !k.Ours {
			continue
		}
		k.Evidence = sweep.Evidence{File: kernelFile, Line: len(mine) + 1, Offset: int64(len(text)), Text: k.Evidence.Text}
		text = append(append(text, k.Evidence.Text...), '\n')
		mine = append(mine, k)
	}
	if len(mine) == 0 {
		return max(count-len(kills), own), nil
	}
	if err := os.WriteFile(filepath.Join(l.dir, kernelFile), text, 0o600); err != nil {
		l.log.Warn("what the kernel said cannot be kept", "err", err)
	}
	return max(count, own, len(mine)), mine
}
