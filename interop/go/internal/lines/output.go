package lines

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/libp2p/go-libp2p/core/host"
)

// Fields are those of an event, without its name.
type Fields map[string]any

var (
	output sync.Mutex
	file   = os.Stdout
)

// Aside has events go to standard error, where standard output is for something else.
func Aside() { file = os.Stderr }

// Emit prints one event as one line. It ends the process when nobody reads it any more.
func Emit(event string, more Fields) {
	more["event"] = event
	line, err := json.Marshal(more)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	if _, err := file.Write(append(line, '\n')); err != nil {
		os.Exit(1)
	}
}

// Failed tells that a command failed.
func Failed(op string, err error) {
	Emit("failed", Fields{"op": op, "error": err.Error()})
}

// Digest adds the size and hash of a payload.
func Digest(data []byte, more Fields) Fields {
	sum := sha256.Sum256(data)
	more["size"] = len(data)
	more["sha256"] = hex.EncodeToString(sum[:])
	return more
}

// Listening tells the host's addresses and the versions of Go and of these modules.
func Listening(h host.Host, modules ...string) {
	addrs := []string{}
	for _, addr := range h.Addrs() {
		addrs = append(addrs, addr.String()+"/p2p/"+h.ID().String())
	}
	versions := map[string]string{"go": strings.TrimPrefix(runtime.Version(), "go")}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if slices.Contains(modules, module.Path) {
				versions[path.Base(module.Path)] = strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	Emit("listening", Fields{"peer": h.ID().String(), "addrs": addrs, "versions": versions})
}
