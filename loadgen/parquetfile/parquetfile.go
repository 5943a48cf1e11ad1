// Package parquetfile turns the record of a load into a Parquet file, for DuckDB, pandas and the like.
//
// The steps to use it:
//
//	n, err := parquetfile.Write(file, record)     // record is what loadgen.Spec.Record received
//
// A row is a request; its events are lists of equal length. Times are ns since the start of the run; what is not known is
// null.
package parquetfile

import (
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"

	"sweep/loadgen"
)

// Row is one request.
type Row struct {
	ID      string `parquet:"id"` // CLASS/STREAM/NUMBER
	Class   string `parquet:"class,dict"`
	Stream  string `parquet:"stream,dict"` // warmup or window
	Index   int64  `parquet:"index"`
	Turn    int64  `parquet:"turn"`
	Outcome string `parquet:"outcome,dict"`
	Kind    string `parquet:"kind,dict"` // of a failure; empty: none
	Reason  string `parquet:"reason"`
	Finish  string `parquet:"finish,dict"` // the server's word
	Status  int64  `parquet:"http_status"` // 0: none came
	Stamps  string `parquet:"stamps,dict"` // kernel or user

	SchedNS  *int64 `parquet:"sched_ns,optional"`
	AdmitNS  *int64 `parquet:"admit_ns,optional"`
	SendNS   *int64 `parquet:"send_ns,optional"`
	SentNS   *int64 `parquet:"sent_ns,optional"`
	HeaderNS *int64 `parquet:"header_ns,optional"`
	EndNS    *int64 `parquet:"end_ns,optional"`

	RequestedInput  int64  `parquet:"requested_input"`
	RequestedOutput int64  `parquet:"requested_output"`
	PromptTokens    *int64 `parquet:"prompt_tokens,optional"`
	OutputTokens    *int64 `parquet:"output_tokens,optional"`
	CachedTokens    *int64 `parquet:"cached_tokens,optional"`
	CachedDevice    *int64 `parquet:"cached_device_tokens,optional"`
	CachedHost      *int64 `parquet:"cached_host_tokens,optional"`

	TTFTNS      *int64 `parquet:"ttft_ns,optional"`         // by each definition of package loadgen
	SchedTTFTNS *int64 `parquet:"sched_ttft_ns,optional"`   //
	ContentNS   *int64 `parquet:"content_ttft_ns,optional"` //
	E2ENS       *int64 `parquet:"e2e_ns,optional"`
	StreamNS    *int64 `parquet:"stream_latency_ns,optional"`
	TPOTNS      *int64 `parquet:"tpot_ns,optional"`
	NTPOTNS     *int64 `parquet:"ntpot_ns,optional"`

	Reads       int64  `parquet:"reads"`
	Retransmits *int64 `parquet:"retransmits,optional"`
	Resent      bool   `parquet:"resent"`

	ChunkAtNS   []int64  `parquet:"chunk_at_ns,list"`
	ChunkBytes  []int32  `parquet:"chunk_bytes,list"`
	ChunkTokens []int32  `parquet:"chunk_tokens,list"` // −1: text, and no count
	ChunkKind   []string `parquet:"chunk_kind,list"`
	ChunkExact  []bool   `parquet:"chunk_exact,list"` // false: the stamp is an upper bound
}

// batch is how many rows are written at a time, and groupRows how many make a row group: so much is held in memory.
const (
	batch     = 64
	groupRows = 4096
)

// Write turns a record into a Parquet file and says how many requests it holds. A record whose writer was killed is
// turned as far as it goes.
func Write(to io.Writer, record io.Reader) (int, error) {
	w := parquet.NewGenericWriter[Row](to, parquet.Compression(&parquet.Zstd))
	rows, n := make([]Row, 0, batch), 0
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		_, err := w.Write(rows)
		rows = rows[:0]
		if err == nil && n%groupRows == 0 {
			err = w.Flush()
		}
		return err
	}
	_, err := loadgen.ReadRecord(record, func(r *loadgen.Record) error {
		rows = append(rows, row(r))
		n++
		if len(rows) < batch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return n, fmt.Errorf("parquet: %w", err)
	}
	return n, nil
}

func row(r *loadgen.Record) Row {
	x := Row{
		ID: r.ID(), Class: r.Class, Stream: r.Stream, Index: int64(r.Index), Turn: int64(r.Turn),
		Outcome: string(r.Outcome), Kind: r.Kind, Reason: r.Reason, Finish: r.Finish, Status: int64(r.Status), Stamps: loadgen.StampsUser,
		SchedNS: known(int64(r.Sched)), AdmitNS: known(int64(r.Admit)), SendNS: known(int64(r.Send)), SentNS: known(int64(r.Sent)), HeaderNS: known(int64(r.Header)), EndNS: known(int64(r.End)),
		RequestedInput: int64(r.AskedInput), RequestedOutput: int64(r.AskedOutput), PromptTokens: known(int64(r.PromptTokens)), OutputTokens: known(int64(r.OutputTokens)),
		CachedTokens: known(int64(r.CachedTokens)), CachedDevice: known(int64(r.CachedDevice)), CachedHost: known(int64(r.CachedHost)),
		TTFTNS: metric(r.TTFT()), SchedTTFTNS: metric(r.ScheduledTTFT()), ContentNS: metric(r.ContentTTFT()), E2ENS: metric(r.E2E()), StreamNS: metric(r.StreamE2E()),
		TPOTNS: metric(r.TPOT()), NTPOTNS: metric(r.NTPOT()),
		Reads: int64(r.Reads), Retransmits: known(int64(r.Retransmits)), Resent: r.Resent,
	}
	if r.Kernel {
		x.Stamps = loadgen.StampsKernel
	}
	for _, c := range r.Chunks {
		x.ChunkAtNS = append(x.ChunkAtNS, int64(c.At))
		x.ChunkBytes = append(x.ChunkBytes, int32(c.Bytes))
		x.ChunkTokens = append(x.ChunkTokens, int32(c.Tokens))
		x.ChunkKind = append(x.ChunkKind, c.Kind.String())
		x.ChunkExact = append(x.ChunkExact, c.Exact)
	}
	return x
}

func known(v int64) *int64 {
	if v < 0 {
		return nil
	}
	return &v
}

func metric(d time.Duration, ok bool) *int64 {
	if !ok {
		return nil
	}
	return (*int64)(&d)
}
