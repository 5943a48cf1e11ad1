package sweep

import (
	"net/url"
	"slices"
)

// notAttached are the keys that say how a server is started, or that need more than one.
var notAttached = []string{"command", "workdir", "env", "hosts", "server", "sweep", "exclude", "include", "baseline", "unacceptable", "drift"}

// readAttach reads the server that somebody else runs. What only a launch has is refused beside it.
func (r *reading) readAttach() {
	flush, flushed := r.top["flush"]
	key, keyed := r.top["attach_key"]
	f, ok := r.top["attach"]
	if !ok {
		if keyed {
			r.problem(key.key, "leave it out: sweep's own servers ask for no key", "attach_key is of an attached server only")
		}
		if flushed {
			r.problem(flush.key, "leave it out: the cache of sweep's own servers is always emptied between loads", "flush is of an attached server only")
		}
		return
	}
	if s, ok := r.text(f.value, "attach"); ok {
		u, err := url.Parse(s)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
			r.problem(f.value, "write http://HOST:PORT", "attach %q is no URL of a server", clip(s))
		case u.User != nil:
			r.problem(f.value, "take it out", "attach holds a password, which would stand in files")
		case u.Path != "" && u.Path != "/":
			r.problem(f.value, "write http://HOST:PORT: the routes below it are the engine's", "attach %q has a path", clip(s))
		default:
			r.grid.Attach = u.Scheme + "://" + u.Host
		}
	}
	for _, name := range notAttached {
		if other, ok := r.top[name]; ok {
			r.problem(other.key, "take one of the two out: an attached server runs as it was started", "%q has no meaning beside attach", name)
			delete(r.top, name)
		}
	}
	if keyed {
		if s, ok := r.text(key.value, "attach_key"); ok {
			r.grid.AttachKey = s
			if !envName.MatchString(s) { // it may be the key itself, so it is not repeated
				r.problem(key.value, "write attach_key: NAME, and put the key into the environment", "attach_key is no name of an environment variable")
			}
		}
	}
	if flushed {
		switch s, ok := r.text(flush.value, "flush"); {
		case !ok:
		case !slices.Contains([]string{"true", "false"}, s):
			r.problem(flush.value, "write true or false", "flush is true or false, not %q", s)
		default:
			r.grid.Flush = s == "true"
		}
	}
}
