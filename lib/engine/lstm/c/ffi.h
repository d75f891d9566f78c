// What a handler of XLA's FFI needs: the structs of xla/ffi/api/c_api.h, threads of XLA's, and
// errors.
#pragma once
#include <immintrin.h>

typedef long i64;
typedef struct { i64 size; void *extension; } head;

typedef struct { head h; int dtype; float *data; i64 rank, *dims; } buffer;
typedef struct { const char *name; i64 len; } span;
typedef struct { int dtype; void *value; } scalar;
typedef struct { i64 size; int type; void *next; struct metadata *metadata; } extension;
struct metadata { i64 size; head version; int major, minor; unsigned traits; i64 state; };
typedef struct { head h; void *future; } futureArgs;
typedef struct { head h; void *ctx; void (*task)(void *); void *data; } taskArgs;
typedef struct { head h; void *ctx; i64 *threads; } threadsArgs;
typedef struct { head h; void *error; } errorArgs;
typedef struct { head h; const char *message; int code; } messageArgs;
typedef struct {
	head h;
	head version; int major, minor;
	void *internal;
	void *(*errorCreate)(messageArgs *);
	void *errorMessage;
	void (*errorDestroy)(errorArgs *);
	void *others[8];
	void *(*schedule)(taskArgs *);
	void *(*threads)(threadsArgs *);
	void *(*futureCreate)(futureArgs *);
	void *(*futureAvailable)(futureArgs *);
} api;
typedef struct {
	head h;
	const api *api;
	void *ctx;
	int stage;
	struct { head h; i64 n; int *types; buffer **list; } args, rets;
	struct { head h; i64 n; int *types; span **names; scalar **list; } attrs;
	void *future;
} frame;

static inline i64 min(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 up(i64 a, i64 b) { return (a + b - 1) / b; }

// W is eight letters of a message.
#define W(a, b, c, d, e, f, g, h) ((i64)(a) | (i64)(b) << 8 | (i64)(c) << 16 | (i64)(d) << 24 | (i64)(e) << 32 | (i64)(f) << 40 | (i64)(g) << 48 | (i64)(h) << 56)

// refuse is the error of a call whose shapes do not fit together.
static void *refuse(const api *x, i64 what)
{
	i64 text[4] = { what, W(' ', 's', 'h', 'a', 'p', 'e', 's', ' '), W('d', 'i', 's', 'a', 'g', 'r', 'e', 'e') };
	messageArgs m = { { sizeof m, 0 }, (char *)text, 3 };
	return x->errorCreate(&m);
}

// drop is the end of an error that nothing depends on.
static void drop(const api *x, void *error)
{
	errorArgs d = { { sizeof d, 0 }, error };
	if (error)
		x->errorDestroy(&d);
}

// shaped says whether an array is float32 of such a rank, with these dimensions.
static int shaped(const buffer *b, i64 rank, i64 x, i64 y, i64 z)
{
	const i64 d[3] = { x, y, z };
	if (b->dtype != 11 || b->rank != rank)
		return 0;
	for (i64 i = 0; i < rank; i++)
		if (b->dims[i] != d[i])
			return 0;
	return 1;
}

// asks says whether XLA asks what the handler is, and answers.
static int asks(frame *f)
{
	extension *e = f->h.extension;
	if (!e || e->type != 1)
		return 0;
	e->metadata->major = f->api ? f->api->major : 0;
	e->metadata->minor = f->api ? f->api->minor : 3;
	e->metadata->traits = 0;
	return 1;
}

// team is threads at one job, which begins with it.
typedef struct {
	const api *api;
	void *future;
	i64 threads;
	_Atomic i64 thread, left;
} team;

// poolOf is how many threads XLA has.
static i64 poolOf(const frame *f)
{
	i64 n = 1;
	threadsArgs ask = { { sizeof ask, 0 }, f->ctx, &n };
	drop(f->api, f->api->threads(&ask)); // one, where there is no pool
	return n;
}

// start has threads do a job, this one among them.
static void *start(frame *f, team *t, i64 threads, void (*work)(void *))
{
	t->api = f->api;
	t->future = 0;
	t->thread = 0;
	t->left = t->threads = threads;
	if (threads > 1) {
		futureArgs new = { { sizeof new, 0 }, 0 };
		void *err = f->api->futureCreate(&new);
		if (err)
			return err;
		f->future = t->future = new.future;
		taskArgs task = { { sizeof task, 0 }, f->ctx, work, t };
		for (i64 i = 1; i < threads; i++) {
			err = f->api->schedule(&task);
			if (err) { // all of it is this thread's
				drop(f->api, err);
				work(t);
			}
		}
	}
	work(t);
	return 0;
}

// leave is the end of a thread's share. Whoever is the last says that the results are there,
// which ends the job's memory.
static void leave(team *t)
{
	const api *x = t->api;
	futureArgs f = { { sizeof f, 0 }, t->future };
	if (--t->left == 0 && f.future)
		drop(x, x->futureAvailable(&f));
}
