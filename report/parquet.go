package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"

	"sweep/sweep"
)

// WriteCellsParquet writes every record under the keys of cells.jsonl: numbers as doubles, whole numbers and booleans as such,
// lists and objects as JSON text; what is absent is null.
func WriteCellsParquet(w io.Writer, n *Night) error {
	records := n.all()
	rows := make([]map[string]any, len(records))
	kinds := map[string]parquet.Node{}
	for i, r := range records {
		data, err := json.Marshal(withDerived(r))
		if err != nil {
			return fmt.Errorf("report: cells.parquet: %w", err)
		}
		if err := json.Unmarshal(data, &rows[i]); err != nil {
			return fmt.Errorf("report: cells.parquet: %w", err)
		}
		for k, v := range rows[i] {
			switch v := v.(type) {
			case nil:
				delete(rows[i], k)
			case float64:
				kinds[k] = parquet.Optional(parquet.Compressed(parquet.Leaf(parquet.DoubleType), &parquet.Zstd))
			case bool:
				kinds[k] = parquet.Optional(parquet.Leaf(parquet.BooleanType))
			case string:
				kinds[k] = parquet.Optional(parquet.Compressed(parquet.Encoded(parquet.String(), &parquet.RLEDictionary), &parquet.Zstd))
			default:
				text, err := json.Marshal(v)
				if err != nil {
					return fmt.Errorf("report: cells.parquet: %w", err)
				}
				rows[i][k] = string(text)
				kinds[k] = parquet.Optional(parquet.Compressed(parquet.String(), &parquet.Zstd))
			}
		}
	}
	group := parquet.Group{}
	var names []string
	for k, node := range kinds {
		group[k] = node
		names = append(names, k)
	}
	slices.Sort(names) // the order in which the schema has its columns
	out := parquet.NewWriter(w, parquet.NewSchema("cells", group))
	for _, row := range rows {
		line := make(parquet.Row, len(names))
		for c, name := range names {
			v, ok := row[name]
			if ok && kindOf(v) != kinds[name].Type().Kind() { // one key, two kinds of value: as text it would be another column
				ok = false
			}
			if !ok {
				line[c] = parquet.NullValue().Level(0, 0, c)
				continue
			}
			line[c] = parquet.ValueOf(v).Level(0, 1, c)
		}
		if _, err := out.WriteRows([]parquet.Row{line}); err != nil {
			return fmt.Errorf("report: cells.parquet: %w", err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("report: cells.parquet: %w", err)
	}
	return nil
}

func kindOf(v any) parquet.Kind {
	switch v.(type) {
	case float64:
		return parquet.Double
	case bool:
		return parquet.Boolean
	}
	return parquet.ByteArray
}

// parquetRequest is one request with the cell that it belongs to.
type parquetRequest struct {
	Night   string `parquet:"night,dict,zstd"`
	Cell    string `parquet:"cell,dict,zstd"`
	Config  string `parquet:"config,dict,zstd"`
	Load    string `parquet:"load,dict,zstd"`
	Repeat  int32  `parquet:"repeat,zstd"`
	ID      string `parquet:"id,zstd"`
	Class   string `parquet:"class,dict,zstd"`
	Phase   string `parquet:"phase,dict,zstd"`
	Outcome string `parquet:"outcome,dict,zstd"`
	Kind    string `parquet:"kind,optional,dict,zstd"`

	SentS           *float64 `parquet:"sent_s,optional,zstd"`
	EndS            *float64 `parquet:"end_s,optional,zstd"`
	TTFT            *float64 `parquet:"ttft_ms,optional,zstd"`
	TPOT            *float64 `parquet:"tpot_ms,optional,zstd"`
	E2E             *float64 `parquet:"e2e_ms,optional,zstd"`
	MaxITL          *float64 `parquet:"max_itl_ms,optional,zstd"`
	RequestedInput  *int64   `parquet:"requested_input,optional,zstd"`
	RequestedOutput *int64   `parquet:"requested_output,optional,zstd"`
	PromptTokens    *int64   `parquet:"prompt_tokens,optional,zstd"`
	OutputTokens    *int64   `parquet:"output_tokens,optional,zstd"`
	CachedTokens    *int64   `parquet:"cached_tokens,optional,zstd"`
	Chunks          *int64   `parquet:"chunks,optional,zstd"`
}

const (
	parquetBatch = 1000
	parquetGroup = 100_000 // rows
	parquetAhead = 4       // batches that may be read while others are written
)

// requestBatch are rows with the numbers that they point to.
type requestBatch struct {
	rows   []parquetRequest
	floats []float64
	ints   []int64
}

func newRequestBatch() *requestBatch {
	return &requestBatch{make([]parquetRequest, 0, parquetBatch), make([]float64, 0, 6*parquetBatch), make([]int64, 0, 6*parquetBatch)}
}

func (b *requestBatch) float(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	b.floats = append(b.floats, v)
	return &b.floats[len(b.floats)-1]
}

func (b *requestBatch) whole(v float64) *int64 {
	if math.IsNaN(v) {
		return nil
	}
	b.ints = append(b.ints, int64(v))
	return &b.ints[len(b.ints)-1]
}

func (b *requestBatch) add(r *sweep.Record, load string, q *Request) {
	b.rows = append(b.rows, parquetRequest{
		Night: r.Night, Cell: r.Cell, Config: r.Config, Load: load, Repeat: int32(r.Repeat), ID: q.ID, Class: q.Class, Phase: q.Phase, Outcome: q.Outcome, Kind: q.Kind,
		SentS: b.float(q.SentS), EndS: b.float(q.EndS), TTFT: b.float(q.TTFT), TPOT: b.float(q.TPOT), E2E: b.float(q.E2E), MaxITL: b.float(q.MaxITL),
		RequestedInput: b.whole(q.RequestedInput), RequestedOutput: b.whole(q.RequestedOutput), PromptTokens: b.whole(q.PromptTokens),
		OutputTokens: b.whole(q.OutputTokens), CachedTokens: b.whole(q.CachedTokens), Chunks: b.whole(q.Chunks),
	})
}

// requestBatches reads all requests of the night; full takes each full batch and gives an empty one back, nil to end.
func (n *Night) requestBatches(full func(*requestBatch) *requestBatch) error {
	b := newRequestBatch()
	for _, r := range n.all() {
		load := r.Load.String()
		err := n.eachRequest(r, true, func(q *Request) {
			if b == nil {
				return
			}
			if b.add(&r, load, q); len(b.rows) == parquetBatch {
				b = full(b)
			}
		})
		if err != nil || b == nil {
			return err
		}
	}
	full(b)
	return nil
}

// WriteRequestsParquet writes all requests of the night into one file and returns how many there were. One batch is written while the
// next is read.
func WriteRequestsParquet(w io.Writer, n *Night) (int, error) {
	ready, free, stop := make(chan *requestBatch, parquetAhead), make(chan *requestBatch, parquetAhead+1), make(chan struct{})
	for range parquetAhead {
		free <- newRequestBatch()
	}
	var reading sync.WaitGroup
	var readErr error
	reading.Go(func() {
		defer close(ready)
		readErr = n.requestBatches(func(b *requestBatch) *requestBatch {
			select {
			case ready <- b:
			case <-stop:
				return nil
			}
			return <-free // each batch that was handed over comes back
		})
	})
	out := parquet.NewGenericWriter[parquetRequest](w, parquet.MaxRowsPerRowGroup(parquetGroup))
	count := 0
	var failed error
	for b := range ready {
		if failed == nil {
			if _, failed = out.Write(b.rows); failed != nil {
				close(stop)
			}
			count += len(b.rows)
		}
		b.rows, b.floats, b.ints = b.rows[:0], b.floats[:0], b.ints[:0]
		free <- b
	}
	reading.Wait()
	if err := cmp.Or(failed, readErr, out.Close()); err != nil {
		return count, fmt.Errorf("report: requests.parquet: %w", err)
	}
	return count, nil
}
