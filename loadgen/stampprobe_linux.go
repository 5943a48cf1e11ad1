//go:build linux && (amd64 || arm64)

package loadgen

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// stamping is a socket that wants kernel stamps. While one is open, the kernel stamps every packet as it
// comes; the first to ask is served late.
type stamping struct{ fd int }

func (s *stamping) close() {
	if s != nil {
		closeSocket(s.fd)
	}
}

const probeTime = 200 * time.Millisecond // for the kernel to begin with its stamps

// probeStamps asks over loopback whether this kernel stamps what arrives over TCP (Linux does since 4.14; sandboxes that
// imitate it do not). why says what is missing.
func probeStamps(ctx context.Context) (keep *stamping, why string) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err.Error()
	}
	defer l.Close()
	fd, err := openSocket(newSocketAddress(l.Addr().(*net.TCPAddr).AddrPort()), nil, true)
	if err != nil {
		return nil, err.Error()
	}
	keep = &stamping{fd}
	if why = keep.probe(ctx, l); why != "" {
		keep.close()
		return nil, why
	}
	return keep, ""
}

func (s *stamping) probe(ctx context.Context, l net.Listener) string {
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(probeTime))
	far, err := l.Accept()
	if err != nil {
		return err.Error()
	}
	defer far.Close()
	in := newReceiver(64, true)
	for end := time.Now().Add(probeTime); time.Now().Before(end) && ctx.Err() == nil; {
		before := time.Now().UnixNano()
		if _, err := far.Write([]byte{1}); err != nil {
			return err.Error()
		}
		for range 100 {
			in.reset()
			b, stamp, errno := in.read(s.fd)
			if errno == syscall.EAGAIN {
				wait(ctx, 100*time.Microsecond)
				continue
			}
			if errno != 0 || len(b) == 0 {
				return fmt.Sprintf("the probe's connection ended: %v", errno)
			}
			if now := time.Now().UnixNano(); stamp >= before-int64(time.Second) && stamp <= now+int64(time.Second) && stamp != 0 {
				return ""
			}
			break
		}
		wait(ctx, time.Millisecond)
	}
	return "the kernel gives no receive stamps for TCP"
}

// addressesOf resolves host and port.
func addressesOf(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var list []netip.AddrPort
	for _, ip := range ips {
		list = append(list, netip.AddrPortFrom(ip.Unmap(), uint16(number)))
	}
	return list, nil
}

// addressOf is the address that connections go to: of several, the first that answers.
func addressOf(ctx context.Context, address string) (netip.AddrPort, error) {
	list, err := addressesOf(ctx, address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(list) > 1 {
		for _, a := range list {
			conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", a.String())
			if err == nil {
				conn.Close()
				return a, nil
			}
		}
	}
	return list[0], nil
}
