package payload

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// plain compresses as anybody's gzip would, whether it gets smaller or not.
func plain(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func TestWhatWasCompressedComesBack(t *testing.T) {
	for _, data := range []string{
		strings.Repeat("a", 100), strings.Repeat(`{"order":17,"lines":[1,2,3]}`, 1000), strings.Repeat("\x00\xff", 1<<20), strings.Repeat("é🚚", 999),
	} {
		packed, ok := Compress([]byte(data), 0)
		if !ok || len(packed) >= len(data) {
			t.Errorf("%d bytes: compressed to %d, %v", len(data), len(packed), ok)
			continue
		}
		for _, limit := range []int64{0, int64(len(data)), int64(len(data)) + 1, Most, Most + 1} {
			got, err := Expand(packed, limit)
			if err != nil || string(got) != data {
				t.Errorf("%d bytes, limit %d: %d came back, %v", len(data), limit, len(got), err)
			}
		}
		if got, err := Expand(packed, int64(len(data))-1); !errors.Is(err, ErrTooLarge) || got != nil {
			t.Errorf("%d bytes, limit one less: %d bytes, %v", len(data), len(got), err)
		}
	}
}

// Compressing is for what gets smaller by it, the cost of saying so included.
func TestOnlyWhatGetsSmallerIsCompressed(t *testing.T) {
	for _, data := range [][]byte{nil, []byte("a"), []byte("0123456789"), noise(100), noise(1 << 20), plain(t, noise(5000))} {
		if packed, ok := Compress(data, 0); ok {
			t.Errorf("%d bytes were compressed to %d", len(data), len(packed))
		}
	}
	data := bytes.Repeat([]byte("a"), 1000)
	packed, ok := Compress(data, 0)
	if !ok {
		t.Fatal("not compressed")
	}
	saved := len(data) - len(packed)
	if _, ok := Compress(data, saved-1); !ok {
		t.Error("a byte is saved, and it was not compressed")
	}
	if _, ok := Compress(data, saved); ok {
		t.Error("nothing is saved, and it was compressed")
	}
}

func TestDamagedPayloads(t *testing.T) {
	good := plain(t, bytes.Repeat([]byte("fairlead "), 500))
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	for name, data := range map[string][]byte{
		"nothing":            nil,
		"no gzip":            []byte("just text"),
		"only the magic":     {0x1f, 0x8b},
		"a wrong method":     change(2, 7),
		"cut in the middle":  good[:len(good)/2],
		"without its end":    good[:len(good)-8],
		"one byte short":     good[:len(good)-1],
		"a wrong checksum":   change(len(good)-8, good[len(good)-8]^1),
		"a wrong length":     change(len(good)-4, good[len(good)-4]^1),
		"a changed byte":     change(len(good)-20, good[len(good)-20]^0x10),
		"something after it": append(bytes.Clone(good), "tail"...),
	} {
		if got, err := Expand(data, 0); !errors.Is(err, ErrDamaged) || got != nil {
			t.Errorf("%s: %d bytes, %v, want ErrDamaged", name, len(got), err)
		}
	}
	// gzip allows for several members one after the other.
	if got, err := Expand(append(bytes.Clone(good), good...), 0); err != nil || len(got) != 2*9*500 {
		t.Errorf("two members: %d bytes, %v", len(got), err)
	}
}

// A bomb costs what the limit allows for, not what it would expand to; and a small one that says that it is large costs
// next to nothing.
func TestExpandingIsBounded(t *testing.T) {
	bomb := plain(t, make([]byte, 256<<20))
	cost := func(data []byte, limit int64, want error) uint64 {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Expand(data, limit); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if n := cost(bomb, 1<<20, ErrTooLarge); n > 4<<20 {
		t.Errorf("a bomb cost %d bytes with a limit of 1 MiB", n)
	}
	if n := cost(bomb, 0, ErrTooLarge); n > 3*Most {
		t.Errorf("a bomb cost %d bytes without a limit", n)
	}
	liar := plain(t, []byte("small"))
	binary.LittleEndian.PutUint32(liar[len(liar)-4:], 60<<20)
	if n := cost(liar, 0, ErrDamaged); n > 1<<20 {
		t.Errorf("one that says it is large cost %d bytes", n)
	}
}

func TestManyAtOnce(t *testing.T) {
	var work sync.WaitGroup
	for g := range 8 {
		work.Go(func() {
			for i := range 200 {
				data := bytes.Repeat([]byte{byte(g), byte(i), 7}, 100+i*g)
				packed, ok := Compress(data, 0)
				if got, err := Expand(packed, 0); !ok || err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes came back as %d, %v", len(data), len(got), err)
				}
				_, _ = Expand(packed[:len(packed)/2], 0) // a reader that failed is used again
			}
		})
	}
	work.Wait()
}

// FuzzExpand compares with the standard library, which has no limit.
func FuzzExpand(f *testing.F) {
	f.Add([]byte(nil), 10)
	f.Add(plain(f, nil), 0)
	f.Add(plain(f, []byte("fairlead")), 8)
	f.Add(plain(f, bytes.Repeat([]byte("x"), 1<<16)), 1000)
	f.Add(append(plain(f, []byte("a")), plain(f, []byte("b"))...), 2)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		bound := limit
		if bound <= 0 || bound > Most {
			bound = Most
		}
		got, err := Expand(data, int64(limit))
		want, wantErr := oracle(data, bound)
		switch {
		case len(got) > bound:
			t.Fatalf("%d bytes over a limit of %d", len(got), bound)
		case err == nil && (wantErr != nil || !bytes.Equal(got, want)):
			t.Fatalf("%q, want %q, %v", got, want, wantErr)
		case err != nil && got != nil:
			t.Fatalf("%d bytes beside %v", len(got), err)
		case errors.Is(err, ErrTooLarge) && len(want) <= bound:
			t.Fatalf("too large, and it has %d bytes of %d", len(want), bound)
		case errors.Is(err, ErrDamaged) && wantErr == nil:
			t.Fatalf("%v, and it is whole", err)
		}
		if packed, ok := Compress(data, 0); ok {
			if back, err := Expand(packed, int64(len(data))); err != nil || !bytes.Equal(back, data) {
				t.Fatalf("%q came back as %q, %v", data, back, err)
			}
		}
	})
}

// oracle expands, and a byte beyond the bound when there is one.
func oracle(data []byte, bound int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, int64(bound)+1))
}

func BenchmarkCompress(b *testing.B) {
	data := bytes.Repeat([]byte(`{"order":17,"customer":"acme","lines":[{"sku":"A-1","n":2}]},`), 1000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, ok := Compress(data, 0); !ok {
			b.Fatal("not compressed")
		}
	}
}

func BenchmarkExpand(b *testing.B) {
	data := bytes.Repeat([]byte(`{"order":17,"customer":"acme","lines":[{"sku":"A-1","n":2}]},`), 1000)
	packed, _ := Compress(data, 0)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Expand(packed, 0); err != nil {
			b.Fatal(err)
		}
	}
}
