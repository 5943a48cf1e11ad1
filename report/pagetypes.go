package report

// The data of the page, as its script reads them. Everything that came from outside is made printable here; the script
// makes text nodes of it and nothing else.
type pageData struct {
	Params     []string                `json:"params"`
	Metrics    []pageMetric            `json:"metrics"`
	Columns    []string                `json:"columns"`    // of the table of runs
	RecordKeys []string                `json:"recordKeys"` // all values that some record has
	Configs    []pageConfig            `json:"configs"`
	Loads      []pageLoad              `json:"loads"` // of all workloads
	Sheets     []pageSheet             `json:"sheets"`
	Records    []pageRecord            `json:"records"` // in the order of cells.jsonl
	Timelines  map[string]pageTimeline `json:"timelines"`
	Figures    []pageFigure            `json:"figures"`
	BestWord   string                  `json:"bestWord"`
}

type pageMetric struct {
	Key      string `json:"key"`
	Title    string `json:"title"`
	Unit     string `json:"unit"`
	Better   int    `json:"better"` // 1 higher, −1 lower, 0 neither
	Decimals int    `json:"decimals"`
	Scales   bool   `json:"scales"`
	Median   bool   `json:"median"` // some square has a median of it
}

type pageConfig struct {
	Key          string            `json:"key"`
	Label        string            `json:"label"`
	Named        bool              `json:"named,omitempty"` // beside the grid's axes
	Axes         map[string]string `json:"axes"`
	Baseline     bool              `json:"baseline,omitempty"`
	Unacceptable string            `json:"unacceptable,omitempty"`
	Color        string            `json:"color"`
	Dash         []float64         `json:"dash,omitempty"`
	Open         bool              `json:"open,omitempty"` // markers are rings
}

type pageLoad struct {
	Key      string  `json:"key"`
	Workload string  `json:"workload"`
	Label    string  `json:"label"`
	Pools    string  `json:"pools"`
	Total    float64 `json:"total"`
	Level    string  `json:"level"` // what it counts: "in flight", "planned a second"
}

type pageSheet struct {
	Workload string      `json:"workload"`
	SLO      bool        `json:"slo,omitempty"`
	Loads    []pageLoad  `json:"loads"`
	Rows     []pageRow   `json:"rows"`
	Best     int         `json:"best"` // row, −1 for none
	Frontier []pagePoint `json:"frontier"`
	Bans     []string    `json:"bans,omitempty"` // the kinds among its points
	PerGPU   bool        `json:"perGPU,omitempty"`
}

type pageRow struct {
	Config  int          `json:"config"`
	Best    int          `json:"best"`            // load, −1 for none
	Unfit   string       `json:"unfit,omitempty"` // why it may not be named best
	Squares []pageSquare `json:"squares"`
}

type pageSquare struct {
	Medians map[string]float64 `json:"med,omitempty"`
	Meets   bool               `json:"meets"`
	Died    bool               `json:"died,omitempty"`
	Skipped bool               `json:"skipped,omitempty"` // it was only left out
	Words   string             `json:"words,omitempty"`   // of failures
	Versus  string             `json:"vs,omitempty"`      // against the baseline at the same load
}

type pagePoint struct {
	Row  int     `json:"row"`
	Load int     `json:"load"`
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	On   bool    `json:"on,omitempty"`
	Ban  string  `json:"ban,omitempty"` // the kind of reason for which it may not be recommended
	Why  string  `json:"why,omitempty"` // in words, with which it was
}

type pageRecord struct {
	ID       string             `json:"id"`
	Cell     string             `json:"cell"`
	Repeat   int                `json:"repeat"`
	Drift    bool               `json:"drift,omitempty"`
	Config   int                `json:"config"`
	Load     int                `json:"load"`
	Outcome  string             `json:"outcome"`
	Words    string             `json:"words"`
	Detail   string             `json:"detail,omitempty"`
	Tone     string             `json:"tone,omitempty"` // class of its row: "alarm" for a failure, "soft" for what was not run
	Measured bool               `json:"measured,omitempty"`
	Steady   string             `json:"steady,omitempty"`
	Notes    []string           `json:"notes,omitempty"`
	Evidence *pageEvidence      `json:"evidence,omitempty"`
	Values   map[string]float64 `json:"v,omitempty"`
}

type pageEvidence struct {
	Text  string `json:"text"`
	Where string `json:"where"`
}

type pageTimeline struct {
	T        []float64  `json:"t"`
	Usage    []*float64 `json:"usage,omitempty"`
	Running  []*float64 `json:"running,omitempty"`
	Queued   []*float64 `json:"queued,omitempty"`
	Rate     []*float64 `json:"rate,omitempty"`
	Retracts []float64  `json:"retracts,omitempty"`
	Open     *float64   `json:"open,omitempty"`
	Close    *float64   `json:"close,omitempty"`
	Thinned  bool       `json:"thinned,omitempty"`
}

type pageFigure struct {
	Name  string           `json:"name"`
	Title string           `json:"title"`
	SVG   string           `json:"svg"`
	Table *pageFigureTable `json:"table,omitempty"`
}

type pageFigureTable struct {
	Heads []string   `json:"heads"`
	Rows  [][]string `json:"rows"`
}
