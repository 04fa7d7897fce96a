package decode

import "strings"

// births remembers what edge nodes and devices have said of their metrics in
// birth messages. It is the one thing that a decoder learns from one message to
// read another, because Sparkplug B is made so; it lives with the decoder, so
// after a restart data with aliases is rejected until the next birth. Its size
// is bounded: what no longer fits is not learnt, and so rejected with a reason,
// where forgetting something instead would take turns at losing all nodes.
type births struct {
	nodes map[sparkplugNode]map[string]*birth // by edge, edge/device
	count int                                 // of metrics and births together
}

const (
	maxBirths     = 1 << 16
	maxBirthName  = 2 * MaxMetric
	maxBirthUnits = 32
)

// sparkplugNode is an edge node: its name is its own within its group.
type sparkplugNode struct{ group, edge string }

// birth is what one message told.
type birth struct {
	metrics map[string]*bornMetric
	aliases map[uint64]*bornMetric
}

type bornMetric struct {
	name     []byte
	datatype uint64
	unit     []byte
}

func (s *births) find(node sparkplugNode, device string) *birth { return s.nodes[node][device] }

// forget is for a node's death, and for its birth, before which all that it and
// its devices said is void.
func (s *births) forget(node sparkplugNode) {
	for _, b := range s.nodes[node] {
		s.count -= 1 + b.size()
	}
	delete(s.nodes, node)
}

func (b *birth) size() int { return len(b.metrics) + len(b.aliases) }

// bear begins a birth in place of an earlier one, nil if there is no room.
func (s *births) bear(node sparkplugNode, device string) *birth {
	if old := s.find(node, device); old != nil {
		s.count -= 1 + old.size()
		delete(s.nodes[node], device)
	}
	if s.count >= maxBirths || len(node.group)+len(device) > maxBirthName {
		return nil
	}
	if s.nodes == nil {
		s.nodes = make(map[sparkplugNode]map[string]*birth)
	}
	if s.nodes[node] == nil {
		// The parts of the topic are not kept, which would keep all of it.
		node = sparkplugNode{strings.Clone(node.group), strings.Clone(node.edge)}
		s.nodes[node] = make(map[string]*birth)
	}
	b := &birth{metrics: make(map[string]*bornMetric), aliases: make(map[uint64]*bornMetric)}
	s.nodes[node][strings.Clone(device)] = b
	s.count++
	return b
}

func (s *births) learn(b *birth, m *sparkplugMetric) {
	if b == nil || len(m.name) == 0 || len(m.name) > maxBirthName || s.count+2 > maxBirths {
		return
	}
	s.count -= b.size()
	born := &bornMetric{name: []byte(string(m.name)), datatype: m.datatype}
	if len(m.unit) <= maxBirthUnits {
		born.unit = []byte(string(m.unit))
	}
	b.metrics[string(m.name)] = born
	if m.aliased {
		b.aliases[m.alias] = born
	}
	s.count += b.size()
}

// complete adds to a metric what its birth said of it.
func (b *birth) complete(m *sparkplugMetric) {
	if b == nil {
		return
	}
	born := b.metrics[string(m.name)]
	if len(m.name) == 0 && m.aliased {
		born = b.aliases[m.alias]
	}
	if born == nil {
		return
	}
	m.name = born.name
	if m.datatype == 0 {
		m.datatype = born.datatype
	}
	if len(m.unit) == 0 {
		m.unit = born.unit
	}
}
