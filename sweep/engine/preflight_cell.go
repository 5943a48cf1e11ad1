package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sweep/sweep"
)

// modelConfig is what a model's config.json says of its KV cache. Models that see pictures have their
// language model's config inside.
type modelConfig struct {
	Text      *modelConfig `json:"text_config"`
	Language  *modelConfig `json:"language_config"`
	Torch     string       `json:"torch_dtype"`
	DType     string       `json:"dtype"`
	Layers    int          `json:"num_hidden_layers"`
	Hidden    int          `json:"hidden_size"`
	Heads     int          `json:"num_attention_heads"`
	KVHeads   int          `json:"num_key_value_heads"`
	HeadDim   int          `json:"head_dim"`
	VHeadDim  int          `json:"v_head_dim"`
	LoRARank  int          `json:"kv_lora_rank"` // of multi-head latent attention
	RopeDim   int          `json:"qk_rope_head_dim"`
	Quantized *struct {
		KVScheme json.RawMessage `json:"kv_cache_scheme"`
		KVQuant  json.RawMessage `json:"kv_cache_quant_algo"`
	} `json:"quantization_config"`

	// Signs of layers that keep something else than a KV cache of every token.
	LayerTypes   []string        `json:"layer_types"`
	HybridBlocks json.RawMessage `json:"hybrid_override_pattern"`
	FullInterval int             `json:"full_attention_interval"`
	Window       *int            `json:"sliding_window"`
	UseWindow    *bool           `json:"use_sliding_window"`
	SSMState     int             `json:"mamba_d_state"`
	SSMSize      int             `json:"ssm_state_size"`
	IndexTopK    int             `json:"index_topk"` // of sparse attention, whose index has a pool of its own
}

// cellBytes is what a token takes in the KV pool of one rank, in bytes, with SGLang's flags.
func cellBytes(config []byte, settings []sweep.Setting) (float64, error) {
	var c modelConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return 0, fmt.Errorf("config.json: %w", err)
	}
	for _, inner := range []*modelConfig{c.Text, c.Language} {
		if inner != nil {
			inner.Torch, inner.DType = firstOf(inner.Torch, c.Torch), firstOf(inner.DType, c.DType)
			if inner.Quantized == nil {
				inner.Quantized = c.Quantized
			}
			c = *inner
			break
		}
	}
	if err := c.plain(); err != nil {
		return 0, err
	}
	if v, ok := sweep.SettingValue(settings, "speculative-algorithm"); ok && !isOff(v) {
		return 0, errors.New("a draft model has layers of its own in the pool")
	}
	bytes, err := c.valueBytes(settings)
	if err != nil {
		return 0, err
	}
	values, err := c.values(settings)
	return float64(values) * bytes, err
}

// plain refuses models whose tokens do not all take the same in each layer.
func (c modelConfig) plain() error {
	for _, t := range c.LayerTypes {
		if t != "full_attention" {
			return fmt.Errorf("layers of type %s keep no ordinary KV cache", sweep.Printable(t))
		}
	}
	switch {
	case len(c.HybridBlocks) > 0 && string(c.HybridBlocks) != "null", c.FullInterval > 1, c.SSMState > 0, c.SSMSize > 0:
		return errors.New("its layers are of different kinds")
	case c.Window != nil && *c.Window > 0 && (c.UseWindow == nil || *c.UseWindow):
		return errors.New("its attention has a sliding window")
	case c.IndexTopK > 0:
		return errors.New("its sparse attention keeps an index beside the KV cache")
	case c.Layers <= 0:
		return errors.New("config.json does not say how many layers there are")
	}
	return nil
}

// values are the numbers that one token leaves in the pool of one rank.
func (c modelConfig) values(settings []sweep.Setting) (int, error) {
	count := countOf(settings)
	pipeline := count("pp-size", "pipeline-parallel-size", "pp")
	layers := (c.Layers + pipeline - 1) / pipeline // the rank with the most decides
	if c.LoRARank > 0 {
		return (c.LoRARank + c.RopeDim) * layers, nil // the same on each rank
	}
	ranks := count("tp-size", "tensor-parallel-size", "tp")
	if v, ok := sweep.SettingValue(settings, "enable-dp-attention"); ok && !isOff(v) {
		ranks = max(1, ranks/count("dp-size", "data-parallel-size", "dp"))
	}
	heads, dim := c.KVHeads, c.HeadDim
	if heads == 0 {
		heads = c.Heads
	}
	if dim == 0 && c.Heads > 0 {
		dim = c.Hidden / c.Heads
	}
	if heads <= 0 || dim <= 0 {
		return 0, errors.New("config.json does not say how large a KV head is")
	}
	value := dim
	if c.VHeadDim > 0 {
		value = c.VHeadDim
	}
	return max(1, heads/ranks) * (dim + value) * layers, nil
}

// valueBytes is the size of one number in the pool.
func (c modelConfig) valueBytes(settings []sweep.Setting) (float64, error) {
	name, asked := sweep.SettingValue(settings, "kv-cache-dtype")
	if !asked || name == "auto" {
		set := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
		if q := c.Quantized; q != nil && (set(q.KVScheme) || set(q.KVQuant)) {
			return 0, errors.New("the checkpoint asks for a KV cache of its own type")
		}
		name = firstOf(c.Torch, c.DType)
		if own, ok := sweep.SettingValue(settings, "dtype"); ok && own != "auto" {
			name = own
		}
	}
	switch name = strings.TrimPrefix(name, "torch."); {
	case name == "bf16", name == "bfloat16", name == "float16", name == "half", name == "fp16":
		return 2, nil
	case name == "float32", name == "float":
		return 4, nil
	case strings.HasPrefix(name, "fp8_"):
		return 1, nil
	}
	return 0, fmt.Errorf("the size of a number of type %q is not known", sweep.Printable(name))
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
