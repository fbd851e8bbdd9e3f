package delivery

import (
	"context"

	"github.com/fairlead/fairlead/agent/api"
)

// RejectDamaged rejects deliveries whose payload nobody can read, in the place of the app that never got them: what becomes
// of them is what becomes of a message that an app rejects. list holds rejects with their reasons. It blocks until every
// outcome is known, or until ctx ends; what is still due then goes on.
func (b *Book) RejectDamaged(ctx context.Context, list []api.Settlement) {
	b.mu.Lock()
	b.counts.Damaged += uint64(len(list))
	b.mu.Unlock()
	b.Settle(ctx, list)
}
