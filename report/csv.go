package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"sweep/sweep"
)

// WriteCSV writes every record of the night, drift checks included, under the keys of cells.jsonl. What
// is absent there is an empty field here; lists and objects are JSON text. What servers said is made printable: a CSV is
// also shown on terminals.
func WriteCSV(w io.Writer, n *Night) error {
	t := flatTable{ids: map[string]int{}}
	for _, list := range [][]sweep.Record{n.Records, n.Drift} {
		for i := range list {
			if err := t.add(&list[i]); err != nil {
				return fmt.Errorf("report: cells.csv: %w", err)
			}
		}
	}
	var buf bytes.Buffer
	out := csv.NewWriter(&buf)
	fields := make([]string, len(t.keys))
	for i, id := range t.order {
		fields[i] = sweep.PrintableField(t.keys[id])
	}
	if len(fields) > 0 {
		_ = out.Write(fields) // into memory: checked by Error below
	}
	for _, row := range t.rows {
		clear(fields)
		for _, f := range row {
			fields[t.at[f.id]] = f.text
		}
		_ = out.Write(fields)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("report: cells.csv: %w", err)
	}
	return write(w, buf.String())
}

// flatTable holds records as fields of columns, each key by a number of its own: a map for each of ten thousand records would cost
// more than all that is in them.
type flatTable struct {
	ids   map[string]int
	keys  []string // by number
	order []int    // numbers, in the order of the columns
	at    []int    // column of each number
	rows  [][]flatField
}

type flatField struct {
	id   int
	text string
}

// add takes a record's fields.
func (t *flatTable) add(r *sweep.Record) error {
	data, err := r.MarshalJSON() // directly: json.Marshal would read all of it once more
	if err != nil {
		return err
	}
	row := make([]flatField, 0, len(t.keys))
	last := -1
	whole := scanFlat(data, func(k, v []byte) {
		id, ok := t.ids[string(k)]
		if !ok {
			id = t.insert(k, last+1)
		}
		last = max(last, t.at[id])
		row = append(row, flatField{id, field(v)})
	})
	if !whole {
		return fmt.Errorf("a record is no flat object: %.80s", data)
	}
	t.rows = append(t.rows, row)
	return nil
}

// insert makes a column of a new key: it stands after the one before it in its own record.
func (t *flatTable) insert(raw []byte, column int) (id int) {
	key := string(raw)
	if bytes.IndexByte(raw, '\\') >= 0 {
		_ = json.Unmarshal(fmt.Appendf(nil, `"%s"`, raw), &key) // it was written by the same package
	}
	id = len(t.keys)
	t.ids[string(raw)], t.keys, t.at = id, append(t.keys, key), append(t.at, column)
	t.order = slices.Insert(t.order, column, id)
	for i, id := range t.order {
		t.at[id] = i
	}
	return id
}

// field is a JSON value as a CSV field. A text that a spreadsheet would run as a formula gets an
// apostrophe before it, which spreadsheets show as text.
func field(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] != '"' {
		return string(sweep.PrintableJSON(raw))
	}
	if plain := raw[1 : len(raw)-1]; bytes.IndexByte(plain, '\\') < 0 {
		return sweep.PrintableField(string(plain))
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(sweep.PrintableJSON(raw))
	}
	return sweep.PrintableField(s)
}
