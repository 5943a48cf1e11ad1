package sweep

import "strconv"

// maxPrice bounds the price of an hour: a typing error must not look like a result.
const maxPrice = 100_000

// readAgain reads what a grid for confirming another's result has. That each key names a config is seen when the grid is expanded.
func (r *reading) readAgain() {
	if f, ok := r.top["only"]; ok && !empty(f.value) {
		for _, item := range r.entries(f.value, "only", "[mem-fraction-static=0.88]") {
			if s, ok := r.text(item, "a config"); ok {
				r.grid.Only = append(r.grid.Only, s)
			}
		}
	} else if ok {
		r.emptySection(f)
	}
	if f, ok := r.top["prompt_set"]; ok {
		r.grid.Prompts, _ = r.text(f.value, "prompt_set")
	}
}

// readReport reads what only a night's report uses.
func (r *reading) readReport() {
	if f, ok := r.top["price_per_hour"]; ok && !empty(f.value) {
		s, ok := r.text(f.value, "price_per_hour")
		v, err := strconv.ParseFloat(s, 64)
		switch {
		case !ok:
		case !number.MatchString(s) || err != nil:
			r.problem(f.value, "write a number, as in 12.50", "price_per_hour is what one host costs in an hour, not %q", s)
		case v <= 0 || v > maxPrice:
			r.problem(f.value, "write dollars an hour, or leave the key out", "price_per_hour %s is not above 0 and at most %d", s, maxPrice)
		default:
			r.grid.PricePerHour = v
		}
	} else if ok {
		r.emptySection(f)
	}
	if f, ok := r.top["accept_edge"]; ok && !empty(f.value) {
		switch s, ok := r.text(f.value, "accept_edge"); {
		case !ok:
		case s == "true":
			r.grid.AcceptEdge = true
		case s != "false":
			r.problem(f.value, "write true or false", "accept_edge is true or false, not %q", s)
		}
	} else if ok {
		r.emptySection(f)
	}
}
