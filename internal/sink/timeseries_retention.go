package sink

import (
	"context"
	"time"
)

// Expire implements Retention. The collection of the readings deletes by
// itself what is old, as it was made to; what there is of raw is as elsewhere.
func (t *TimeSeries) Expire(ctx context.Context, _, raw time.Duration) (byServer bool, why string, err error) {
	return t.Mongo.Expire(ctx, 0, raw)
}
