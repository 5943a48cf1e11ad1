package engine

// matcher finds which of many texts occur in a line, in one pass over its bytes (Aho and Corasick's
// automaton, as a table). Most lines of a busy server's log hold none of them and need no closer look.
type matcher struct {
	class [256]uint8 // bytes that occur in no text share class 0
	width int        // number of classes
	next  []uint16   // next state by state and class
	found []uint8    // flags of all texts that end in this state
}

// newMatcher builds the automaton. texts gives the flags of each text.
func newMatcher(texts map[string]uint8) *matcher {
	m := &matcher{width: 1}
	for t := range texts {
		for i := range len(t) {
			if m.class[t[i]] == 0 {
				m.class[t[i]] = uint8(m.width)
				m.width++
			}
		}
	}
	m.grow()
	for t, flags := range texts {
		state := 0
		for i := range len(t) {
			at := state*m.width + int(m.class[t[i]])
			if m.next[at] == 0 {
				m.next[at] = uint16(len(m.found))
				m.grow()
			}
			state = int(m.next[at])
		}
		m.found[state] |= flags
	}
	m.link()
	return m
}

func (m *matcher) grow() {
	m.next = append(m.next, make([]uint16, m.width)...)
	m.found = append(m.found, 0)
}

// link fills in where to go on when a text breaks off, level by level.
func (m *matcher) link() {
	fail := make([]uint16, len(m.found))
	var queue []uint16
	for c := range m.width {
		if s := m.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		m.found[s] |= m.found[fail[s]]
		for c := range m.width {
			at := int(s)*m.width + c
			back := m.next[int(fail[s])*m.width+c]
			if child := m.next[at]; child != 0 {
				fail[child] = back
				queue = append(queue, child)
			} else {
				m.next[at] = back
			}
		}
	}
}

// scan returns the flags of all texts in the line.
func (m *matcher) scan(line []byte) uint8 {
	var flags uint8
	state, width := 0, m.width
	for _, c := range line {
		state = int(m.next[state*width+int(m.class[c])])
		flags |= m.found[state]
	}
	return flags
}
