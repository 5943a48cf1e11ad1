// Command peers measures load generators side by side: ours, those that come with SGLang and vLLM, and a bare reader as
// the limit, all against one server whose timing is known.
//
//	go run ./bench/peers                     # installs what is missing, five interleaved repeats, tables
//	go run ./bench/peers -install            # installs only
//	go run ./bench/peers -quick              # one repeat of small cases: does everything work?
//	go run ./bench/peers -peers none         # ours and the bare reader: no download
//
// The peers come by name and version into throw-away environments below the user's cache folder (sweep/peers). The
// server has a core of its own and polls; each client has another, with all its processes. Clients take turns, in
// reversed order in every second repeat. The error of a client is what it reports less what the server's own log says
// of the same requests. CPU is that of the client's processes between the first measured request and the end of the load.
//
// What is written: the tables on standard output, and in the folder of -out table.md, runs.csv (one line a run),
// versions.json and each client's own files.
//
// Our command is a template, in which {url} {streams} {requests} {tokens} {stamps} and {out} are replaced:
//
//	sweep load --url {url} --model mock --concurrency {streams} --requests {requests} --input 16 --output {tokens} --stamps {stamps} --json {out}
//
// It writes to {out} an object with the metrics under the names of a record (mean_ttft_ms, p99_itl_ms, …), at the top or
// below "values", beside "completed", "failed" and "duration_s". {stamps} is kernel or user.
package main
