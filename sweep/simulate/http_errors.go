package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// apiError is a refusal. SGLang's routes write it in different shapes.
type apiError struct {
	status  int
	message string
	kind    string // type of the OpenAI shape
}

func badRequest(message string) *apiError {
	return &apiError{http.StatusBadRequest, message, "BadRequestError"}
}

// jsonProblem words a body that cannot be read, as FastAPI's validation does.
func jsonProblem(err error) string {
	var syntax *json.SyntaxError
	offset := int64(0)
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	}
	return fmt.Sprintf("1 validation error:\n  {'type': 'json_invalid', 'loc': ('body', %d), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': %s}}", offset, pyString(err.Error()))
}

// errorBody is the OpenAI shape of an error.
func errorBody(message, kind string, code int) object {
	var o object
	o.set("object", "error")
	o.set("message", message)
	o.set("type", kind)
	o.set("param", nil)
	o.set("code", code)
	return o
}

// writeError answers in the OpenAI shape.
func writeError(rw http.ResponseWriter, e *apiError) {
	writeJSON(rw, e.status, errorBody(e.message, e.kind, e.status))
}

// writeNativeError answers in the shape of /generate.
func writeNativeError(rw http.ResponseWriter, e *apiError) {
	writeJSON(rw, e.status, map[string]any{"error": map[string]string{"message": e.message}})
}

// writeNativeStreamError is /generate's refusal of a stream: a good head, one event, the end.
func writeNativeStreamError(rw http.ResponseWriter, e *apiError) {
	var inner object
	inner.set("message", e.message)
	inner.set("type", "invalid_request_error")
	inner.set("code", e.status)
	inner.set("retryable", false)
	data, err := json.Marshal(map[string]object{"error": inner})
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	startStream(rw)
	_, _ = rw.Write(append(append([]byte("data: "), data...), "\n\ndata: [DONE]\n\n"...))
}

// writeAbort answers a request that the scheduler refused, when it is no stream.
func writeAbort(rw http.ResponseWriter, cause *reason, native bool) {
	switch {
	case cause.Status == http.StatusServiceUnavailable:
		writeError(rw, &apiError{cause.Status, cause.Message, "503"})
	case native:
		writeNativeError(rw, &apiError{cause.Status, cause.Message, ""})
	default:
		writeError(rw, &apiError{cause.Status, cause.Message, "BadRequestError"})
	}
}
