package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

// WriteCSV writes every record of the night, drift checks included, under the keys of cells.jsonl. What
// is absent there is an empty field here; lists and objects are JSON text.
func WriteCSV(w io.Writer, n *Night) error {
	var header []string
	at := map[string]int{}
	var rows []map[string]string
	for _, r := range slices.Concat(n.Records, n.Drift) {
		row, keys, err := flatten(r)
		if err != nil {
			return fmt.Errorf("report: cells.csv: %w", err)
		}
		last := -1
		for _, k := range keys {
			i, ok := at[k]
			if !ok { // a new key stands after the one before it in its own record
				i = last + 1
				header = slices.Insert(header, i, k)
				for j := i; j < len(header); j++ {
					at[header[j]] = j
				}
			}
			last = max(last, i)
		}
		rows = append(rows, row)
	}
	var buf bytes.Buffer
	out := csv.NewWriter(&buf)
	if len(header) > 0 {
		_ = out.Write(header) // into memory: checked by Error below
	}
	fields := make([]string, len(header))
	for _, row := range rows {
		for i, k := range header {
			fields[i] = row[k]
		}
		_ = out.Write(fields)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("report: cells.csv: %w", err)
	}
	return write(w, buf.String())
}

// flatten gives a record's keys in order and each one's field.
func flatten(r sweep.Record) (map[string]string, []string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return nil, nil, err
	}
	row := map[string]string{}
	var keys []string
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		key, _ := t.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, nil, err
		}
		keys = append(keys, key)
		row[key] = field(raw)
	}
	return row, keys, nil
}

// field is a JSON value as a CSV field. A text that a spreadsheet would run as a formula gets an
// apostrophe before it, which spreadsheets show as text.
func field(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] != '"' {
		return string(raw)
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil && s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
