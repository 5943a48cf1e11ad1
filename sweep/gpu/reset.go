package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// resetTimeout bounds one command of a reset: a card takes seconds, a machine full of them a minute.
const resetTimeout = 2 * time.Minute

// Reset resets devices by their UUIDs, all of them in one call, as boards that are linked can only be reset together. It
// needs root, and no process may be on them. The driver's persistence mode blocks it on many machines, so a refused
// reset is tried once more with that mode off; where it was on, it is on again afterwards. Whether it helped only the
// devices' memory tells.
func (r *Reader) Reset(ctx context.Context, uuids []string) error {
	if len(uuids) == 0 {
		return errors.New("reset GPUs: none is named")
	}
	first := r.control(ctx, "--gpu-reset", "-i", strings.Join(uuids, ","))
	if first == nil || errors.Is(first, ErrHung) {
		return first
	}
	persistent, err := r.persistent(ctx, uuids)
	if err != nil {
		return fmt.Errorf("%w; and whether the persistence mode blocks it cannot be read: %w", first, err)
	}
	if len(persistent) == 0 {
		return first
	}
	ids := strings.Join(persistent, ",")
	if err := r.control(ctx, "-pm", "0", "-i", ids); err != nil {
		return errors.Join(first, err)
	}
	again := r.control(ctx, "--gpu-reset", "-i", strings.Join(uuids, ","))
	return errors.Join(again, r.control(ctx, "-pm", "1", "-i", ids))
}

// persistent are those of the devices whose persistence mode is on.
func (r *Reader) persistent(ctx context.Context, uuids []string) ([]string, error) {
	text, err := r.query(ctx, "--query-gpu=", []string{"index", "uuid", "persistence_mode"})
	if err != nil {
		return nil, err
	}
	t, err := parseTable(text, "index", "uuid")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, row := range t.rows {
		if uuid := t.text(row, "uuid"); slices.Contains(uuids, uuid) && t.text(row, "persistence_mode") == "Enabled" {
			out = append(out, uuid)
		}
	}
	return out, nil
}

// control runs a command that changes the devices.
func (r *Reader) control(ctx context.Context, args ...string) error {
	text, err := r.run.output(ctx, resetTimeout, r.command(args...))
	if err != nil {
		return fmt.Errorf("nvidia-smi %s: %w: %s", strings.Join(args, " "), err, firstLine(text))
	}
	return nil
}
