package controls

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/fairlead/fairlead/config"
	"github.com/fairlead/fairlead/fairshare"
)

// Control is a thing that is set.
type Control struct {
	Thing
	Weight fairshare.Weight // of a KeyWeight
	Agent  string           // through which agent it was set last; "" is unknown
	At     time.Time        // when, by that agent's clock; zero is unknown
}

// value is what a record holds.
type value struct {
	Weight json.Number `json:"weight,omitempty"`
	Agent  string      `json:"agent,omitempty"`
	At     time.Time   `json:"at,omitzero"`
}

func (c Control) encode() ([]byte, error) {
	v := value{Agent: c.Agent, At: c.At.UTC()}
	if c.Kind == KeyWeight {
		if c.Weight < 1 || c.Weight > fairshare.MaxWeight {
			return nil, fmt.Errorf("%w: a weight is above 0 and at most 1000", ErrInvalid)
		}
		v.Weight = json.Number(config.Weight(c.Weight).String())
	}
	return json.Marshal(v)
}

// decode reads a record. A pause is one whatever its record holds; a weight that cannot be used is an error.
func decode(t Thing, text []byte) (Control, error) {
	c := Control{Thing: t}
	var v value
	err := json.Unmarshal(text, &v)
	if err == nil {
		c.Agent, c.At = v.Agent, v.At
	}
	if t.Kind != KeyWeight {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("controls: the record of a weight cannot be read: %w", err)
	}
	w, err := v.Weight.Float64()
	thousandths := math.Round(w * 1000)
	if err != nil || thousandths < 1 || thousandths > float64(fairshare.MaxWeight) {
		return c, fmt.Errorf("controls: weight %.32q is not above 0 and at most 1000", string(v.Weight))
	}
	c.Weight = fairshare.Weight(thousandths)
	return c, nil
}
