package jupyter

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"
)

// abortGrace is how long a cell that failed at once is held before its reply,
// so that the rest of a Run All has arrived and can be aborted.
const abortGrace = 20 * time.Millisecond

// executeContent is what an execute_request says. What may be left out is a
// pointer where its default is not zero.
type executeContent struct {
	Code            *string           `json:"code"`
	Silent          bool              `json:"silent"`
	StoreHistory    *bool             `json:"store_history"`
	UserExpressions map[string]string `json:"user_expressions"`
	AllowStdin      *bool             `json:"allow_stdin"`
	StopOnError     *bool             `json:"stop_on_error"`
}

func or(value *bool, otherwise bool) bool {
	if value == nil {
		return otherwise
	}
	return *value
}

// executeRequest reads r.
func executeRequest(r request) (ExecuteRequest, *Error) {
	var content executeContent
	if err := json.Unmarshal(r.Content, &content); err != nil {
		return ExecuteRequest{}, fail("BadRequest", "jupyter: execute_request: %v", err)
	}
	if content.Code == nil {
		return ExecuteRequest{}, fail("BadRequest", "jupyter: execute_request: its content has no code")
	}
	var metadata struct {
		Cell string `json:"cellId"`
	}
	json.Unmarshal(r.Metadata, &metadata) // not part of the protocol: an id of another kind is no id
	return ExecuteRequest{
		Code:            *content.Code,
		Silent:          content.Silent,
		StoreHistory:    or(content.StoreHistory, true) && !content.Silent,
		AllowStdin:      or(content.AllowStdin, true),
		StopOnError:     or(content.StopOnError, true),
		UserExpressions: content.UserExpressions,
		Cell:            metadata.Cell,
	}, nil
}

// execute runs a cell, or says that it was aborted.
func (c *core) execute(s *shell, r request) {
	c.busy(r, true)
	defer c.idle(r)

	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	left := s.begins(r.Header.Session)
	c.mu.Lock()
	aborted := r.serial <= s.aborted
	s.cancel = cancel
	if r.serial <= s.halted || c.halt.meant(r) {
		cancel()
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		s.cancel = nil
		c.mu.Unlock()
	}()
	out := &output{core: c, ctx: ctx, request: r, kept: &kept{}}
	c.keep(out)
	started := time.Now()
	metadata := fields{"started": started.UTC().Format(dateLayout)}
	if aborted {
		count := c.counted(false)
		out.ended(func() { c.reply(r, "execute_reply", fields{"status": "aborted", "execution_count": count}, metadata) })
		return
	}

	req, bad := executeRequest(r)
	var result ExecuteResult
	if bad != nil {
		result.Err = bad
		req.Silent = true // there is nothing to show in the notebook
	} else {
		req.Left = left
		result = c.run(&req, out)
	}

	content := fields{"status": "ok"}
	if result.Err != nil {
		content = failure(result.Err, nil)
		if !req.Silent {
			out.fail(fields{"ename": content["ename"], "evalue": content["evalue"], "traceback": content["traceback"]})
		}
	}
	// A cell that was stopped in its last instant has gone well; what follows it has
	// been stopped with it.
	if req.StopOnError && (result.Err != nil || ctx.Err() != nil) {
		time.Sleep(abortGrace - time.Since(started))
		s.abort()
	}
	content["execution_count"] = cmp.Or(req.Count, c.counted(false)) // cells of subshells may have counted since
	content["payload"] = orNone(result.Payload)
	content["user_expressions"] = orNoMap(result.UserExpressions)
	out.ended(func() { c.reply(r, "execute_reply", content, metadata) })
}

// run hands the cell to the interpreter.
func (c *core) run(req *ExecuteRequest, out *output) (result ExecuteResult) {
	req.Count = c.counted(req.StoreHistory)
	if req.StoreHistory && strings.TrimSpace(req.Code) != "" {
		if err := c.history.add(req.Count, req.Code); err != nil {
			c.log.Warn("jupyter: history not written", "error", err)
		}
	}
	if !req.Silent {
		c.publish(out.request.RawHeader, "execute_input", fields{"code": req.Code, "execution_count": req.Count})
	}
	out.silent, out.allowStdin, out.count = req.Silent, req.AllowStdin, req.Count
	panicked := c.guard("execute_request", func() { result = c.interpreter.Execute(out.ctx, *req, out) })
	if panicked != nil {
		result = ExecuteResult{Err: panicked}
	}
	out.finish()
	return result
}

// counted returns the execution count, one more if the cell counts.
func (c *core) counted(more bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if more {
		c.count++
	}
	return c.count
}
